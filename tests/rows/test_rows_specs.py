"""The bundled specs of rows: sources as checked in, figures as promised, numbers right; and the commands on them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from tkgen.api import load
from tkgen.backends.cdna.spec import Spec
from tkgen.cli import app
from tkgen.execute.blocks import compared_blocks, inputs_of
from tkgen.execute.cases import unmet
from tkgen.execute.compare import Inputs
from tkgen.execute.launch import run
from tkgen.ir.equations import AxisKind
from tkgen.ir.verifier import verify
from tkgen.machine_check.tile_sorts import launches, sorts

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "specs/rows").glob("*.tk"))
PLAIN = """kernel plain
  dims ROWS = 40, D = {length}
  global X : bf16[ROWS, D]
  global Y : bf16[ROWS, D]
  over r in ROWS by 16
  waves 2{clauses}
  Y[r] = X[r] / rowsum(X[r] * X[r])
"""


def spec_of(path: Path | str, **sizes: int | None) -> Spec:
    spec = load(path, sizes)
    assert isinstance(spec, Spec)
    return spec


def tkgen(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_source_figures_and_machine_code(path: Path) -> None:
    spec = spec_of(path)
    verify(spec.program.kernel, "typing")
    assert not spec.diagnostics
    golden = ROOT / "generated" / spec.target.name / f"{path.stem}.cpp"
    assert golden.read_text(encoding="utf-8") == spec.source.text
    built = spec.build().check()
    assert not unmet(built)
    assert built.machine_check.outcome == "right"
    assert built.resources.clean


@pytest.mark.parametrize("target", ["gfx90a", "gfx950"])
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_other_targets_build_without_spills(path: Path, target: str) -> None:
    spec = load(path, None, target)
    assert isinstance(spec, Spec)
    assert spec.build(machine_check=False).check().resources.clean


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_numbers_at_sizes_that_do_not_divide(path: Path) -> None:
    spec = spec_of(path)
    tiles = {a.dim.name: a.tile or 1 for a in spec.program.parallel}
    odd = {"D": 999, "HALF": 20}
    walked = {a.dim.name: 2 * (a.tile or 1) + 1 for a in spec.program.kernel.axes if a.kind is AxisKind.SEQUENTIAL}
    sizes = {name: tile + 1 for name, tile in tiles.items()} | {
        d.name: odd[d.name] for d in spec.program.dims if d.name in odd
    } | walked  # fmt: skip
    build = spec_of(path, **sizes).build()
    for kind in Inputs:
        tried = run(build, kind=kind)
        assert tried.ok, tried.failure


SHIPPED = ("layernorm", "norm_gradient", "rotary")  # the rest is slow


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=() if p.stem in SHIPPED else pytest.mark.slow) for p in SPECS],
    ids=lambda p: getattr(p, "stem", p),
)
def test_some_blocks_of_the_code_that_is_shipped(path: Path) -> None:
    build = spec_of(path).build()
    tried = run(build, blocks=[1], kind=Inputs.NORMAL)
    assert tried.ok, tried.failure


def test_a_block_that_writes_elsewhere_is_found() -> None:
    """Stores of blocks that were not asked for count as wrong."""
    build = spec_of(PLAIN.format(length=64, clauses="")).build()
    tried = run(build, blocks=[0, 1])
    assert tried.ok
    tried.outputs["Y"][39, 3] = 1.0
    launch = build.spec.launch()
    inputs = inputs_of(launch, [0, 1])
    assert not all(c.right for c in compared_blocks(launch, inputs, tried.outputs, {}, [0, 1]).values())
    tried.outputs["Y"][39, 3] = torch.nan
    assert all(c.right for c in compared_blocks(launch, inputs, tried.outputs, {}, [0, 1]).values())


def test_dynamic_sizes_are_watched_around_the_tile() -> None:
    spec = spec_of(PLAIN.format(length=64, clauses=""), ROWS=None)
    assert [w.launch.extents["ROWS"] for w in launches(spec)] == [47, 17, 16, 1]
    assert sorts(next(launches(spec)).launch) == (0, 1, 2)
    build = spec.build()
    assert build.machine_check.outcome == "right"
    for rows in (1, 16, 37):
        assert run(build, extents={"ROWS": rows}).ok


@pytest.mark.parametrize(("clauses", "said"), [
    ("\n  shared X buffers 2", "does not need LDS"),
])  # fmt: skip
def test_clauses_that_rows_have_no_use_for(clauses: str, said: str) -> None:
    found = spec_of(PLAIN.format(length=64, clauses=clauses)).diagnostics
    assert [d.code for d in found] == ["E406"]
    assert said in found[0].message


@pytest.mark.parametrize(("columns", "codes"), [(8388608, ["E607"]), (8388604, [])])
def test_a_tile_that_32_bit_offsets_do_not_reach_is_refused(columns: int, codes: list[str]) -> None:
    """The last of its 65 rows begins 2^31 bytes after the first, or a little before that."""
    found = spec_of(f"""kernel far
  dims M = 128, N = {columns}
  global X : f32[M, N]
  over m in M by 65, n in N by 64
  waves 1
  X[m, n] = X[m, n] * 2
