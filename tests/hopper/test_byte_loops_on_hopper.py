"""Fused matmuls of 8-bit floats on Hopper: beside torch at many shapes, bit by bit, and refused where wgmma cannot."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from byte_attention import SPEC, attended
from nvcc import compiles
from sampling import sample
from torch import Tensor

import tkgen
from tkgen.api import load
from tkgen.backends.hopper.backend import HopperBackend
from tkgen.backends.hopper.chain_lowering import tile_code
from tkgen.backends.hopper.host.run import run
from tkgen.backends.hopper.meant import wrong_chain
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.diagnostics import SpecError
from tkgen.execute.modelled import in_order
from tkgen.proof.execution import Order

HEADER = Path(tkgen.__file__).parent / "backends" / "hopper" / "include" / "tkgen" / "tiles.cuh"
DEFAULTS = {
    "target": "sm_90a", "k_dims": "HEADS, KEYS, D", "v_dims": "HEADS, D, KEYS", "waves": "", "length": "128",
    "keys": "384", "d": "64", "kind": "fp8", "v_kind": "fp8", "p_kind": "fp8", "out": "bf16",
    "tile": "128", "clauses": "", "buffers": "2", "step": "128", "bounds": "", "mask": "", "k": "K[h, j].T",
    "v": "V[h, D, j].T",
}  # fmt: skip
SHAPES: dict[str, dict[str, str]] = {
    "plain": {},
    "wide": {"d": "192", "tile": "64", "buffers": "1"},
    "columns beyond the end": {"d": "80", "out": "f32"},
    "steps of 256": {"step": "256", "keys": "512", "tile": "64"},
    "bf8": {"kind": "bf8", "v_kind": "bf8", "p_kind": "bf8"},
    "powers of more bits than values": {"v_kind": "bf8"},
    "powers of fewer bits than values": {"p_kind": "bf8"},
    "tails": {"length": "100", "keys": "208"},
    "few keys": {"length": "1", "keys": "16"},
    "dynamic": {"length": "dynamic", "keys": "dynamic"},
    "causal": {"length": "384", "bounds": " to q", "mask": "\n    s = where(q >= j, s, -inf)"},
    "ping-pong": {"clauses": "schedule ping_pong", "tile": "128"},
    "persistent": {"clauses": "grid persistent(3)\n  remap column_major", "length": "300"},
}
TYPES = {"fp8": torch.float8_e4m3fn, "bf8": torch.float8_e5m2}
LAUNCHED = {"LENGTH": 100, "KEYS": 272}  # where a shape leaves it to the launch


def spec_of(changes: Mapping[str, str]) -> HopperSpec:
    spec = load(SPEC.format_map(DEFAULTS | changes)).check()
    assert isinstance(spec, HopperSpec)
    return spec


def inputs(shape: str, scales: tuple[float, float] = (0.18, 0.6)) -> dict[str, Tensor]:
    """Random numbers, and scales for scores that make some keys win."""
    chosen = DEFAULTS | SHAPES[shape]
    generator = torch.Generator().manual_seed(0)
    size = {name: LAUNCHED[name] if (given := chosen[name.lower()]) == "dynamic" else int(given) for name in LAUNCHED}
    length, keys, d = size["LENGTH"], size["KEYS"], int(chosen["d"])
    shapes = {"Q": (2, length, d), "K": (2, keys, d), "V": (2, d, keys)}
    kinds = {"V": TYPES[chosen["v_kind"]]}
    made = {n: torch.randn(s, generator=generator).to(kinds.get(n, TYPES[chosen["kind"]])) for n, s in shapes.items()}
    return made | {"S": torch.tensor(scales)}


def wanted(shape: str, t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Attention of the tensors as the shape stores them."""
    return attended(t["Q"], t["K"], t["V"].mT, t["S"], shape == "causal")


def compared(shape: str, spec: HopperSpec, given: dict[str, Tensor], count: int) -> None:
    """Every executor, in several orders, stores what torch computes."""
    sizes = LAUNCHED if shape == "dynamic" else {}
    launch = spec.launch(sizes)
    expected, sums = wanted(shape, given)
    # Powers are rounded to 3 bits (2 of bf8) after the first one: each is off by 2^-4 of itself at most, and so is
    # their mean of values.
    part = 2.0**-3 if DEFAULTS | SHAPES[shape] | {"p_kind": "bf8"} == DEFAULTS | SHAPES[shape] else 2.0**-4
    for executor in HopperBackend().executors.values():
        for order in executor.orders(count):
            made = in_order(executor, spec, launch, given, {}, order)
            assert not made.findings
            outputs, logarithms = (made.outputs[name].double() for name in "OL")
            assert (outputs - expected).abs().amax() < given["V"].double().abs().amax() * part
            assert torch.allclose(logarithms, sums, rtol=1e-5, atol=1e-3)


