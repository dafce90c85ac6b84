"""Grouped products of 8-bit floats, with scales of tensors, groups, rows and columns of a group."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from sampling import sample
from test_groups import LYING, PLAIN, changed, errors, right

import tkgen
from tkgen import load_products
from tkgen.emulate import interleavings
from tkgen.execute.launch import emulate, run
from tkgen.ir.meaning import evaluate
from tkgen.ir.rounding import rounded
from tkgen.ir.segments import segments

SPEC = Path(__file__).parents[2] / "specs" / "groups" / "grouped_fp8.tk"
MOE = SPEC.with_name("moe_fp8.tk")
SMALL: dict[str, int | None] = {"TOKENS": 200, "EXPERTS": 5, "OUT": 136, "IN": 208}
SCALED = """kernel scaled
  dims TOKENS = 200, GROUPS = 5, OFFSETS = GROUPS + 1, N = 72, K = 160
  global FIRST : i32[OFFSETS]
  global X : fp8[TOKENS, K]
  global W : fp8[GROUPS, N, K]
  global s : f32[TOKENS]
  global t : f32[GROUPS]
  global Y : bf16[TOKENS, N]
  scalar all : f32 = 0.25
  over g in GROUPS, m in TOKENS within FIRST[g] by 64, n in N by 64
  tail masked
  waves 2 x 2
  shared X, W
  each k in K by 128
    y = y + X[m, k] @ W[g, n, k].T
  Y[m, n] = all * s[m] * t[g] * y
"""


@pytest.mark.parametrize("target", ["gfx942", pytest.param("gfx950", marks=pytest.mark.slow)])
def test_the_spec_under_twenty_interleavings(target: str) -> None:
    """Rows, columns and contraction that do not divide, of two K-steps; some groups are empty."""
    text = changed(SPEC.read_text(encoding="utf-8"), ("persistent(304)", "persistent(5)"))
    right(load_products(text, SMALL | {"TOKENS": 150, "EXPERTS": 3, "OUT": 40}, target), orders=20)


@pytest.mark.parametrize("k", [128, 256])
def test_one_and_two_steps(k: int) -> None:
    right(load_products(SPEC, SMALL | {"IN": k, "TOKENS": 70, "EXPERTS": 2}, "gfx942"), orders=1)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("change", sample([("", ""), ("t[g] * y", "y"), ("s[m] * ", ""), ("fp8[", "bf8[")], 2))
def test_scales_of_tensors_groups_and_rows(change: tuple[str, str], target: str) -> None:
    text = changed(SCALED, change)
    text = "".join(line + "\n" for line in text.splitlines() if not (change[1] == "y" and "global t" in line))
    right(
        load_products(
            text if change[0] != "s[m] * " else changed(text, ("  global s : f32[TOKENS]\n", "")), target=target
        )
    )


@pytest.mark.parametrize("grid", ["", "  grid persistent(3)\n"])
def test_whatever_offsets_hold_no_row_is_written_twice_or_outside(grid: str) -> None:
    build = load_products(SCALED + grid, target="gfx942").check().build()
    launch, program = build.spec.launch(), build.spec.program
    torch.manual_seed(0)
    types = {t.name: t.dtype for t in program.arguments}
    x, w = (rounded(torch.randn(shape), types[name]) for name, shape in (("X", (200, 160)), ("W", (5, 72, 160))))
    for offsets in (*PLAIN, *LYING):
        first = torch.tensor(offsets, dtype=torch.int32)
        inputs = {"FIRST": first, "X": x, "W": w, "s": torch.rand(200), "t": torch.rand(5)}
        results, outcome = emulate(build, launch, inputs, {"all": 0.25})
        assert not outcome.findings, (offsets, outcome.findings)
        meant = evaluate(program.equations.kernel, inputs, {"all": 0.25})["Y"]
        inside = torch.zeros(200, dtype=torch.bool)
        for part in segments(offsets, 200):
            inside[part.start : part.stop] = True
        assert results["Y"][~inside].isnan().all() and not results["Y"][inside].isnan().any()
        assert ((results["Y"].double() - meant.value).abs()[inside] <= meant.bound[inside]).all()


def test_weights_of_4_bits_in_groups() -> None:
    """A factor of another type than the rows', with a scale for each 32 of a row of each group."""
    text = changed(SCALED, ("X : fp8", "X : bf16"), ("W : fp8[GROUPS, N, K]", "W : i4[GROUPS, N, K] interleaved"),
                   ("K = 160", "K = 256, S = K / 32"), ("global t : f32[GROUPS]", "global t : bf16[GROUPS, N, S]"),
                   ("W[g, n, k].T", "bf16(t[g, n, k / 32] * W[g, n, k]).T"), ("t[g] * y", "y"))  # fmt: skip
    build = load_products(text, target="gfx942").check().build()
    for number, order in enumerate(interleavings(2)):
        assert run(build, seed=number, order=order).ok
    assert run(build, build.spec.launch().sample()).ok


