"""Numbers of iterations that stand for all others in the proof: which are there, and that each of them is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate, product

import pytest
from test_hopper_loops import MUTANTS, SMALL
from test_hopper_schedule import edited

from tkgen.backends.hopper.loop_schedule import in_turn, schedule
from tkgen.backends.hopper.schedule import wrong
from tkgen.backends.hopper.tile_lengths import in_any_order, runs_between
from tkgen.proof.program import Await, Loop, Step

NUMBERS = {"one": [1], "even": [2, 4, 6], "any": range(1, 9), "none, too": range(6), "none alone": [0], "long": [7]}


@pytest.mark.parametrize("reach, turn", [(2, 2), (3, 6), (3, 3)])
@pytest.mark.parametrize("name", NUMBERS)
def test_the_run_has_all_tiles_that_can_be_near_each_other(name: str, reach: int, turn: int) -> None:
    """Two tiles of any length with fewer iterations than `reach` between them, listed here by their definition."""
    numbers = [*NUMBERS[name]]
    run = in_any_order(numbers, reach, turn)
    circle = [min(n, reach + 1) for n in run] * (reach + 2)
    lengths = sorted({min(n, reach + 1) for n in numbers})
    for between in range(reach):
        for tiles in product(lengths, repeat=between + 2):
            if sum(tiles[1:-1]) < reach and 0 not in tiles[1:-1]:
                assert any(tuple(circle[n : n + len(tiles)]) == tiles for n in range(len(run))), tiles
    assert {min(n, reach + 1) for n in run} == {*lengths}
    if max(numbers) > reach:
        assert sum(run) % turn == 0, "the run brings the rings to their beginning"


def test_no_pair_is_there_twice() -> None:
    assert in_any_order([2, 4, 6], 2, 2) == (3, 3, 2, 2)
    run = in_any_order([3, 4, 5, 6], 3, 3)
    assert len(run) == 4 and len(in_any_order(range(4, 9), 3, 1)) == 1


def test_tiles_without_iterations_are_not_counted_forever() -> None:
    assert [*runs_between([0, 1], 2)] == [(), (1,), (1, 1)]


def no_wait(before: int, own: int) -> Callable[[Loop, tuple[int, ...]], Loop]:
    """A mutant: the held factor of tiles of `own` iterations after one of `before` is copied without a wait."""

    def edit(loop: Loop, run: tuple[int, ...]) -> Loop:
        def steps(of: tuple[Step, ...]) -> tuple[Step, ...]:
            tiles = accumulate(isinstance(s, Await) and s.meeting == "held empty" for s in of)
            return tuple(
                step for step, tile in zip(of, tiles, strict=True)
                if not (isinstance(step, Await) and step.meeting == "held empty"
                        and (run[(tile - 2) % len(run)], run[(tile - 1) % len(run)]) == (before, own))
            )  # fmt: skip

        agents = tuple(replace(a, body=steps(a.body)) if a.name == "producer" else a for a in loop.agents)
        return replace(loop, agents=agents)

    return edit


@pytest.mark.parametrize("before, own", [(2, 2), (2, 3), (3, 2), (3, 3)])
def test_a_fault_after_any_tile_is_found(before: int, own: int) -> None:
    """A wait is missing for one pair of lengths only: a run without this pair is right."""
    shape = in_turn(replace(SMALL, passes=0), [2, 4, 6])[0]
    loop = schedule(shape)
    other = no_wait(before, own)(loop, shape.run)
    assert not wrong(loop) and other != loop and wrong(other)
    without = replace(shape, run=(before,) if before != own else (5 - own, 5 - own, own))
    assert not wrong(no_wait(before, own)(schedule(without), without.run))


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_run_of_even_lengths_refuses_every_mutant(mutant: str) -> None:
    shapes = in_turn(replace(SMALL, passes=0), [2, 4, 6])
    assert not any(wrong(schedule(shape)) for shape in shapes)
    assert any(wrong(edited(schedule(shape), MUTANTS[mutant])) for shape in shapes)
