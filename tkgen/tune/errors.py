"""The errors that keep a search from running; each message is one sentence for the user."""

from __future__ import annotations


class TuneError(Exception):
    """The request is wrong: a range that names nothing, a folder of another search."""


class MissingPackage(TuneError):
    """The request needs a package that is not installed; the message says how to get it."""


class NothingFits(TuneError):
    """No candidate is left: the checks, the compiler or the emulator refused every one."""
