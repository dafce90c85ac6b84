"""From a checked spec to machine code (`compiling`), what is known of it (`model`), and the files of it (`outputs`)."""

from tkgen.build.model import Build

__all__ = ["Build"]