@compiles
@pytest.mark.parametrize("shape", sample(list(SHAPES), 5))
def test_attention_of_bytes_is_that_of_torch(shape: str) -> None:
    spec = spec_of(SHAPES[shape])
    compared(shape, spec, inputs(shape), 2)
    assert spec.build().figures.spill_bytes == 0


@pytest.mark.parametrize("scale", [0.0, 30.0, -30.0])
def test_scores_that_are_equal_and_such_as_make_one_key_win(scale: float) -> None:
    compared("tails", spec_of(SHAPES["tails"]), inputs("tails", (scale, scale)), 1)


ROUNDED = """kernel rounded
  target sm_90a
  dims ROWS = 64, KEYS = 128
  global Q : fp8[ROWS, KEYS]
  global K : fp8[KEYS, KEYS]
  global V : fp8[KEYS, KEYS]
  global S : f32[ROWS]
  global O : f32[ROWS, KEYS]

  over q in ROWS by 64
  shared K, V  buffers 1
  carry o : f32[q, KEYS] = 0
  each j in KEYS by 128
    s = S[q] * Q[q] @ K[j].T
    o = o + {kind}(s) @ V[KEYS, j].T
  O[q] = o
"""


def rounded(kind: str, edited: str = "") -> Tensor:
    """Scores rounded by a kernel whose other factors are units: every element where it belongs, with its own bits.

    Those of the last row are infinite. `edited` has a function of C++ that the kernel calls for `tk::convert`.
    """
    spec = load(ROUNDED.format(kind=kind)).check()
    assert isinstance(spec, HopperSpec)
    codes = torch.arange(64 * 128).remainder(0x7F).view(64, 128).to(torch.uint8).view(torch.float8_e4m3fn)
    units = torch.eye(128).to(torch.float8_e4m3fn)
    scales = torch.ldexp(torch.linspace(1, 1.9, 64), torch.arange(64) % 24 - 12)
    scales[::2] *= -1
    scales[-1] = 1e38
    given = {"Q": codes, "K": units, "V": units, "S": scales}
    text = spec.text.replace("tk::convert(", "mutant(").replace("\n__global__", edited + "\n__global__", 1)
    made = run(spec, spec.launch(), given, {}, Order(), text=text if edited else None, limit=60)
    assert not made.findings
    return made.outputs["O"]


def expected_rounded(kind: str) -> Tensor:
    codes = torch.arange(64 * 128).remainder(0x7F).view(64, 128).to(torch.uint8).view(torch.float8_e4m3fn).float()
    scales = torch.ldexp(torch.linspace(1, 1.9, 64), torch.arange(64) % 24 - 12)
    scales[::2] *= -1
    most = torch.finfo(TYPES[kind]).max
    return (scales[:, None] * codes).clamp(-most, most).to(TYPES[kind]).float()


@pytest.mark.parametrize("kind", TYPES)
def test_each_score_is_rounded_and_stays_in_its_place(kind: str) -> None:
    found = rounded(kind)
    assert torch.equal(found[:-1], expected_rounded(kind)[:-1])
    assert found[-1].isnan().all()  # infinity is a NaN of e4m3, and of e5m2 one times zero is


def test_sums_of_rounded_powers_count_what_is_multiplied() -> None:
    """Powers up to 1000 are rounded, the larger ones to 448: the sum of a row is of the same numbers as the product."""
    text = SPEC.format_map(DEFAULTS | {"keys": "128", "v": "V[h, D, j].T"})
    text = text.replace("p = exp2(s - n)", "p = fp8(1000 * exp2(s - n))").replace("fp8(p) @", "p @")
    spec = load(text).check()
    assert isinstance(spec, HopperSpec)
    given = inputs("plain")
    given["K"] = given["K"][:, :128].contiguous()
    given["V"] = torch.ones(2, 64, 128).to(torch.float8_e4m3fn)
    made = run(spec, spec.launch(), given, {}, Order(), limit=60)
    assert not made.findings and torch.equal(made.outputs["O"].float(), torch.ones(2, 128, 64))
    scores = given["S"][:, None, None] * (given["Q"].float() @ given["K"].float().mT)
    powers = 1000 * torch.exp2(scores - scores.amax(-1, True))
    total = powers.clamp(max=448).to(torch.float8_e4m3fn).float().sum(-1)
    assert torch.allclose(made.outputs["L"], scores.amax(-1) + total.log2(), rtol=0, atol=0.01)


