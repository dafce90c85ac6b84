"""The specs in the documentation are real: complete ones resolve, prove and compile; stated commands exist."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tkgen.api import Spec, load
from tkgen.checks.families import check
from tkgen.cli import app
from tkgen.diagnostics import Severity
from tkgen.ir.program import matrix_program as resolve
from tkgen.schedule.plan import plan
from tkgen.source import SourceFile
from tkgen.syntax import ast, statements
from tkgen.syntax.format import format_source
from tkgen.syntax.parser import parse, parse_fragment
from tkgen.syntax.statements import flatten
from tkgen.targets import load_target

DOCS = Path(__file__).parents[2] / "docs"
FRAGMENT = re.compile(r"^```tk fragment\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A kernel that a fragment's statements replace those of, by kind.
BASE = """kernel base
  dims M = 8192, N = 8192, K = 8192
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 128 x 128 step 64
  waves 2 x 2
  shared A, B via registers
  registers A, B slice 32
  accumulate C : f32 tile 32 x 32
  store C
"""
# What is copied straight to LDS, and has two halves to copy.
DIRECT = """kernel base
  dims M = 8192, N = 8192, K = 8192
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 256 x 128 step 64
  waves 2 x 2
  shared A, B buffers 2 via direct
  registers A, B slice 64
  accumulate C : f32 tile 32 x 32 interleaved
  store C
"""
# A phase shift needs waves in two halves and a schedule to shift.
PHASED = (
    BASE.replace("128 x 128", "256 x 256").replace("waves 2 x 2", "waves 2 x 4")
    + """  schedule
    cluster read A(*; 0) B(*; 0)  wait lds 0
    cluster multiply (*, *; 0)
    cluster fetch A[k+1] B[k+1]  read A(*; 1) B(*; 1)  wait lds 0
    cluster multiply (0..1, *; 1)
    cluster write A[k+1] B[k+1]  wait lds 0
    cluster multiply (2..3, *; 1)
"""
)
BLOCK = re.compile(r"^```tk\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def complete(page: str) -> list[str]:
    return [b for b in BLOCK.findall((DOCS / page).read_text()) if re.search(r"^kernel ", b, re.MULTILINE)]


@pytest.mark.parametrize("number", range(len(complete("language.md"))))
def test_every_complete_example_of_the_language_reference_compiles(number: int, tmp_path: Path) -> None:
    path = tmp_path / "example.tk"
    path.write_text(complete("language.md")[number])
    if re.search(r"^sequence ", path.read_text(), re.MULTILINE):
        made = CliRunner().invoke(app, ["build", str(path), "-o", str(tmp_path / "out")])
        assert made.exit_code == 0 and "0 spills" in made.output, made.output
        return
    if "target sm_90a" in path.read_text():  # tests/hopper builds such
        assert CliRunner().invoke(app, ["check", str(path)]).exit_code == 0
        return
    spec = load(path)
    assert not [d for d in spec.diagnostics if d.severity is Severity.ERROR]
    built = spec.build()
    assert built.hsaco[:4] == b"\x7fELF"
    assert built.resources.vgpr_spills == 0 and not built.function.flat_accesses


def test_the_language_reference_has_examples() -> None:
    assert len(complete("language.md")) >= 3


def fragments() -> list[str]:
    return FRAGMENT.findall((DOCS / "language.md").read_text())


def steps(schedule: ast.Schedule) -> list[object]:
    """The lines of a schedule, without their places."""
    return [op for cluster in schedule.clusters for op in cluster.ops]


def _attention_with(fragment: str) -> None:
    """A written schedule of equations is that of attention in eight waves."""
    text = (Path(__file__).parents[2] / "specs/attention/attention_ping_pong.tk").read_text(encoding="utf-8")
    assert "  schedule ping_pong\n" in text
    lines = "".join(f"  {line}\n" for line in fragment.splitlines())
    spec = load(text.replace("  schedule ping_pong\n", lines))
    assert isinstance(spec.check(), Spec)


@pytest.mark.parametrize("number", range(len(fragments())))
def test_every_fragment_of_the_language_reference_compiles_in_a_kernel(number: int, tmp_path: Path) -> None:
    fragment = parse_fragment(SourceFile("fragment.tk", fragments()[number]))
    if any(isinstance(s, statements.EQUATIONS) for s in fragment):  # tests/equations types whole kernels
        file = SourceFile("fragment.tk", fragments()[number])
        assert format_source(file) == file.text
        return
    if any(isinstance(o, ast.Compute) for s in flatten(fragment) if isinstance(s, ast.Schedule) for o in steps(s)):
        _attention_with(fragments()[number])
        return
    text = PHASED if any(isinstance(s, ast.Phase) for s in fragment) else BASE
    target = load_target("gfx942")
    if re.search(r"\bcopy [A-Z]", fragments()[number]):
        text, target = DIRECT, load_target("gfx950")
    base = parse(SourceFile("base.tk", text))
    kinds = {type(s) for s in fragment} - {ast.Param}
    kept = [s for s in base.body if type(s) not in kinds]
    # Declarations come first; what a fragment replaces keeps its place otherwise.
    kernel = replace(base, body=(*fragment, *kept))
    program = resolve(kernel)
    scheduled = plan(program, target)
    errors = [d for d in check(scheduled, target) if d.severity is Severity.ERROR]
    assert not errors, errors
    built = Spec(tmp_path / "base.tk", program, target, {}, scheduled).build()
    assert built.resources.vgpr_spills == 0
