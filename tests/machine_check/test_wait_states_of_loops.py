"""Fused matmuls keep the wait states of their products on every path: a branch, the first iteration, the last one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tkgen.api import load
from tkgen.backends.cdna.kittens import include_dir
from tkgen.diagnostics import SpecError
from tkgen.execute.launch import run, trials
from tkgen.machine_check import RIGHT, watch
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.metadata import read_resources

FOLDER = Path(__file__).parent
# name, target, the call that gives the compiler's code the wait states that it lacks
CASES = [
    ("wait_states_mov", "gfx942", "tk::settle();"),  # the first product, the loop's first branch
    ("wait_states_pk_mul", "gfx90a", "tk::settle();"),  # a product, a mask of another one
    ("wait_states_pk_mul", "gfx950", "tk::settle();"),
    ("wait_states_one_iteration", "gfx950", "tk::end_iteration();"),
]


@pytest.mark.parametrize("name, target, call", CASES)
def test_a_fused_matmul_has_its_wait_states_on_every_path(name: str, target: str, call: str) -> None:
    spec = load(FOLDER / f"{name}.tk", target=target).check()
    build = spec.build()
    assert build.machine_check.outcome == RIGHT, build.machine_check
    order, kind = next(iter(trials(1)))
    assert not run(build, seed=0, kind=kind, order=order).failure

    without = spec.source.text.replace(call, "")
    made = compile_device(without, spec.target, build.compiler, include_dirs=[include_dir()], source_name=f"{name}.cpp")
    assert made.hsaco is not None
    kernel = next(iter(read_resources(made.hsaco).values())).kernel
    assert {d.code for d in watch(spec, made.hsaco, kernel).diagnostics} == {"E322"}


def test_scalars_in_lanes_beside_data_are_followed() -> None:
    """The machine check called their masks dependent on data (E323)."""
    with pytest.raises(SpecError) as refused:
        load(FOLDER / "spilled_scalars.tk").check().build().check()
    assert {d.code for d in refused.value.diagnostics if d.code.startswith("E")} == {"E405"}
