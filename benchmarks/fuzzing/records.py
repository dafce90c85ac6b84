"""Results of a sweep as lines of JSON: written one by one, read again to go on or to print the table."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from fuzzing.verdict import Result

FILE = "results.jsonl"
LONGEST = 4000  # characters of a detail that are kept


class Records:
    """The results in a folder; `add` appends one and flushes, so that a killed sweep loses none."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        self.results = read(self.path)
        self._file: TextIO = self.path.open("a")
        if self.path.stat().st_size and not self.path.read_bytes().endswith(b"\n"):
            self._file.write("\n")  # the sweep before this one was stopped within a line

    def add(self, result: Result) -> None:
        """Append one result."""
        self._file.write(line(result) + "\n")
        self._file.flush()


def line(result: Result) -> str:
    """A result as one line of JSON."""
    values = asdict(result) | {"detail": result.detail[:LONGEST], "features": sorted(result.features)}
    values |= {"seconds": round(result.seconds, 3), "cpu": round(result.cpu, 3)}
    return json.dumps(values)


def read(path: Path) -> list[Result]:
    """The results in a file, the last of each seed; a line that was not finished is left out."""
    found: dict[tuple[str, int], Result] = {}
    for text in path.read_text().splitlines() if path.exists() else []:
        try:
            values = json.loads(text)
        except json.JSONDecodeError:
            continue
        result = Result(**values | {"features": frozenset(values["features"])})
        found[result.family, result.seed] = result
    return list(found.values())
