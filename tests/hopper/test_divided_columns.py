"""Sums of more columns than a product has on Hopper: warpgroups of the same rows divide them. Beside torch, by the
generated C++ on the CPU and the schedule as a model; what is exchanged is refused by the proof.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from sampling import slow

from tkgen.api import load
from tkgen.backends.hopper.backend import HopperBackend
from tkgen.backends.hopper.serial_lowering import SerialLowering
from tkgen.backends.hopper.serial_meant import wrong_serial
from tkgen.diagnostics import SpecError
from tkgen.execute.modelled import in_order

LATENT = """\
kernel latent
  target sm_90a
  dims BATCH = 2, HEADS = 64, KEYS = 80, LATENT = 512, ROTARY = 64
  global Q : bf16[BATCH, HEADS, LATENT]
  global QR : bf16[BATCH, HEADS, ROTARY]
  global K : bf16[BATCH, KEYS, LATENT]
  global R : bf16[BATCH, KEYS, ROTARY]
  global GAIN : f32[LATENT]
  global O : bf16[BATCH, HEADS, LATENT]
  global SUM : f32[BATCH, HEADS]

  over b in BATCH, h in HEADS by 64
  shared K, R
  carry m : f32[h] = -3.4e38, l : f32[h] = 0, o : f32[h, LATENT] = 0
  each j in KEYS by 32
    s = 0.1 * (Q[b, h] @ K[b, j].T + QR[b, h] @ R[b, j].T)
    n = max(m, rowmax(s))
    p = exp2(s - n)
    r = exp2(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ K[b, j]
    m = n
  O[b, h] = GAIN[LATENT] * o / l
  SUM[b, h] = m + log2(l)
"""
WIDE = """\
kernel wide
  target sm_90a
  dims HEADS = 2, LENGTH = 100, D = 384
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[HEADS, LENGTH, D]
  global V : bf16[HEADS, LENGTH, D]
  global O : bf16[HEADS, LENGTH, D]

  over h in HEADS, q in LENGTH by 64
  shared K, V
  carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0
  each j in LENGTH by 32 to q
    s = where(q >= j, 0.05 * Q[h, q] @ K[h, j].T, -inf)
    n = max(m, rowmax(s))
    p = exp2(s - n)
    r = exp2(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[h, j]
    m = n
  O[h, q] = o / l
"""


def latent(t: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Attention whose values are the first part of its keys."""
    s = 0.1 * math.log(2) * (t["Q"] @ t["K"].mT + t["QR"] @ t["R"].mT)
    return {"O": t["GAIN"] * (s.softmax(-1) @ t["K"]), "SUM": s.logsumexp(-1) / math.log(2)}


def wide(t: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Causal attention of long heads."""
    s = 0.05 * math.log(2) * t["Q"] @ t["K"].mT
    below = torch.ones(s.shape[-2:], dtype=torch.bool).tril()
    return {"O": s.masked_fill(~below, -math.inf).softmax(-1) @ t["V"]}


CASES: dict[str, tuple[str, Any, dict[str, int]]] = {
    "latent": (LATENT, latent, {}),
    "few heads": (LATENT.replace("HEADS by 64", "HEADS by 16"), latent, {"HEADS": 24}),
    "three parts": (LATENT.replace("KEYS by 32", "KEYS by 16"), latent, {"BATCH": 1, "LATENT": 576}),
    "not whole": (LATENT, latent, {"BATCH": 1, "LATENT": 504, "HEADS": 72, "KEYS": 33}),
    "one key": (LATENT, latent, {"BATCH": 1, "HEADS": 1, "KEYS": 1}),
    "wide": (WIDE, wide, {}),
}


def made(case: str, given: Any = None, executor: str = "host") -> tuple[dict[str, torch.Tensor], Any]:
    """The inputs of a case, and what its kernel makes of them."""
    text, _, sizes = CASES[case]
    spec = load(text, sizes).check()
    launch, generator = spec.launch(), torch.Generator().manual_seed(1)
    inputs = {t.name: torch.randn(launch.shape(t), generator=generator) for t in launch.program.reads}
    inputs = {n: t if n == "GAIN" else t.bfloat16() for n, t in inputs.items()} | (given or {})
    run = HopperBackend().executors[executor]
    return inputs, in_order(run, spec, launch, inputs, {}, run.orders(1)[0])


@pytest.mark.parametrize("executor", ["host", "model"])
@pytest.mark.parametrize("case", ["latent", slow("few heads"), slow("three parts"), "not whole", slow("one key"),
                                  slow("wide")])  # fmt: skip
def test_results_are_those_of_torch(case: str, executor: str) -> None:
    inputs, run = made(case, executor=executor)
    assert not list(run.findings)
    for name, wanted in CASES[case][1]({n: t.double() for n, t in inputs.items()}).items():
        assert (run.outputs[name].double() - wanted).abs().max() <= 2.0**-6 * wanted.abs().max(), name


def test_nan_in_a_column_of_the_values_stays_in_it() -> None:
    """A NaN in the rotary part reaches all columns of its batch, one in a head its row."""
    inputs, _ = made("latent")
    broken = {"R": inputs["R"].clone(), "Q": inputs["Q"].clone()}
    broken["R"][0, 7, 3], broken["Q"][1, 5, 300] = math.nan, math.nan
    _, run = made("latent", broken)
    out = run.outputs["O"]
    assert out[0].isnan().all() and out[1, 5].isnan().all()
    assert not out[1, :5].isnan().any() and not out[1, 6:].isnan().any()


# ---------------------------------------------------------------- what the proof finds


def layout(case: str = "latent") -> Any:
    """The layout of a case."""
    text, _, sizes = CASES[case]
    return load(text, sizes).check().layout


@pytest.mark.parametrize(("old", "new"), [("consumer", "0"), ("h_i", "h_i * CONSUMERS + consumer")])
def test_other_coordinates_are_refused(old: str, new: str) -> None:
    m = layout()
    code = SerialLowering(m).code()
    assert wrong_serial(m, code) is None
    changed = [access for access, moved in code.moved.items() if old in moved.coord and access.tensor.name == "O"]
    assert changed
    for access in changed:
        moved = code.moved[access]
        other = dict(code.moved) | {access: replace(moved, coord=moved.coord.replace(old, new))}
        assert wrong_serial(m, replace(code, moved=other))


@pytest.mark.parametrize("part", ["0", "1", "1 - consumer"])
def test_columns_of_another_consumer_are_refused(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tkgen.backends.hopper import serial_program

    m = layout()
    code = SerialLowering(m).code()
    plain = serial_program._Serial._multiply

    def moved(self: Any, each: Any) -> Any:
        node = plain(self, each)
        return replace(node, right=replace(node.right, part=part)) if self.m.takes_part(each) else node

    monkeypatch.setattr(serial_program._Serial, "_multiply", moved)
    assert wrong_serial(m, code)


def test_numbers_of_rows_are_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the condition every consumer stores them: the proof finds it."""
    from tkgen.backends.hopper import serial_program

    m, plain = layout(), serial_program.If
    monkeypatch.setattr(serial_program, "If", lambda _, *bodies: plain("1", *bodies))
    assert "is stored 4 times" in (wrong_serial(m, SerialLowering(m).code()) or "")


# ---------------------------------------------------------------- what is refused

REFUSED = {
    "512 columns of `LATENT` are divided among 2 warpgroups of the same 64 rows, but a tile has 128 of `h`": [
        ("HEADS by 64", "HEADS by 128")],
    "`LATENT` is reduced, whose columns 2 warpgroups divide: none has all of them": [
        ("SUM[b, h] = m + log2(l)", "SUM[b, h] = rowmax(o)")],
    "a product sums over `LATENT`, whose columns 2 warpgroups divide: none has all of them": [
        ("  global O ", "  global W : bf16[LATENT, ROTARY]\n  global P : bf16[BATCH, HEADS, ROTARY]\n  global O "),
        ("  SUM[b, h] = m", "  P[b, h] = bf16(o) @ W\n  SUM[b, h] = m")],
    "2 warpgroups divide the columns of `LATENT`, and each has all of `S`": [
        ("  global O ", "  global S : f32[BATCH, HEADS, KEYS]\n  global O "),
        ("    n = max", "    S[b, h, j] = s\n    n = max")],
    "products have 16, 32, 64, 128, 192, 256 columns, not 1024 of `LATENT`": [("LATENT = 512", "LATENT = 1024")],
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_divided_is_refused(message: str) -> None:
    text = LATENT
    for old, new in REFUSED[message]:
        assert old in text, old
        text = text.replace(old, new)
    with pytest.raises(SpecError) as caught:
        load(text).check()
    assert message in [d.message for d in caught.value.diagnostics]
