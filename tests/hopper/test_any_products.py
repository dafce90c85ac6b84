"""Any products in and around a loop on Hopper: gradients of attention, states of linear attention, beside torch.

The generated C++ runs on the CPU, the schedule as a model; what each op of the program is needed for, mutants show.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from product_cases import CASES, TEXTS, Change, inputs_of, spec_of
from sampling import sample

from tkgen.api import load
from tkgen.backends.hopper import serial_schedule as serial_schedule_of
from tkgen.backends.hopper.backend import HopperBackend
from tkgen.backends.hopper.serial_lowering import SerialLowering
from tkgen.backends.hopper.serial_meant import wrong_serial
from tkgen.backends.hopper.serial_program import serial_program
from tkgen.backends.hopper.serial_schedule import serial_unproven
from tkgen.diagnostics import SpecError
from tkgen.execute.modelled import in_order
from tkgen.tile.program import Arrive, Await, Drain, Loop, Sync, Tiles


@pytest.mark.parametrize("executor", ["host", "model"])
@pytest.mark.parametrize("case", sample(CASES, 2))
def test_results_are_those_of_torch(case: str, executor: str) -> None:
    spec = spec_of(case)
    launch = spec.launch({"LENGTH": 200} if case == "dynamic" else None)
    given = inputs_of(spec, launch)
    run = HopperBackend().executors[executor]
    made = in_order(run, spec, launch, given, {}, run.orders(1)[0])
    assert not list(made.findings)
    for name, wanted in TEXTS[CASES[case][0]][1](given).items():
        got, unit = made.outputs[name].double(), wanted.abs().max()
        assert (got - wanted).abs().max() <= 2.0**-6 * unit, name


def test_it_compiles_without_spills() -> None:
    for case in ("gradients", "states", "scan"):
        assert spec_of(case).build().figures.spill_bytes == 0


def test_inputs_that_hurt() -> None:
    """A row of NaN stays in its row; scores that overflow give infinities, not others' numbers."""
    spec = spec_of("gradients")
    launch = spec.launch()
    given = inputs_of(spec, launch)
    given["V"][0, 7], given["DELTA"][1, 3] = math.nan, math.inf
    run = HopperBackend().executors["host"]
    made = in_order(run, spec, launch, given, {}, run.orders(1)[0])
    assert made.outputs["GK"][0, 7].isnan().all() and not made.outputs["GK"][0, 6].isnan().any()
    assert not made.outputs["GV"].isnan().any() and not made.outputs["GK"][1].isfinite().any()


# ---------------------------------------------------------------- what the proof finds


def without(nodes: tuple[Any, ...], number: Iterator[int]) -> tuple[Any, ...]:
    """Nodes without the op for which `number` comes to 0."""
    found = list[Any]()
    for node in nodes:
        if isinstance(node, Loop | Tiles):
            node = replace(node, body=without(node.body, number))
        elif isinstance(node, Await | Arrive | Drain | Sync) and next(number) == 0:
            continue
        found.append(node)
    return tuple(found)


