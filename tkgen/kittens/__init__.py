"""The embedded ThunderKittens-compatible headers and the table of the names they offer.

>>> (include_dir() / "kittens.cuh").is_file()
True
"""

from pathlib import Path


def include_dir() -> Path:
    """The directory to pass to the compiler with `-I`: it holds `kittens.cuh` and `pyutils/pyutils.cuh`."""
    return Path(__file__).parent / "include"


__all__ = ["include_dir"]
