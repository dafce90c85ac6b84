"""Fused matmuls on Hopper with fewer rows than a product has, pages that a table lists, and 16 or 32 keys at a time."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from nvcc import compiles
from sampling import sample
from torch import Tensor

from tkgen.api import load
from tkgen.backends.hopper import loop_lowering
from tkgen.backends.hopper.chain_lowering import tile_code
from tkgen.backends.hopper.meant import wrong_chain
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.backends.registry import backend_of
from tkgen.diagnostics import SpecError
from tkgen.execute.modelled import in_order
from tkgen.proof.execution import Order

TEXT = """
kernel decode
  dims BATCH = 2, HEADS = 12, KV_HEADS = 3, KEYS = 200, CACHED = 9, PAGE = 64, LISTED = 4, D = 64
  target sm_90a
  param GROUP = HEADS / KV_HEADS
  global PAGES : i32[BATCH, LISTED]
  global LENGTH : i32[BATCH]
  global Q : bf16[BATCH, HEADS, D]
  global K : bf16[CACHED, PAGE, KV_HEADS, D]
  global V : bf16[CACHED, PAGE, KV_HEADS, D]
  global O : bf16[BATCH, HEADS, D]
  global LSE : f32[BATCH, HEADS]
  over b in BATCH, h in HEADS by GROUP
  waves 1 along h
  shared K, V buffers 2
  carry m : f32[h] = -3.4e38, l : f32[h] = 0, o : f32[h, D] = 0
  each j in KEYS below LENGTH[b] by 32
    x = 0.2 * Q[b, h] @ K[PAGES[b, j / PAGE], j % PAGE, h / GROUP].T
    n = max(m, rowmax(x))
    p = exp2(x - n)
    r = exp2(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[PAGES[b, j / PAGE], j % PAGE, h / GROUP]
    m = n
  O[b, h] = o / l
  LSE[b, h] = m + log2(l)
"""
Change = tuple[str, str]
KNOWN = (" below LENGTH[b]", ""), ("  global LENGTH : i32[BATCH]\n", "")
CASES: dict[str, list[Change]] = {
    "plain": [],
    "all keys": [*KNOWN],
    "64 keys": [("by 32", "by 64")],
    "f16": [("bf16", "f16")],
    "16 keys": [("by 32", "by 16")],
    "pages of 16 keys": [("by 32", "by 16"),
                         ("CACHED = 9, PAGE = 64, LISTED = 4", "CACHED = 14, PAGE = 16, LISTED = 13")],
    "pages of one tile": [("PAGE = 64, LISTED = 4", "PAGE = 32, LISTED = 7")],
    "a tile beyond the heads": [("HEADS by GROUP", "HEADS by 8"), ("KV_HEADS = 3", "KV_HEADS = 1"),
                                ("h / GROUP", "0")],
    "48 rows": [("HEADS = 12, KV_HEADS = 3", "HEADS = 96, KV_HEADS = 2")],
    "64 rows": [("HEADS = 12, KV_HEADS = 3", "HEADS = 128, KV_HEADS = 2"), ("waves 1", "waves 4")],
    "two consumers": [("HEADS = 12, KV_HEADS = 3", "HEADS = 256, KV_HEADS = 2"), ("waves 1", "waves 8")],
}  # fmt: skip


def changed(*changes: Change) -> str:
    text = TEXT
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def spec_of(*changes: Change) -> HopperSpec[Any]:
    spec = load(changed(*changes)).check()
    assert isinstance(spec, HopperSpec)
    return spec


def inputs_of(spec: HopperSpec[Any]) -> dict[str, Tensor]:
    """Pages in no order; the elements of pages after the last key are NaN."""
    generator, launch = torch.Generator().manual_seed(3), spec.launch()
    shapes = {t.name: launch.shape(t) for t in spec.program.reads}
    dtype = torch.bfloat16 if spec.program.reads[-1].dtype.spelling == "bf16" else torch.float16
    found = {n: torch.randn(shapes[n], generator=generator).to(dtype) for n in ("Q", "K", "V")}
    cached, page = found["K"].shape[:2]
    batch, listed = shapes["PAGES"]
    pages = torch.stack([torch.randperm(cached, generator=generator)[:listed] for _ in range(batch)])
    if "LENGTH" not in shapes:
        return found | {"PAGES": pages.int()}
    length = torch.tensor([200, 75], dtype=torch.int32)
    last = int(pages[1, 75 // page])
    if last not in pages[0]:
        found["K"][last, 75 % page :] = found["V"][last, 75 % page :] = torch.nan
    return found | {"PAGES": pages.int(), "LENGTH": length}


def wanted(given: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    heads = given["Q"].shape[1]
    outs, sums = [], []
    for b in range(2):
        keys = int(given["LENGTH"][b]) if "LENGTH" in given else 200
        k, v = (given[n][given["PAGES"][b].long()].double().flatten(0, 1)[:keys] for n in ("K", "V"))
        k, v = (x.repeat_interleave(heads // x.shape[1], 1) for x in (k, v))
        x = 0.2 * torch.einsum("hd,jhd->hj", given["Q"][b].double(), k)
        sums.append(x.mul(0.6931471805599453).logsumexp(-1) / 0.6931471805599453)
        outs.append(torch.einsum("hj,jhd->hd", torch.exp2(x - sums[-1][:, None]), v))
    return torch.stack(outs), torch.stack(sums)


@compiles
@pytest.mark.parametrize("case", sample(list(CASES), 3))
def test_few_rows_and_pages_compute_what_torch_does(case: str) -> None:
    spec = spec_of(*CASES[case])
    given = inputs_of(spec)
    tile, sums = wanted(given)
    for executor in backend_of("sm_90a").executors.values():
        made = in_order(executor, spec, spec.launch(), given, {}, Order())
        assert not made.findings
        assert torch.allclose(made.outputs["O"].double(), tile, rtol=0.02, atol=0.02)
        assert torch.allclose(made.outputs["LSE"].double(), sums, rtol=1e-4, atol=1e-3)


@compiles
def test_a_page_that_is_none_reads_zeros() -> None:
    spec = spec_of(*KNOWN)
    given = inputs_of(spec)
    given["PAGES"][0, 1], given["PAGES"][1, 2] = -1, 9
    filled = {n: torch.cat([given[n], torch.zeros_like(given[n][:1])]) for n in ("K", "V")}
    tile, _ = wanted({**given, **filled, "PAGES": torch.where(given["PAGES"] < 0, 9, given["PAGES"])})
    for executor in backend_of("sm_90a").executors.values():
        made = in_order(executor, spec, spec.launch(), given, {}, Order())
        assert not made.findings
        assert torch.allclose(made.outputs["O"].double(), tile, rtol=0.02, atol=0.02)


@compiles
def test_parts_divide_the_keys_that_a_sequence_has() -> None:
    """Not all keys that there may be: a short sequence has keys in each part."""
    spec = spec_of(
        ("BATCH = 2,", "BATCH = 2, PARTS = 2,"), ("over b in BATCH", "over b in BATCH, s in PARTS"),
        ("by 32", "by 32 part s"), ("O : bf16[BATCH", "O : bf16[BATCH, PARTS"),
        ("LSE : f32[BATCH", "LSE : f32[BATCH, PARTS"),
        ("O[b, h] = o / l", "O[b, s, h] = o / l"), ("LSE[b, h]", "LSE[b, s, h]"),
    )  # fmt: skip
    given = inputs_of(spec)
    for executor in backend_of("sm_90a").executors.values():
        made = in_order(executor, spec, spec.launch(), given, {}, Order())
        assert not made.findings
        for part, keys in enumerate((range(64), range(64, 75))):  # of 75 keys, three tiles: two, and one
            pages = given["PAGES"][1].long()
            k = given["K"][pages].double().flatten(0, 1)[keys.start : keys.stop].repeat_interleave(4, 1)
            x = 0.2 * torch.einsum("hd,jhd->hj", given["Q"][1].double(), k)
            sums = torch.exp2(x).sum(-1).log2()
            assert torch.allclose(made.outputs["LSE"][1, part].double(), sums, rtol=1e-4, atol=1e-3)


MUTANTS = {
    "the next page": ("iteration / 2", "iteration / 2 + 1"),
    "the other half of a page": ("iteration % 2", "0"),
    "the page of another sequence": ("0, b_i, iteration / 2", "0, 0, iteration / 2"),
    "the keys of other heads": ("iteration % 2, h_i, 0", "iteration % 2, 0, 0"),
    "rows of the next tile": ("h_first, h_rows", "h_first + h_rows, h_rows"),
    "more rows than the tile has": ("h_first, h_rows", "h_first, h_rows + 1"),
    "more keys than there are": ("j_length", "j_length + 1"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_other_coordinates_are_refused(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, (old, new) = spec_of(), MUTANTS[mutant]
    assert wrong_chain(spec.layout, tile_code(spec.layout)) is None
    made, found = loop_lowering.Moved, list[str]()

    def moved(tensor: str, coord: str, axis: str) -> loop_lowering.Moved:
        found.append(coord)
        return made(tensor, coord.replace(old, new), axis)

    monkeypatch.setattr(loop_lowering, "Moved", moved)
    code = tile_code(spec.layout)
    assert any(old in coord for coord in found), found
    assert wrong_chain(spec.layout, code) is not None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            [
                ("h in HEADS by GROUP", "h in HEADS by 8"),
                ("h / GROUP", "h / 8"),
                ("KV_HEADS = 3", "KV_HEADS = 2"),
                ("O[b, h] = o / l", "O[b, h] = o / colsum(o)"),
            ],
            "would be over only the block's tile",
        ),
        ([("n = max(m", "x = x + PAGES[b, 0]\n    n = max(m")], "cannot read tables of indices"),
    ],
)
def test_what_has_no_layout_is_refused(changes: list[Change], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec_of(*changes)
    assert message in str([d.message for d in caught.value.diagnostics])


def test_the_description_says_how_many_rows_are_padded() -> None:
    assert "h: 1 consumers of 4 of 64" in spec_of().layout.describe()
    assert re.search(r"TILE_ROWS = 4;.*the others are zeros", spec_of().text)
