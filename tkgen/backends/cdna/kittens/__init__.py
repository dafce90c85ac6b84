"""The embedded ThunderKittens-compatible headers, the table of the names they offer, and a model of their LDS layout.

>>> (include_dir() / "kittens.cuh").is_file()
True
"""

from pathlib import Path

from tkgen.backends.cdna.kittens.surface import surface


def include_dir() -> Path:
    """The directory to pass to the compiler with `-I`: it holds `kittens.cuh` and `pyutils/pyutils.cuh`."""
    return Path(__file__).parent / "include"


__all__ = ["include_dir", "surface"]