MISTAKES = [
    ("W : fp8", "W : bf16", "E204: one product of e4m3fnuz and bf16: no matrix instruction accepts both"),
    ("  tail masked\n", "", "E604: groups of TOKENS have any length, so their last tiles reach into the next group"),
    ("W : fp8[GROUPS, N, K]", "W : fp8[GROUPS, K, N]", "E204"),
    ("y = y + X[m, k] @ W[g, n, k].T", "y = y + s[m] * (X[m, k] @ W[g, n, k].T)",
     "E230: `s` scales products of ragged rows, which has no schedule yet"),
    ("K by 128", "K by 96", "E20"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), MISTAKES)
def test_what_people_get_wrong(old: str, new: str, message: str) -> None:
    text = changed(SCALED, (old, new))
    text = changed(text, ("W[g, n, k].T", "W[g, k, n]")) if "GROUPS, K, N" in new else text
    found = errors(text)
    assert any(f.startswith(message) for f in found), found


def quantised(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes of MI300X, and the scale of each row."""
    scale = x.abs().amax(-1) / 240
    return (x / scale[..., None]).to(torch.float8_e4m3fnuz), scale


@pytest.mark.parametrize("target", ["gfx942", pytest.param("gfx950", marks=pytest.mark.slow)])
@pytest.mark.parametrize("count", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_a_layer_of_experts_under_interleavings(count: int, target: str) -> None:
    """Rows, columns and contraction that do not divide; groups as they are drawn, empty ones among them."""
    sizes: dict[str, int | None] = {"TOKENS": 30, "EXPERTS": 4, "D": 144, "HIDDEN": 80}
    text = MOE.read_text(encoding="utf-8").replace("persistent(304)", "persistent(3)")
    build = tkgen.load(text, sizes, target).check().build()
    for number, order in enumerate(interleavings(count)):
        found = run(build, seed=number, order=order)
        assert found.ok, found.failure


def test_a_layer_of_experts_is_what_its_weights_say() -> None:
    """Beside f64 on the numbers that the codes stand for: what it makes between the products is rounded once more."""
    generator = torch.Generator().manual_seed(3)
    x, chances = (torch.randn(*shape, generator=generator) for shape in ((30, 144), (30, 4)))
    gate, up, down = (torch.randn(4, *shape, generator=generator) * 0.3 for shape in ((80, 144), (80, 144), (144, 80)))
    chances[:, 2] = -9.0  # an expert that nobody asks
    weights, experts = chances.softmax(-1).topk(2)
    order = experts.flatten().argsort(stable=True)
    first = torch.cat([torch.zeros(1), torch.bincount(experts.flatten(), minlength=4).cumsum(0)]).int()
    codes = [quantised(t) for t in (x, gate, up, down)]
    numbers = [q.double() * s.double()[..., None] for q, s in codes]
    (q, s), tensors, token = codes[0], [t for pair in codes[1:] for t in pair], (order // 2).int()
    sizes: dict[str, int | None] = {"TOKENS": 30, "EXPERTS": 4, "D": 144, "HIDDEN": 80}
    layer = tkgen.operator(tkgen.load(MOE, sizes, "gfx942").check().build(), "a_layer_of_experts_on_8_bit_floats")
    slot = order.argsort().view(30, 2).int()
    y = layer(first, token, slot, weights.flatten()[order], q, s[order // 2], *tensors)
    meant = torch.zeros(30, 144, dtype=torch.float64)
    a, g, u, d = numbers
    for t in range(30):
        for weight, e in zip(weights[t].double(), experts[t], strict=True):
            meant[t] += weight * (d[e] @ (F.silu(g[e] @ a[t]) * (u[e] @ a[t])))
    assert (y.double() - meant).norm() < 0.04 * meant.norm()