PACKED = """kernel packed
  dims SEQUENCES = 3, OFFSETS = SEQUENCES + 1, HEADS = 2, TOKENS = 256, D = 64
  global FIRST : i32[OFFSETS]
  global Q : fp8[HEADS, TOKENS, D]
  global K : fp8[HEADS, TOKENS, D]
  global V : fp8[HEADS, D, TOKENS]
  global O : bf16[HEADS, TOKENS, D]
  over b in SEQUENCES, h in HEADS, q in TOKENS within FIRST[b] by 128
  shared K, V
  carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0
  each j in TOKENS within FIRST[b] by 128
    s = 0.18 * Q[h, q] @ K[h, j].T
    n = max(m, rowmax(s))
    p = exp2(s - n)
    r = exp2(m - n)
    l = l * r + rowsum(p)
    o = o * r + fp8(p) @ V[h, D, j].T
    m = n
  O[h, q] = o / l
"""


def test_packed_sequences_are_refused() -> None:
    with pytest.raises(SpecError) as caught:
        load(PACKED, target="sm_90a").check()
    messages = [(d.code, d.message) for d in caught.value.diagnostics]
    assert messages == [("E230", "the copy engine cannot end a row of `V` at the end of a group")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("first ^ 1", "first"),
        ("lane % 2 * 2 + lane / 2", "lane / 2 * 2 + lane % 2"),
        ("lane % 2 ? high : low", "lane % 2 ? low : high"),
        ("lane % 2 ? low : high", "high"),
        ("lane / 2 ? other : one", "one"),
        ("t % 2 * 2]", "t % 2]"),
        ("left & 0xffff", "right & 0xffff"),
        ("uint32_t(pair[3]) << 16", "uint32_t(pair[1]) << 16"),
    ],
)
def test_mutants_of_the_conversion_are_found(old: str, new: str) -> None:
    start = r"template <typename T, int K> __device__ inline void convert\("
    found = re.search(start + r".*?\n}\n", HEADER.read_text(encoding="utf-8"), re.S)
    assert found is not None
    function = found[0].replace("void convert(left_of_bytes", "void mutant(tk::left_of_bytes")
    right = rounded("fp8", function)
    assert torch.equal(right[:-1], expected_rounded("fp8")[:-1])
    assert function.count(old) == 1
    assert not torch.equal(rounded("fp8", function.replace(old, new))[:-1], right[:-1])


def test_values_that_lie_otherwise_are_not_what_the_equations_say() -> None:
    layout = spec_of({}).layout
    code = tile_code(layout)
    assert code.second == "ABt" and wrong_chain(layout, code) is None
    assert wrong_chain(layout, replace(code, second="AB"))
    place = code.right.coord.replace("iteration", "0")
    assert wrong_chain(layout, replace(code, right=replace(code.right, coord=place)))


INNERMOST = "wgmma takes 8-bit floats only with the summed axis innermost"
REFUSED = {
    "values": ({}, ("V : fp8[HEADS, D, KEYS]", "V : fp8[HEADS, KEYS, D]"), ("V[h, D, j].T", "V[h, j]"),
               f"`V` does not have `j` innermost: {INNERMOST}"),
    "keys": ({"k": "K[h, D, j]"}, ("K : fp8[HEADS, KEYS, D]", "K : fp8[HEADS, D, KEYS]"), ("", ""),
             f"`K` does not have `D` innermost: {INNERMOST}"),
    "half a row": ({"step": "64"}, ("", ""), ("", ""),
                   "64 of `j` are not a multiple of 128, the length of a row of `V` in shared memory"),
    "outputs": ({"out": "fp8"}, ("", ""), ("", ""), "`O` is e4m3fn, but not an operand of a product"),
    "rows of keys": ({"keys": "200"}, ("", ""), ("", ""),
                     "a row of `V` is 200 bytes, but the copy engine needs a multiple of 16"),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_what_wgmma_cannot_take_is_refused(why: str) -> None:
    changes, one, two, message = REFUSED[why]
    source = SPEC.format_map(DEFAULTS | changes).replace(*one).replace(*two)
    with pytest.raises(SpecError) as caught:
        load(source).check()
    assert [(d.code, d.message) for d in caught.value.diagnostics] == [("E230", message)]
