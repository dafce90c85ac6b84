"""Fused matmuls of 8-bit floats on AMD GPUs: beside torch at many shapes, and refused where tiles do not fit."""

from __future__ import annotations

import pytest
import torch
from byte_attention import SPEC, attended
from executed import computed
from sampling import sample
from torch import Tensor

import tkgen
from tkgen.api import load
from tkgen.backends.cdna.spec import Spec
from tkgen.diagnostics import SpecError
from tkgen.execute.launch import run, trials
from tkgen.schedule.loops import LoopMap

DEFAULTS = {
    "target": "gfx942", "v_kind": "fp8", "length": "256", "keys": "192", "d": "64", "kind": "fp8", "p_kind": "fp8",
    "out": "bf16", "tile": "128", "waves": "waves 4 along q", "clauses": "", "buffers": "1", "step": "64",
    "bounds": "", "mask": "", "k_dims": "HEADS, KEYS, D", "v_dims": "HEADS, KEYS, D",
    "k": "K[h, j].T", "v": "V[h, j]",
}  # fmt: skip
SHAPES: dict[str, dict[str, str]] = {
    "plain": {},
    "of 16 x 16": {"tile": "64", "d": "128", "step": "128"},
    "deep": {"d": "192", "step": "128"},
    "bf8": {"kind": "bf8", "v_kind": "bf8", "p_kind": "bf8"},
    "powers of more bits than values": {"v_kind": "bf8"},
    "tails": {"length": "100", "keys": "77"},
    "one key": {"length": "1", "keys": "1"},
    "dynamic": {"length": "dynamic", "keys": "dynamic"},
    "causal": {"length": "192", "bounds": " to q", "mask": "\n    s = where(q >= j, s, -inf)"},
    "keys of V innermost": {"v_dims": "HEADS, D, KEYS", "v": "V[h, D, j].T"},
    "keys of K innermost": {"k_dims": "HEADS, D, KEYS", "k": "K[h, D, j]"},
    "8 bits out": {"out": "fp8"},
    "interleaved": {"clauses": "schedule interleave", "buffers": "2"},
    "ping-pong": {"clauses": "schedule ping_pong", "buffers": "2", "waves": "waves 8 along q", "tile": "256"},
    "persistent": {"clauses": "grid persistent(3)\n  remap column_major", "length": "300"},
}
TYPES = {
    ("fp8", "gfx942"): torch.float8_e4m3fnuz, ("bf8", "gfx942"): torch.float8_e5m2fnuz,
    ("fp8", "gfx950"): torch.float8_e4m3fn, ("bf8", "gfx950"): torch.float8_e5m2,
}  # fmt: skip
LAUNCHED = {"LENGTH": 100, "KEYS": 150}  # where a shape leaves it to the launch


def text(shape: str, target: str = "gfx942") -> str:
    return SPEC.format_map(DEFAULTS | SHAPES[shape] | {"target": target})


def spec_of(shape: str, target: str) -> Spec:
    spec = load(text(shape, target)).check()
    assert isinstance(spec, Spec)
    return spec


def inputs(shape: str, target: str) -> dict[str, Tensor]:
    """Random numbers in the types of the target, and scales for scores that make some keys win."""
    chosen = DEFAULTS | SHAPES[shape]
    generator = torch.Generator().manual_seed(0)
    size = {name: LAUNCHED[name] if (given := chosen[name.lower()]) == "dynamic" else int(given) for name in LAUNCHED}
    size |= {"HEADS": 2, "D": int(chosen["d"])}
    made = {"S": torch.tensor([0.18, 0.6])}
    all_dims = {"Q": "HEADS, LENGTH, D", "K": chosen["k_dims"], "V": chosen["v_dims"]}
    for name, dims in all_dims.items():
        kind = TYPES[chosen["v_kind" if name == "V" else "kind"], target]
        made[name] = torch.randn([size[d] for d in dims.split(", ")], generator=generator).to(kind)
    return made


def wanted(shape: str, t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Attention of the tensors as the shape stores them."""
    k = t["K"].mT if "K innermost" in shape else t["K"]
    v = t["V"].mT if "V innermost" in shape else t["V"]
    return attended(t["Q"], k, v, t["S"], shape == "causal")


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("shape", sample(list(SHAPES), 4))
def test_attention_of_bytes_is_that_of_torch(shape: str, target: str) -> None:
    build = spec_of(shape, target).build()
    assert build.machine_check.outcome == "right" and build.resources.vgpr_spills == 0
    given = inputs(shape, target)
    outputs, logarithms = computed(build, given["Q"], given["K"], given["V"], given["S"])
    expected, sums = wanted(shape, given)
    # Powers are rounded to 3 bits (2 of bf8) behind the first one: each is off by 2^-4 of itself at most, and so is
    # their mean of values; the output's own rounding comes on top.
    part = 2.0**-3 if shape == "bf8" else 2.0**-4
    values = given["V"].double().abs().amax() * part * (2 if "8 bits" in shape else 1)
    assert (outputs.double() - expected).abs().amax() < values
    assert torch.allclose(logarithms.double(), sums, atol=1e-3)
    for order, kind in trials(2) if "dynamic" not in shape else ():
        assert not run(build, kind=kind, order=order).failure


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("scale", [0.0, 30.0, -30.0, 1e30])
def test_scores_that_are_equal_and_such_as_make_one_key_win(scale: float, target: str) -> None:
    build, given = spec_of("tails", target).build(), inputs("tails", target) | {"S": torch.full((2,), scale)}
    outputs, logarithms = computed(build, given["Q"], given["K"], given["V"], given["S"])
    expected, sums = wanted("tails", given)
    assert (outputs.double() - expected).abs().amax() < given["V"].double().abs().amax() * 2.0**-4
    assert torch.allclose(logarithms.double(), sums, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_columns_of_lds_in_another_order_than_registers_are_found(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoopMap, "in_quads", lambda m, ring: False)
    spec = spec_of("plain", target)
    assert "WARP_THREADS / SIDE>(V_s" not in spec.source.text
    assert any(run(spec.build(), kind=kind, order=order).failure for order, kind in trials(2))


REFUSED = {
    "rows of 64 bytes": ({"d": "96"}, "96 along `D` is not a multiple of 64, which a row of 8-bit floats has in LDS"),
    "steps": ({"step": "32"}, "32 along `j` is not a multiple of 64, which a row of 8-bit floats has in LDS"),
    "direct": (
        {"buffers": "2 via direct", "target": "gfx950"},
        "`K` has 8-bit floats, which direct loads store in another order than fused matmuls need",
    ),
    "both ways": (
        {"v": "K[h, j]"}, "`K` has 8-bit floats, and a tile of it is used both directly and transposed: no read of "
                          "LDS transposes 8-bit floats",
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_tiles_that_do_not_fit_are_refused(why: str) -> None:
    changes, message = REFUSED[why]
    source = SPEC.format_map(DEFAULTS | changes)
    if why == "both ways":
        source = source.replace("  global V : fp8[HEADS, KEYS, D]\n", "").replace("shared K, V", "shared K")
    with pytest.raises(SpecError) as caught:
        load(source).check()
    assert [(d.code, d.message) for d in caught.value.diagnostics] == [("E230", message)]


def test_a_number_of_8_bits_for_each_row_is_refused() -> None:
    with pytest.raises(SpecError) as caught:
        tkgen.load(text("plain").replace("L : f32", "L : fp8")).check()
    assert "`L` has one 8-bit float for each row" in [d.message for d in caught.value.diagnostics]