""").diagnostics
    assert [d.code for d in found] == codes
    assert not codes or found[0].message == "a tile of `X` spans 2147483904 bytes"


def test_names_of_a_spec_that_generated_code_uses_itself() -> None:
    names = """kernel names
  dims ROWS = 20, D = 100
  global X : bf16[ROWS, D]
  global Y : bf16[ROWS, D]
  over r in ROWS by 16
  waves 2
  X_at = X[r] * 2
  X_row = X_at + 1
  fold = rowsum(X_row)
  elements = X_row * fold
  narrow = elements + rowmax(elements)
  X_r = narrow + 1
  r_in = X_r * 2
  r_0 = r_in * fold
  Y[r] = r_0 / fold
"""
    assert run(spec_of(names).build()).ok


def test_lines_of_the_source_know_the_spec() -> None:
    source = spec_of(ROOT / "specs/rows/softmax.tk").source
    line = next(n for n, text in enumerate(source.text.split("\n"), 1) if "const float e_2 = " in text)
    origin = source.origin(line)
    assert origin is not None
    assert origin.file.line(origin.line).strip().startswith("e = exp2")


def test_the_commands(tmp_path: Path) -> None:
    path = tmp_path / "plain.tk"
    path.write_text(PLAIN.format(length=100, clauses=""))
    assert "0 errors" in tkgen("check", str(path))
    assert "0 spills" in tkgen("build", str(path), "-o", str(tmp_path / "out"))
    report = json.loads((tmp_path / "out/plain.json").read_text())
    assert report["layout"]["chunk"] == 4
    assert report["machine_check"]["outcome"] == "right"
    rows = json.loads(tkgen("run", str(path), "--json", "-D", "ROWS=9"))
    assert rows[0]["ok"]
    assert not rows[0]["shipped"]
    assert "GB/s" in tkgen("predict", str(path))
    assert "7 passed, 0 failed" in tkgen("test", str(path), "--schedules", "1")
    assert "kernel plain" in tkgen("build", str(path), "-o", str(tmp_path / "out"), "--print-after", "equations")


NUMBERS = """kernel numbers
  dims TOKENS = 20, D = 512
  global X : bf16[TOKENS, D]
  global S : f32[TOKENS]
  global Y : bf16[TOKENS, D]
  over t in TOKENS by 1
  waves 4
  Y[t] = X[t] * S[3]
"""


def test_a_number_of_a_tensor_is_the_same_for_all_rows() -> None:
    assert run(spec_of(NUMBERS).build().check()).ok


def test_a_block_without_an_axis_of_rows_stores_its_one_row_once() -> None:
    text = NUMBERS.replace(" by 1", "").replace("S[3]", "rowmax(X[t])").replace(
        "  global S : f32[TOKENS]\n", "")  # fmt: skip
    assert run(spec_of(text).build().check()).ok
