"""Figures of the machine code against what the spec promised, and the estimate against them."""

from __future__ import annotations

from pathlib import Path

import pytest

import tkgen.api
from tkgen.build import Build
from tkgen.checks.registers import check_resources, estimate
from tkgen.diagnostics import SpecError
from tkgen.diagnostics.explain import Example, page
from tkgen.targets import load_target
from tkgen.toolchain.discover import NoCompilerError, find_compiler

SPECS = Path(__file__).parents[2] / "specs"
TARGET = load_target("gfx942")


@pytest.fixture(scope="module", autouse=True)
def compiler() -> None:
    try:
        find_compiler(TARGET)
    except NoCompilerError:
        pytest.skip("no compiler for AMD GPUs")


def built(example: Example, folder: Path) -> Build:
    path = folder / "example.tk"
    path.write_bytes(example.data)
    return tkgen.api.load(path).build()


def test_spills_of_the_machine_code_are_errors(tmp_path: Path) -> None:
    build = built(page("E405").fails[0], tmp_path)
    assert not build.spec.diagnostics
    assert [d.code for d in build.diagnostics] == ["E405"]
    with pytest.raises(SpecError, match="E405"):
        build.check()
    assert not built(page("E405").passes[0], tmp_path).diagnostics


def test_spills_can_be_allowed(tmp_path: Path) -> None:
    path = tmp_path / "example.tk"
    path.write_text(page("E405").fails[0].text + "  allow spills\n")
    build = tkgen.api.load(path).build()
    assert build.resources.vgpr_spills and not build.diagnostics


def test_scalar_registers_in_lanes_are_no_memory_traffic(tmp_path: Path) -> None:
    build = built(page("W402").fails[0], tmp_path).check()
    assert build.resources.sgpr_spills and not build.resources.vgpr_spills and not build.resources.scratch_bytes
    assert [d.code for d in build.diagnostics] == ["W402"]
    assert not built(page("W402").passes[0], tmp_path).diagnostics
    allowed = tmp_path / "example.tk"
    allowed.write_text(page("W402").fails[0].text.replace("allow slow_reads", "allow spills, slow_reads"))
    assert not tkgen.api.load(allowed).build().diagnostics


def test_less_occupancy_than_asked_for_is_an_error() -> None:
    build = tkgen.api.load(SPECS / "eight_wave.tk").build()
    program = build.spec.program
    from dataclasses import replace

    spans = {**program.spans, "occupancy": program.spans["block"]}
    asking = replace(build.spec.plan, program=replace(program, occupancy=8, spans=spans))
    assert [d.code for d in check_resources(asking, TARGET, build.resources)] == ["E404"]


@pytest.mark.parametrize("name", ["eight_wave", "producer_consumer_4p4c", "macro_tiles", "ping_pong", "deep_pipeline"])
def test_the_estimate_is_near_the_machine_code(name: str) -> None:
    build = tkgen.api.load(SPECS / f"{name}.tk").build()
    predicted = estimate(build.spec.plan, TARGET)
    real = TARGET.allotted_registers(build.resources.vgpr, build.resources.agpr)
    assert 0.75 <= predicted.allotted / real <= 1.4
    assert max(role.least for role in predicted.roles) <= real
