"""`check --fix` makes nothing worse: whatever it changes in a spec is judged before it is written."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import corpus
import pytest
from diagnosing import diagnose
from typer.testing import CliRunner

from tkgen.cli import app
from tkgen.diagnostics import Diagnostic, Edit, Fix, Label, Severity
from tkgen.diagnostics.fixes import harmless_fixes
from tkgen.source import SourceFile, Span

RIGHT = """kernel t
  dims M = 128, N = 128, K = 128
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  scalar beta : f32
  block 128 x 128 step 32
  waves 2 x 2
  shared A, B buffers 1
  accumulate C : f32 tile 32 x 32
  store C
"""


def errors(found: tuple[Diagnostic, ...] | list[Diagnostic]) -> Counter[str]:
    return Counter(d.code for d in found if d.severity is Severity.ERROR)


@pytest.mark.parametrize("spec", corpus.SPECS, ids=lambda s: s.stem)
def test_no_spec_of_the_corpus_gets_worse(spec: Path, tmp_path: Path) -> None:
    before = corpus.diagnosed(spec)
    copy = tmp_path / spec.name
    shutil.copy(spec, copy)
    line = re.search(r"^# options: (.*)$", spec.read_text(encoding="utf-8"), re.MULTILINE)
    words = [w.replace("target=", "--target=") for w in line[1].split()] if line else []
    CliRunner().invoke(app, ["check", str(copy), "--fix", *words])
    after = corpus.diagnosed(copy)
    if not any(code.startswith(("E1", "E2")) for code in errors(before)):  # they hide what comes behind them
        assert not errors(after) - errors(before)
    if not errors(before):
        assert not errors(after)


def test_a_fix_that_breaks_a_right_spec_is_left_out(tmp_path: Path) -> None:
    """Two fixes of a right spec, one of which takes its store away: the other is made."""
    path = tmp_path / "t.tk"
    file = SourceFile(str(path), RIGHT)

    def removal(line: str) -> Diagnostic:
        start = RIGHT.index(line)
        span = Span(file, start, start + len(line))
        return Diagnostic("W502", "not needed", Label(span), fix=Fix("remove it", (Edit(span, ""),)))

    def judge(text: str) -> tuple[Diagnostic, ...]:
        path.write_text(text)
        return diagnose(path)

    found = [removal("  store C\n"), removal("  scalar beta : f32\n")]
    assert not errors(judge(RIGHT))
    assert harmless_fixes(RIGHT, found, judge) == RIGHT.replace("  scalar beta : f32\n", "")


def test_a_fix_of_a_text_that_cannot_be_read_may_bring_up_what_it_hid(tmp_path: Path) -> None:
    path = tmp_path / "t.tk"
    path.write_text(RIGHT.replace("global B", "globl B").replace("buffers 1", "buffers 9"))
    CliRunner().invoke(app, ["check", str(path), "--fix"])
    assert "global B" in path.read_text() and set(errors(diagnose(path))) == {"E501"}
