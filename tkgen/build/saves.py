"""The state of the files of a spec on disk: `tkgen watch` waits until it changes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from tkgen.diagnostics import SpecError
from tkgen.syntax.parser import spec_paths

State: TypeAlias = tuple[tuple[Path, int, int], ...]


class Saves:
    """The files of the spec at `path`, those that it has included at any time among them."""

    def __init__(self, path: Path, include_roots: Sequence[Path] = ()):
        self.path, self.include_roots = path, include_roots
        self.files = {path}

    def state(self) -> State:
        """Each file that is there, when it was changed (ns) and its bytes: another tuple after a save."""
        with suppress(SpecError, OSError):  # what is broken now was included before
            self.files |= spec_paths(self.path, self.include_roots)
        found = []
        for file in sorted(self.files):
            with suppress(OSError):  # one that is gone, or is being replaced
                stat = file.stat()
                found.append((file, stat.st_mtime_ns, stat.st_size))
        return tuple(found)