@pytest.mark.parametrize("case", ["gradients", "states", "scan"])
def test_each_wait_and_arrival_is_needed(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the proof finds a fault, or the program ends in another state than it begins in."""
    m = spec_of(case).layout
    made, found = serial_program(m), list[tuple[int, str | None]]()
    for role in (0, 1):
        for removed in count(0):
            numbers = count(-removed)
            own = made.roles[role]
            other = replace(own, tiles=replace(own.tiles, body=without(own.tiles.body, numbers)))
            if next(numbers) <= 0:
                break
            block = replace(made, roles=tuple(other if n == role else r for n, r in enumerate(made.roles)))
            monkeypatch.setattr(serial_schedule_of, "serial_program", lambda _, block=block: block)
            found.append((removed, serial_unproven(m)))
    assert len(found) > 10 and all(fault for _, fault in found), found


MUTANTS: dict[str, tuple[str, Change]] = {
    "the first queries in each iteration": ("gradients", ("{0, h_i, iteration, 0}", "{0, h_i, 0, 0}")),
    "keys of one consumer for all": ("gradients", ("j_i * CONSUMERS + consumer", "j_i * CONSUMERS")),
    "another head": ("gradients", ("h_i", "h_i + 1")),
    "a state of the iteration before": ("states", ("iteration", "iteration + 1")),
    "columns of one consumer for all": ("two consumers", ("v_i * CONSUMERS + consumer", "v_i * CONSUMERS")),
    "the state of another chunk": ("scan", ("t_i", "t_i + 1")),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_other_coordinates_are_refused(mutant: str) -> None:
    """Of each tile alone."""
    case, (old, new) = MUTANTS[mutant]
    m = spec_of(case).layout
    code = SerialLowering(m).code()
    assert wrong_serial(m, code) is None
    changed = [access for access, moved in code.moved.items() if old in moved.coord]
    assert changed
    for access in changed:
        moved = code.moved[access]
        other = dict(code.moved) | {access: replace(moved, coord=moved.coord.replace(old, new))}
        assert wrong_serial(m, replace(code, moved=other)), access


def test_other_products_are_refused() -> None:
    """An operand the other way round, another operand, sums added to nothing: none stores what the equations say."""
    for case in ("gradients", "states", "scan"):
        m = spec_of(case).layout
        for n, each in enumerate(m.products):
            others = [replace(each, layouts="AtB" if each.layouts == "AB" else "AB")]
            others += [replace(each, right=tile) for tile in m.tiles if tile.moves and tile != each.right]
            others += [replace(each, onto=None)] if each.onto is not None and each.product in m.loop.body else []
            for other in others:
                made = replace(m, products=(*m.products[:n], other, *m.products[n + 1 :]))
                made.__dict__["kept"], made.__dict__["shared_arrays"] = m.kept, m.shared_arrays
                for name in ("before", "body", "behind"):
                    steps = tuple(replace(step, products=tuple(other if p == each else p for p in step.products))
                                  for step in getattr(m, name))  # fmt: skip
                    made.__dict__[name] = steps
                assert wrong_serial(made, SerialLowering(m).code()), (case, n, other.layouts)


# ---------------------------------------------------------------- what is refused

REFUSED: dict[str, tuple[str, list[Change]]] = {
    "a product sums over `j`, which the warpgroups divide: none has all of it": ("gradients", [
        ("  global GK", "  global GQ : f32[HEADS, LENGTH, D]\n  global GK"),
        ("  GK[h, j]", "  GK[h, j]"), ("    gp =", "    GQ[h, q] += bf16(p) @ K[h, j]\n    gp ="),
    ]),
    "an operand without the axis `v` is read from shared memory, which the copy engine fills: it must be a tile of a "
    "tensor": ("states", [("W[h, t] @ bf16(z).T", "bf16(2 * W[h, t]) @ bf16(z).T")]),
    "products have 16, 32, 64, 128, 192, 256 columns, not 48 of `q`": (
        "gradients", [("q in LENGTH by 64", "q in LENGTH by 48")]),
    "`Q` is loaded by the copy engine": ("gradients", [("shared Q, GO", "shared GO")]),
    "only products as of softmax attention have a schedule on Hopper": (
        "gradients", [("  shared", "  schedule ping_pong\n  shared")]),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_what_has_no_layout_is_refused(message: str) -> None:
    name, changes = REFUSED[message]
    text = TEXTS[name][0]
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    with pytest.raises(SpecError) as caught:
        load(text).check()
    assert message in [d.message for d in caught.value.diagnostics]


# ---------------------------------------------------------------- specs of AMD GPUs

AMD = Path(__file__).parents[2] / "specs" / "attention"


@pytest.mark.parametrize("name", ["attention_backward", "attention_backward_causal", "gated_delta_rule",
                                  "linear_attention"])  # fmt: skip
def test_specs_of_amd_gpus_are_accepted_without_their_waves(name: str) -> None:
    """The fixes of the refusal, which leave out `waves` and `registers`."""
    text = (AMD / f"{name}.tk").read_text(encoding="utf-8")
    kernels = text.split("\nkernel ")
    made = [re.sub(r"\n  (?:waves|registers) .*", "", kernel) if "each " in kernel else kernel for kernel in kernels]
    assert not load("\nkernel ".join(made), target="sm_90a").check().diagnostics
