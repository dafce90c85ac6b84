"""Any products in and around a loop on Hopper: gradients of attention, states of linear attention, beside torch.

The generated C++ runs on the CPU, the schedule as a model; what each op of the program is needed for, mutants show.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from sampling import sample
from torch import Tensor

from tkgen.api import load
from tkgen.backends.hopper import serial_schedule as serial_schedule_of
from tkgen.backends.hopper.backend import HopperBackend
from tkgen.backends.hopper.serial_loop import SerialLoop
from tkgen.backends.hopper.serial_lowering import SerialLowering
from tkgen.backends.hopper.serial_meant import wrong_serial
from tkgen.backends.hopper.serial_program import serial_program
from tkgen.backends.hopper.serial_schedule import serial_unproven
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.diagnostics import SpecError
from tkgen.execute.modelled import in_order
from tkgen.tile.program import Arrive, Await, Drain, Loop, Sync, Tiles

GRADIENTS = """
kernel gradients
  dims HEADS = 2, LENGTH = 200, D = 64
  target sm_90a
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[HEADS, LENGTH, D]
  global V : bf16[HEADS, LENGTH, D]
  global GO : bf16[HEADS, LENGTH, D]
  global L : f32[HEADS, LENGTH]
  global DELTA : f32[HEADS, LENGTH]
  global GK : f32[HEADS, LENGTH, D]
  global GV : f32[HEADS, LENGTH, D]
  over h in HEADS, j in LENGTH by 128
  shared Q, GO buffers 2
  each q in LENGTH by 64
    x = 0.125 * Q[h, q] @ K[h, j].T
    p = exp(x - L[h, q])
    gv = gv + bf16(p).T @ GO[h, q]
    gp = GO[h, q] @ V[h, j].T
    gk = gk + bf16(0.125 * p * (gp - DELTA[h, q])).T @ Q[h, q]
  GK[h, j] = gk
  GV[h, j] = gv
"""
STATES = """
kernel states
  dims HEADS = 2, LENGTH = 200, CHUNKS = ceil_div(LENGTH, 64), D = 64, E = 128
  target sm_90a
  allow slow_reads
  global K : bf16[HEADS, LENGTH, D]
  global W : bf16[HEADS, LENGTH, D]
  global U : bf16[HEADS, LENGTH, E]
  global G : f32[HEADS]
  global STATE : f32[HEADS, CHUNKS, E, D]
  global NEW : f32[HEADS, LENGTH, E]
  global Z : f32[HEADS, E, D]
  over h in HEADS, v in E by 64
  shared K, W buffers 2
  carry z : f32[v, D] = 0
  each t in LENGTH by 64
    STATE[h, t / 64, v] = z
    n = U[h, t, v] - W[h, t] @ bf16(z).T
    NEW[h, t, v] = n
    z = G[h] * z + bf16(n).T @ K[h, t]
  Z[h, v] = z
"""
SCAN = """
kernel scan
  dims LENGTH = 150, CHUNKS = ceil_div(LENGTH, 64), N = 128, P = 64
  target sm_90a
  global C : bf16[LENGTH, N]
  global B : bf16[LENGTH, N]
  global X : bf16[LENGTH, P]
  global STATE : bf16[CHUNKS, P, N]
  global T : bf16[P, N]
  global M : f32[LENGTH]
  global O : f32[LENGTH, P]
  over t in LENGTH by 64
  shared B, X
  carry o : f32[t, P] = 0.5 * C[t] @ STATE[t / 64].T, m : f32[t] = 0
  each s in LENGTH by 64 to t
    a = where(t >= s, C[t] @ B[s].T, 0)
    m = max(m, rowmax(a))
    o = o + bf16(a) @ X[s]
  M[t] = m
  O[t] = o + C[t] @ T[P, N].T
"""
WEIGHTS = """
kernel weights
  dims LENGTH = 150, KEYS = 200, D = 64
  target sm_90a
  global S : f32[LENGTH, KEYS]
  global V : bf16[KEYS, D]
  global O : f32[LENGTH, D]
  over q in LENGTH by 64
  shared V
  each j in KEYS by 64
    o = o + bf16(S[q, j]) @ V[j]
  O[q] = o
