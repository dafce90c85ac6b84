"""The results of a check on the disk, a file each, so that it continues where it was stopped.

DIR/run.json                    what is checked: tkgen, GPU, options
DIR/results/SECTION/ITEM.json   a finished item
DIR/begun.json                  the item that is running; it stays where it ended the process
DIR/messages.txt                standard error of the process, which GPU drivers write to
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tkgen import __version__
from tkgen.toolchain.files import write_atomic

Result = dict[str, Any]
"""A finished item as plain data: `section`, `item`, `verdict`, `said`, `seconds`, and what its section adds."""

FORMAT = 1


class StateError(Exception):
    """The folder holds another check, is used by another process, or is damaged."""


@dataclass(frozen=True)
class State:
    """The folder of one check."""

    folder: Path

    @property
    def messages(self) -> Path:
        """The file that has the standard error of the worker."""
        return self.folder / "messages.txt"

    def start(self, identity: Mapping[str, object]) -> None:
        """Begin or continue the check of `identity`. Raises StateError where the folder holds another."""
        path, wanted = self.folder / "run.json", dict(identity)
        if path.exists():
            known = _read(path)
            differing = [name for name in {**known, **wanted} if known.get(name) != wanted.get(name)]
            if differing:
                raise StateError(
                    f"{self.folder} holds a check with another {', '.join(sorted(differing))}; give another folder "
                    "with --into, or start over with --fresh"
                )
        else:
            write_atomic(path, json.dumps(wanted, indent=1))

    def identity(self) -> dict[str, Any]:
        """The identity of the check."""
        return _read(self.folder / "run.json")

    def clear(self) -> None:
        """Forget the check: remove the files that this class writes, and no others."""
        for path in [*self.folder.glob("results/*/*.json"), self.folder / "run.json", self.folder / "begun.json"]:
            path.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder. Raises StateError where another process does."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise StateError(f"another check is running in {self.folder}") from error
            yield

    # ------------------------------------------------------------ items

    def begin(self, section: str, item: str) -> None:
        """Note that an item starts."""
        write_atomic(self.folder / "begun.json", json.dumps([section, item]))

    def begun(self) -> tuple[str, str] | None:
        """The item that had started when the process ended; None where none had."""
        path = self.folder / "begun.json"
        if not path.exists():
            return None
        section, item = json.loads(path.read_text(encoding="utf-8"))
        return section, item

    def finish(self, result: Result) -> None:
        """Keep the result of an item, which has then not begun any longer."""
        write_atomic(self._path(result["section"], result["item"]), json.dumps(result, indent=1))
        (self.folder / "begun.json").unlink(missing_ok=True)

    def result(self, section: str, item: str) -> Result | None:
        """The result of an item; None if it has not finished, or its file is damaged."""
        try:
            return _read(self._path(section, item))
        except (OSError, StateError):
            return None

    def results(self) -> list[Result]:
        """All finished items, by section and name."""
        return [_read(path) for path in sorted(self.folder.glob("results/*/*.json"))]

    def _path(self, section: str, item: str) -> Path:
        plain = re.sub(r"[^\w.-]+", "+", item)
        return self.folder / "results" / section / f"{plain}.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StateError(f"{path.name} in {path.parent} is damaged; remove it, or start over with --fresh") from error
    if not isinstance(found, dict):
        raise StateError(f"{path.name} in {path.parent} is damaged; remove it, or start over with --fresh")
    return found


@cache
def tkgen_identity() -> str:
    """The version of tkgen, and a hash of its sources: results of other code are none of a check."""
    package, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if path.suffix in (".py", ".cpp", ".h", ".cuh", ".toml", ".jinja", ".tk") and "node_modules" not in path.parts:
            digest.update(path.name.encode() + path.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:12]}"
