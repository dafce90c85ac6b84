"""The errors of an emulator that cannot start: a bad file, a bad argument, a missing tool."""

from __future__ import annotations


class EmulateError(Exception):
    """One sentence for the user; nothing was executed."""
