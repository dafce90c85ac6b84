"""The corpus: small specs, each a real mistake, and what tkgen says of it; `bless.py` takes it as expected.

A spec may carry a comment `# options: target=gfx950 -D M=256`, the command line it is checked with.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from diagnosing import diagnose, options

from tkgen.diagnostics import Diagnostic
from tkgen.diagnostics.render import render_text

FOLDER = Path(__file__).parent
SPECS = sorted(FOLDER.glob("*.tk"))


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Paths in messages are relative to the working directory, so that they are the same everywhere."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def diagnosed(spec: Path) -> tuple[Diagnostic, ...]:
    """Findings in a spec of the corpus."""
    line = re.search(r"^# options: (.*)$", spec.read_text(encoding="utf-8"), re.MULTILINE)
    defines, target = options(line[1].split() if line else ())
    with inside(spec.parent):
        return diagnose(Path(spec.name), defines, target)


def rendered(spec: Path) -> str:
    """The same as text for people."""
    return render_text(diagnosed(spec))


def expected(spec: Path) -> Path:
    """The file with the text that is expected."""
    return spec.with_suffix(".txt")
