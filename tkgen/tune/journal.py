"""The trials of a search on disk: one JSON object per line, appended whole, so that a killed search can go on.

The first line says what is searched; a search goes on only where that is the same. A trial that learns more (verified,
timed) is appended again: the last line of a candidate counts. A line without its end is one that was being written
when the process died; it is dropped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from tkgen.toolchain.files import write_atomic
from tkgen.tune.errors import TuneError
from tkgen.tune.space import Candidate
from tkgen.tune.trial import Trial

FILE = "trials.jsonl"


class Journal:
    """The trials known so far, in memory and, with a folder, in its `trials.jsonl`."""

    def __init__(self, directory: Path | None, request: Mapping[str, object], resume: bool):
        """Begin a journal of `request` in `directory`, or with `resume` go on with the one there.

        Raises:
            TuneError: the journal there is of another request, or is none.
            OSError: the folder cannot be written.
        """
        self.trials: dict[Candidate, Trial] = {}
        self.path = directory / FILE if directory else None
        header = json.dumps({"tkgen tune": request}, sort_keys=True)
        if self.path is None:
            return
        kept = [header]
        if resume and self.path.exists():
            lines = self.path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
            if lines and lines[0] != header:
                raise TuneError(
                    f"{self.path} holds the trials of another search (other specs, sizes, ranges or tkgen version); "
                    "give another folder, or leave out --resume to start over"
                )
            for number, line in enumerate(lines[1:], 2):
                trial = self._read(line, number)
                self.trials[trial.candidate] = trial
            kept += lines[1:]
        write_atomic(self.path, "\n".join(kept) + "\n")

    def _read(self, line: str, number: int) -> Trial:
        try:
            return Trial.from_json(json.loads(line))
        except (TypeError, KeyError, ValueError, AttributeError):
            raise TuneError(f"{self.path}:{number} is no trial; leave out --resume to start over") from None

    def add(self, trial: Trial) -> None:
        """Remember `trial`; on disk by one write of one line."""
        self.trials[trial.candidate] = trial
        if self.path is None:
            return
        line = (json.dumps(trial.to_json()) + "\n").encode("utf-8")
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
