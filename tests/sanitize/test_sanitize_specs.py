"""Specs under the referee: their own launch, and findings at the spec's statements."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tkgen.api import load
from tkgen.backends.cdna import kittens
from tkgen.cli import app
from tkgen.emulate import load as load_code
from tkgen.sanitize import from_spec, sanitize
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.discover import find_compiler

SPEC = """\
kernel small
  dims M = dynamic, N = 128, K = 192
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 64 x 64 step 32
  waves 2 x 2
  shared A, B
  accumulate C : f32 tile 32 x 32
  store C
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "small.tk"
    path.write_text(SPEC)
    return path


def run(path: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["sanitize", str(path), "--schedules", "2", *options])


def test_an_empty_batch_is_named(tmp_path: Path) -> None:
    path = tmp_path / "batch.tk"
    path.write_text("""kernel batch
  dims B = dynamic, M = 64, N = 64, K = 64
  global X : bf16[B, M, K]
  global Y : bf16[N, K]
  global Z : f32[B, M, N]
  over b in B, m in M by 64, n in N by 64
  waves 2 x 2
  shared X, Y
  each k in K by 32
    s = s + X[b, m, k] @ Y[n, k].T
  Z[b, m, n] = s
""")
    result = run(path, "-D", "B=0")
    assert result.exit_code == 2, result.output
    assert "B=0: batch launches no kernel, so there is nothing to check" in " ".join(result.output.split())
    assert run(path, "-D", "B=1", "--schedules", "1").exit_code == 0


def test_a_spec_needs_no_arguments(spec: Path) -> None:
    result = run(spec, "-D", "M=192")
    assert result.exit_code == 0 and "no findings; 6 blocks, 2 schedules" in result.output
    assert run(spec, "-D", "M=128 K=64").exit_code == 0


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        ([], "M is dynamic: give it a size", 2),
        (["-D", "M=100"], "M must be a multiple of 64", 2),
        (["-D", "M=x"], "integers or `dynamic`", 2),
        (["-D", "M=128", "--arg", "i32"], "tkgen chooses the arguments of a spec", 2),
        (["-D", "Q=128"], "E210", 1),
        (["-D", "M=128", "-t", "gfx000"], "gfx000", 2),
    ],
)
def test_what_is_wrong_is_said(spec: Path, options: list[str], message: str, code: int) -> None:
    result = run(spec, *options)
    assert result.exit_code == code and message in result.output, result.output


def test_a_spec_that_the_checks_refuse_is_not_run(spec: Path) -> None:
    spec.write_text(SPEC + "  schedule\n    cluster load A B\n    group read A B  multiply\n")
    result = run(spec, "-D", "M=64")
    assert result.exit_code == 1 and "error[E302]" in result.output and "schedules" not in result.output


def test_findings_stand_at_statements_of_the_spec(spec: Path) -> None:
    """The generated kernel without its barriers: the race is said to be at the spec's own lines."""
    ((subject, launch),) = from_spec(spec, None, defines={"M": 64})
    made = load(spec, {"M": None})
    text = made.source.text
    assert "tk::lds_barrier();" in text
    broken = text.replace("tk::lds_barrier();", "")
    compiler = find_compiler(made.target)
    built = compile_device(
        broken, made.target, compiler, include_dirs=[kittens.include_dir()], source_name="small.cpp", outputs=["hsaco"]
    )
    assert built.hsaco is not None
    code = load_code(built.hsaco)
    verdict = sanitize(replace(subject, code=code), launch, schedules=2)
    races = [d for d in verdict.diagnostics if d.code == "E701"]
    assert races and {d.code for d in verdict.diagnostics} <= {"E701", "E702", "E712"}
    for race in races:
        places = [race.primary, *race.secondary]
        assert all(label and label.span.file.name == str(spec) for label in places)
        assert all(label.span.text in SPEC for label in places if label)
        assert any("(small.cpp:" in note for note in race.notes)
    assert any("shared A, B" in label.span.text for race in races for label in (race.primary, *race.secondary) if label)


def test_wrong_numbers_are_found_by_the_comparison_with_torch(spec: Path) -> None:
    ((subject, launch),) = from_spec(spec, None, defines={"M": 64})
    ((_, other),) = from_spec(spec, None, defines={"M": 64}, seed=1)
    mixed = replace(launch, arguments=replace(launch.arguments, check=other.arguments.check))
    verdict = sanitize(subject, mixed, schedules=1)
    assert [d.code for d in verdict.diagnostics] == ["E712"] and not verdict.clean
    assert "elements are wrong" in verdict.diagnostics[0].message


@pytest.mark.parametrize("name", ["split_k", "stream_k"])
def test_outputs_that_kernels_add_to_start_at_zero(name: str) -> None:
    path = Path(__file__).parents[2] / "specs" / f"{name}.tk"
    sizes = {d.name: 256 for d in load(path).program.dims if d.size is None}
    ((subject, launch),) = from_spec(path, None, defines=sizes or {"M": 256, "N": 256, "K": 256})
    verdict = sanitize(subject, launch, schedules=1)
    assert verdict.diagnostics == ()
