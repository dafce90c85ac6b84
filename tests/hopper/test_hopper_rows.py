"""Kernels of rows for Hopper without a GPU: their layouts, the proof and its mutants, the code and its figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from mutating.rows import mutants
from row_cases import CASES, Case, of_length
from test_hopper_build import ROWS, compiles
from typer.testing import CliRunner

from tkgen.api import load
from tkgen.backends.hopper.machine import load_hopper
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.cli import app
from tkgen.ir.equations import accesses
from tkgen.schedule.row_verifier import wrong

SPECS = Path(__file__).parents[2] / "specs"
LANES = load_hopper().lanes


def test_every_case_has_a_layout_that_is_proven() -> None:
    for case in CASES:
        spec = case.spec().check()
        assert not [*wrong(spec.layout, LANES)], case
        assert spec.layout.wave_lanes == 32 and spec.layout.threads == 32 * case.waves


def test_warps_share_long_rows_and_lanes_of_a_warp_short_ones() -> None:
    lanes = {length: of_length("softmax", length).spec().layout.lanes for length in (3, 100, 16384)}
    assert lanes[3] < lanes[100] <= 32 < lanes[16384]
    text = {length: of_length("softmax", length).spec().text for length in (100, 16384)}
    assert "tk::lds_barrier()" not in text[100] and "tk::across<base_ops::max, LANES>" in text[100]
    assert "tk::lds_barrier()" in text[16384]


def test_registers_of_a_lane_are_those_that_an_sm_has_for_so_many_warps() -> None:
    assert [LANES.max_registers(n) for n in (1, 2, 4, 8, 16)] == [255, 255, 128, 64, 32]


@pytest.mark.parametrize("case", [of_length("softmax", 16384), of_length("rmsnorm", 8192)], ids=str)
def test_the_proof_finds_what_breaks_an_exchange(case: Case) -> None:
    """Dropped barriers, puts, gets and walks, each kind at every place; one more barrier breaks nothing."""
    layout, found = case.spec().layout, dict[str, list[set[str]]]()
    assert layout.exchanges
    for mutant in mutants(layout):
        found.setdefault(mutant.kind, []).append({rule for rule, _ in wrong(mutant.layout, LANES)})
    assert found["drop barrier"] == [{"races"}] * layout.exchanges
    assert all(
        found["drop shared store"] + found["drop shared load"] + found["drop element loop"] + found["drop operation"]
    )
    assert not any(found["duplicate barrier"])


@compiles
@pytest.mark.parametrize("name", ROWS)
def test_specs_compile_without_a_spill(name: str, tmp_path: Path) -> None:
    path = SPECS / "hopper" / f"h100_{name}.tk"
    result = CliRunner().invoke(app, ["build", str(path), "-o", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    (report,) = json.loads(result.stdout)
    figures, layout = report["figures"], report["layout"]
    assert figures["spill_bytes"] == figures["stack_bytes"] == 0 and not report["diagnostics"]
    assert figures["registers"] <= 160 and report["threads"] % 32 == 0 and layout["chunk"] * 2 <= 16
    assert (tmp_path / f"h100_{name}.cubin").read_bytes()[:4] == b"\x7fELF"


def layernorm_of(length: int, warps: int) -> HopperSpec:
    spec = load(SPECS / "hopper" / "h100_layernorm.tk", {"TOKENS": 64, "D": length, "TILE": 4, "WARPS": warps})
    assert isinstance(spec, HopperSpec)
    return spec


def test_weights_are_late_where_registers_have_no_room_for_two_blocks() -> None:
    late, kept = layernorm_of(16384, 16), layernorm_of(4096, 4)
    assert [a.tensor.name for a in late.layout.late] == ["W", "B"] and late.layout.registers <= late.layout.budget
    assert not kept.layout.late and kept.layout.registers <= kept.layout.budget
    assert "W and B loaded where used" in late.layout.describe() and "loaded where used" not in kept.layout.describe()
    assert late.text.index("W_r = tk::load_elements") > late.text.index("Y_row =")  # beside the store, in each pass
    assert kept.text.index("W_r[c] = tk::load_elements") < kept.text.index("X_r[i][c] = tk::load_elements")
    assert "__launch_bounds__(THREADS, 2)" in late.text and "__launch_bounds__(THREADS, 1)" in kept.text


def test_what_is_late_belongs_to_no_row() -> None:
    m = layernorm_of(16384, 16).layout
    (x,) = [a for a in accesses(m.kernel) if a.tensor.name == "X"]
    assert [rule for rule, _ in wrong(replace(m, late=(x,)), LANES)] == ["accesses"]


@compiles
def test_weights_that_are_late_leave_room_for_two_blocks() -> None:
    figures = layernorm_of(16384, 16).build().figures
    assert figures.registers <= 64 and figures.spill_bytes == 0


@compiles
@pytest.mark.parametrize("case", [of_length("rmsnorm", 17), of_length("layernorm", 10000), CASES[-5]], ids=str)
def test_lengths_that_divide_nothing_compile(case: Case) -> None:
    assert case.spec().build().figures.spill_bytes == 0


@compiles
def test_elements_of_one_byte_side_by_side() -> None:
    """Two of them are half a register, which `forget` refused; one that is read for the last time was read as 16."""
    two, one = (
        of_length("softmax", 6, "fp8").spec(),
        Case("long_softmax", 1, 4, (("ROWS", 7), ("D", 1001)), "fp8").spec(),
    )
    assert "tk::forget(" in two.text and two.layout.chunk == 2
    assert "tk::load_last<fp8e4m3, CHUNK>" in one.text and one.layout.chunk == 1
    assert two.build().figures.spill_bytes == one.build().figures.spill_bytes == 0


def text_of(name: str, **values: int) -> str:
    return str(load(SPECS / "hopper" / f"h100_{name}.tk", values).check().text)  # type: ignore[attr-defined]


def test_what_loops_read_for_the_last_time_need_not_be_kept() -> None:
    text = text_of("long_softmax")
    assert text.count("load_last<bf16, CHUNK>(X_at") == text.count("load_elements<bf16, CHUNK>(X_at") == 1
    assert text.index("load_elements<bf16, CHUNK>(X_at") < text.index("load_last<bf16, CHUNK>(X_at")
    assert all("load_last" not in text_of(name) for name in ("softmax", "layernorm", "rotary", "norm_gradient"))


@compiles
def test_names_of_a_spec_collide_with_nothing() -> None:
    text = (SPECS / "hopper" / "h100_rmsnorm.tk").read_text()
    for old, new in (("X", "buffer"), ("R", "exchange"), ("W", "globals"), ("Y", "memory"), ("t", "lane")):
        text = text.replace(f" {old}[", f" {new}[").replace(f"global {old} ", f"global {new} ")
        text = text.replace(f"[{old}]", f"[{new}]").replace(f"over {old} ", f"over {new} ").replace("* W", "* globals")
    spec = load(text.replace("eps", "OUTSIDE"))
    assert isinstance(spec, HopperSpec)
    assert spec.build().figures.registers > 0


def test_what_rows_have_no_use_for_is_refused() -> None:
    text = (SPECS / "hopper" / "h100_softmax.tk").read_text().replace("  waves", "  shared X\n  waves")
    assert [d.code for d in load(text).diagnostics] == ["E406"]


@compiles
def test_names_of_the_headers_are_names_of_a_spec() -> None:
    """A kernel calls the functions of the headers by their namespace, so a value may have the name of one."""
    names = ("elements", "buffer", "divisor", "fold", "across", "across_spaced", "forget", "narrow", "widen", "tk")
    lines = "\n".join(f"    {name} = {name} + rowsum(X[t, j])" for name in names)
    text = f"""kernel named
  target sm_90a
  dims R = 8, D = 256
  global X : f32[R, D]
  global Y : f32[R]
  over t in R by 1
  waves 4
  carry {", ".join(f"{name} : f32[t] = 0" for name in names)}
  each j in D by 100
{lines}
  Y[t] = {" + ".join(names)}
"""
    spec = load(text).check()
    assert isinstance(spec, HopperSpec)
    assert all(f"float {name}[ROWS];" in spec.text for name in names[:-1]) and "float tk[" not in spec.text
    assert spec.build().figures.registers > 0
