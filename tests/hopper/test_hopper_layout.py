"""The target's file, and how tiles, buffers and registers are laid out from it."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from gemms import CASES, gemm

from tkgen.api import load
from tkgen.backends.hopper.launch import problems
from tkgen.backends.hopper.layout import Layout
from tkgen.backends.hopper.machine import FIELDS, load_hopper
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.targets import UnknownTargetError, hopper_names, load_target, target_names

ROOT = Path(__file__).parents[2]


def raw() -> dict[str, Any]:
    return tomllib.loads(resources.files("tkgen.targets").joinpath("sm_90a.toml").read_text(encoding="utf-8"))


def layout(**case: Any) -> Layout:
    spec = load(gemm(**case))
    assert isinstance(spec, HopperSpec)
    return spec.layout


def test_every_number_has_a_source_and_a_field() -> None:
    data, machine = raw(), load_hopper()
    named = {f"{s}.{e}" for s in ("compute", "registers", "shared", "copies", "wgmma") for e in data[s]}
    timing = {f"timing.{e}" for e in data["timing"]}
    assert named == set(FIELDS.values()) and named | timing == set(machine.sources)
    assert {f"timing.{f.name}" for f in fields(machine.timing)} == timing
    facts = [data[key.split(".")[0]][key.split(".")[1]] for key in named | timing]
    facts += [fact for p in data["product"] for key, fact in p.items() if key != "name"]
    assert len(facts) > 25 and all(f["source"].strip() and f["unit"].strip() for f in facts)


def test_the_families_are_told_apart() -> None:
    assert hopper_names() == ("sm_90a",) and "sm_90a" not in target_names()
    with pytest.raises(UnknownTargetError, match=r"for AMD GPUs .*, not for sm_90a"):
        load_target("sm_90a")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_block_fits_its_sm(case: dict[str, Any]) -> None:
    found = layout(**case)
    machine = found.machine
    assert found.shared_bytes(found.store_buffers) <= machine.shared_bytes_per_block
    assert found.panels % found.store_buffers == 0  # the ring of buffers starts anew with each tile
    moved = found.moved_registers
    if moved is not None:
        group = machine.warpgroup_threads
        assert moved[0] * group + found.consumers * moved[1] * group <= machine.registers_per_sm
        assert found.launched_registers * found.threads <= machine.registers_per_sm
        assert all(m % machine.register_granule == 0 and 24 <= m <= 256 for m in moved)


def test_the_buffers_of_the_output_are_as_many_as_fit() -> None:
    assert layout().store_buffers == 2 and layout(stages=3).store_buffers == 4
    assert layout(block=(128, 192, 64), stages=4).store_buffers == 3
    assert layout(block=(128, 192, 64), stages=5).store_buffers == 1  # of three panels, two would not come out even


def test_tensors_that_the_copy_engine_cannot_move() -> None:
    found = layout()
    a = found.program.a.tensor
    assert not problems(found, a, 100, 64, address=256)
    assert "not a multiple of 16" in problems(found, a, 100, 60)[0]
    assert "does not start" in problems(found, a, 100, 64, address=8)[0]


def test_no_dead_spec() -> None:
    paths = sorted((ROOT / "specs" / "hopper").glob("*.tk"))
    assert len(paths) >= 3
    for path in paths:
        spec = load(path)
        assert not spec.diagnostics
        golden = (ROOT / "generated" / "sm_90a" / f"{path.stem}.cu").read_text(encoding="utf-8")
        assert golden == spec.text.replace(str(path), path.name)
