"""Products of groups of rows whose consumers take turns: each 64 rows of a tile end with their group by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from sampling import sample
from torch import Tensor

from tkgen.api import load
from tkgen.backends.hopper import lowering
from tkgen.backends.hopper import schedule as back_end
from tkgen.backends.hopper.host.run import run
from tkgen.backends.hopper.meant import wrong_product
from tkgen.backends.hopper.schedule import schedule, shapes
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.backends.protocol import Modelled
from tkgen.ir.types import Program
from tkgen.proof.execution import Order
from tkgen.proof.program import Drain, Step

ROWS, COLS, STEPS = 700, 136, 136
LATE, LAST = Order("first", frozenset()), Order("last", frozenset())
TEXT = f"""kernel groups
  target sm_90a
  dims TOKENS = {ROWS}, EXPERTS = 6, OFFSETS = EXPERTS + 1, OUT = {COLS}, TILES = 3, IN = {STEPS}
  global FIRST : i32[OFFSETS]
  global X : bf16[TOKENS, IN]
  global W : bf16[EXPERTS, OUT, IN]
  global S : f32[TOKENS, TILES]
  global Y : bf16[TOKENS, OUT]
  over e in EXPERTS, m in TOKENS within FIRST[e] by 256, n in OUT by 64
  grid persistent(2)
  tail masked
  shared X, W buffers 3
  role producer waves 0..3
    load X, W
  role consumer waves 4..11 as 8 x 1
    accumulate y : f32 tile 16 x 64
    schedule ping_pong
  each k in IN by 64
    y = y + X[m, k] @ W[e, n, k].T
  Y[m, n] = y
  S[m, n / 64] = rowmax(abs(y))
"""
OFFSETS = {
    "in the first of 64 rows, in the second, empty ones": (0, 30, 30, 130, 400, 400, 700),
    "a row each, and rows of no group": (3, 4, 4, 5, 6, 7, 650),
    "whole tiles": (0, 64, 128, 256, 384, 512, 640),
    "one of a row more than a tile": (0, 257, 322, 451, 451, 451, 452),
    "offsets that decrease or lie outside": (-5, 90, 60, 300, 10_000, 20, 650),
    "no rows": (0, 0, 0, 0, 0, 0, 0),
}


Execute = Callable[[HopperSpec[Program], Mapping[str, Tensor]], Modelled]


def spec_of(text: str = TEXT) -> HopperSpec[Program]:
    spec = load(text).check()
    assert isinstance(spec, HopperSpec)
    return spec


def wrong(offsets: Sequence[int], execute: Execute) -> list[str]:
    """Return the findings, and the outputs that plain torch has otherwise; rows of no group stay as they are."""
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randint(-4, 5, size, generator=generator).bfloat16() for size in ((ROWS, STEPS), (6, COLS, STEPS)))
    made = execute(spec_of(), {"FIRST": torch.tensor(offsets, dtype=torch.int32), "X": x, "W": w})
    wanted = torch.full((ROWS, COLS), torch.nan)
    ends = [min(max(0, *offsets[: i + 1]), ROWS) for i in range(len(offsets))]
    for e, (begin, end) in enumerate(pairwise(ends)):
        wanted[begin:end] = x[begin:end].float() @ w[e].float().T
    most = torch.stack([tile.abs().amax(1) for tile in wanted.split(64, 1)], 1)
    others = [name for name, t in (("Y", wanted.bfloat16()), ("S", most))
              if not torch.equal(made.outputs[name].nan_to_num(-1), t.nan_to_num(-1))]  # fmt: skip
    return [*made.findings, *others]


def on_host(order: Order, edit: Callable[[str], str] = str) -> Execute:
    return lambda spec, inputs: run(spec, spec.launch(), inputs, {}, order, text=edit(spec.text), limit=60)


@pytest.mark.parametrize("name", OFFSETS)
def test_groups_are_right(name: str) -> None:
    assert not wrong(OFFSETS[name], on_host(LATE)) and not wrong(OFFSETS[name], on_host(LAST))


@pytest.mark.parametrize("name", sample(list(OFFSETS), 2))
def test_the_model_of_the_schedule_is_right(name: str) -> None:
    assert not wrong(OFFSETS[name], lambda spec, inputs: spec.modelled(spec.launch(), inputs, {}, LATE))


SLIPS = {
    "the flag of a consumer's first 64 rows for all": ("row + Y_tile::rows >", "row - f * 64 + Y_tile::rows >"),
    "the copy engine for 64 rows of which one is the group's": ("row + Y_tile::rows > walk", "row >= walk"),
    "a row of the next group": (", walk.end)", ", min(walk.end + 1, walk.size))"),
    "without a group's last row": (", walk.end)", ", walk.end - 1)"),
    "the first 64 rows twice": ("* FRAGMENTS + f) * Y_tile::rows", "* FRAGMENTS) * Y_tile::rows"),
    "numbers of rows after a group": ("if (row >= walk.end) return;", ""),
    "the first consumer's rows for all": ("CONSUMERS + consumer) * FRAGMENTS + i", "CONSUMERS) * FRAGMENTS + i"),
    "groups of other tiles": ("walk.find(at, BLOCK_ROWS,", "walk.find(at, BLOCK_ROWS * 2,"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_slips_are_found(slip: str) -> None:
    old, new = SLIPS[slip]
    assert old in spec_of().text
    changed = on_host(LATE, lambda text: text.replace(old, new))
    assert wrong(OFFSETS["in the first of 64 rows, in the second, empty ones"], changed)


OTHER_ROWS = {
    "the flag of a consumer's first 64 rows for all": ("partial", "row + ", "row - f * 64 + "),
    "a flag that is never set": ("partial", "> walk.end", "> walk.end + 1000"),
    "the first 64 rows twice": ("row", "FRAGMENTS + f", "FRAGMENTS"),
}


@pytest.mark.parametrize("slip", OTHER_ROWS)
def test_what_is_stored_otherwise_is_found(slip: str) -> None:
    named, old, new = OTHER_ROWS[slip]
    spec = spec_of()
    code = lowering.tile_code(spec.program, spec.target)
    assert wrong_product(spec.layout, code) is None and any(old in e for each in code.rows for _, e in each.constants)
    rows = [replace(each, constants=tuple((n, e.replace(old, new) if n == named else e) for n, e in each.constants))
            for each in code.rows]  # fmt: skip
    assert " times" in str(wrong_product(spec.layout, replace(code, rows=tuple(rows))))


def test_all_stores_are_waited_for_where_a_group_ends_within_a_tile() -> None:
    """Between the 64 rows of a consumer that are whole, and those that are not, as well as between tiles."""
    ragged = [shape for shape in shapes(spec_of().layout) if shape.ragged]
    assert {shape.whole for shape in ragged} == {0, 1}
    for shape in ragged:

        def less(step: Step, left: int = shape.buffers - 1) -> Step:
            return replace(step, left=left) if isinstance(step, Drain) and step.stream == "stores" else step

        loop = schedule(shape)
        agents = tuple(replace(agent, body=tuple(map(less, agent.body))) for agent in loop.agents)
        assert back_end.wrong(loop) is None and back_end.wrong(replace(loop, agents=agents)) is not None