"""
Change = tuple[str, str]


def gradients(given: dict[str, Tensor], causal: bool = False) -> dict[str, Tensor]:
    q, k, v, go = (given[n].double() for n in ("Q", "K", "V", "GO"))
    p = (q @ k.mT * 0.125 - given["L"][..., None]).exp()
    if causal:
        p = p * torch.ones(p.shape[-2:]).tril()
    gx = 0.125 * p * (go @ v.mT - given["DELTA"][..., None])
    rounded = p.bfloat16().double(), gx.bfloat16().double()
    return {"GV": rounded[0].mT @ go, "GK": rounded[1].mT @ q}


def states(given: dict[str, Tensor], chunk: int = 64) -> dict[str, Tensor]:
    k, w, u = (given[n].double() for n in ("K", "W", "U"))
    heads, length, size = u.shape
    z, before, new = torch.zeros(heads, size, k.shape[-1], dtype=torch.float64), [], []
    for t in range(0, length, chunk):
        before.append(z)
        n = u[:, t : t + chunk] - w[:, t : t + chunk] @ z.bfloat16().double().mT
        new.append(n)
        z = given["G"][:, None, None] * z + n.bfloat16().double().mT @ k[:, t : t + chunk]
    return {"STATE": torch.stack(before, 1), "NEW": torch.cat(new, 1), "Z": z}


def scan(given: dict[str, Tensor]) -> dict[str, Tensor]:
    c, b, x = (given[n].double() for n in "CBX")
    a = (c @ b.T) * torch.ones(len(c), len(c)).tril()
    chunk = given["STATE"].double()[torch.arange(len(c)) // 64]
    o = 0.5 * torch.einsum("tn,tpn->tp", c, chunk) + a.bfloat16().double() @ x + c @ given["T"].double().T
    return {"O": o, "M": a.amax(1).clamp(min=0)}


TEXTS: dict[str, tuple[str, Callable[[dict[str, Tensor]], dict[str, Tensor]]]] = {
    "gradients": (GRADIENTS, gradients), "states": (STATES, states), "scan": (SCAN, scan),
    **{f"states of {n}": (STATES.replace("LENGTH, 64)", f"LENGTH, {n})").replace("LENGTH by 64", f"LENGTH by {n}")
                          .replace("t / 64", f"t / {n}"), partial(states, chunk=n)) for n in (16, 32)},
    "weights": (WEIGHTS, lambda given: {"O": given["S"].bfloat16().double() @ given["V"].double()}),
}  # fmt: skip
CASES: dict[str, tuple[str, list[Change]]] = {
    "gradients": ("gradients", []),
    "states": ("states", []),
    "scan": ("scan", []),
    "weights": ("weights", []),
    "chunks of 16": ("states of 16", []),
    "chunks of 32": ("states of 32", []),
    "one consumer": ("gradients", [("j in LENGTH by 128", "j in LENGTH by 64")]),
    "a tile of 32": ("gradients", [("q in LENGTH by 64", "q in LENGTH by 32")]),
    "one buffer": ("gradients", [("buffers 2", "buffers 1")]),
    "other orders": ("gradients", [("Q[h, q] @ K[h, j].T", "(K[h, j] @ Q[h, q].T).T"),
                                   ("GO[h, q] @ V[h, j].T", "(V[h, j] @ GO[h, q].T).T")]),
    "persistent": ("gradients", [("  shared", "  grid persistent(1)\n  shared")]),
    "f16": ("gradients", [("bf16", "f16")]),
    "dynamic": ("gradients", [("LENGTH = 200", "LENGTH = dynamic")]),
    "bf16 stored side by side": ("states", [("NEW : f32", "NEW : bf16"), ("STATE : f32", "STATE : bf16")]),
    "two consumers": ("states", [("v in E by 64", "v in E by 128")]),
    "bounded, persistent": ("scan", [("  shared", "  grid persistent(2)\n  shared")]),
}  # fmt: skip


def spec_of(case: str) -> HopperSpec[Any]:
    name, changes = CASES[case]
    text = TEXTS[name][0]
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    spec = load(text).check()
    assert isinstance(spec, HopperSpec) and isinstance(spec.layout, SerialLoop)
    return spec


def inputs_of(spec: HopperSpec[Any], launch: Any) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    found = {}
    for tensor in spec.program.reads:
        made = torch.randn(launch.shape(tensor), generator=generator)
        made = made * 0.2 if tensor.name in "WK" and spec.name == "states" else made
        dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[tensor.dtype.spelling]
        found[tensor.name] = (torch.full_like(made, 5.0) if tensor.name == "L" else made).to(dtype)
    return found


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
