"""Barrier placement: a minimum of them, by comparison with trying every set of gaps."""

from __future__ import annotations

import random
from itertools import combinations

import planning
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning import scheduled

from tkgen.ir import graph as dataflow
from tkgen.ir.types import Program
from tkgen.schedule.barriers import arcs, minimum_stabbing
from tkgen.schedule.epochs import conflicts
from tkgen.schedule.plan import Plan
from tkgen.tile.ops import Barrier, Copy, Fetch, Load, Move, Multiply, Read, Write
from tkgen.tile.program import Drain, Op

# ---------------------------------------------------------------- stabbing


@st.composite
def circles(draw: st.DrawFn) -> tuple[set[tuple[int, int]], int]:
    length = draw(st.integers(1, 9))
    arc = st.tuples(st.integers(0, length - 1), st.integers(1, length))
    return draw(st.sets(arc, max_size=8)), length


def touched(intervals: set[tuple[int, int]], length: int, gaps: tuple[int, ...]) -> bool:
    return all(any((g - first) % length < count for g in gaps) for first, count in intervals)


@given(circles())
@settings(max_examples=100, deadline=None)
def test_stabbing_is_minimal(circle: tuple[set[tuple[int, int]], int]) -> None:
    intervals, length = circle
    chosen = minimum_stabbing(intervals, length)
    assert touched(intervals, length, tuple(chosen))
    for size in range(len(chosen)):
        assert not any(touched(intervals, length, gaps) for gaps in combinations(range(length), size))


def test_an_arc_without_a_gap_cannot_be_stabbed() -> None:
    with pytest.raises(ValueError, match="backwards"):
        minimum_stabbing({(2, 0)}, 4)


# ---------------------------------------------------------------- whole iterations


def program(rng: random.Random) -> Program:
    vias = [rng.choice(["collective", "registers", "direct"]) for _ in range(2)]
    waves = "  waves 2 x 1\n  accumulate C : f32 tile 16 x 16\n  store C\n"
    if rng.random() < 0.5:
        waves = (
            "  role loaders waves 0..0\n    load A, B\n  role workers waves 1..2 as 2 x 1\n"
            "    accumulate C : f32 tile 16 x 16\n    store C\n"
        )
    text = (
        "kernel small\n  dims M = 32, N = 16, K = 256\n  global A : bf16[M, K]\n  global B : bf16[N, K]\n"
        f"  global C : f32[M, N]\n  block 32 x 16 step 16\n{waves}"
        f"  shared A buffers {rng.choice([1, 2, 3])} via {vias[0]}\n"
        f"  shared B buffers {rng.choice([1, 2])} via {vias[1]}\n"
    )
    return planning.program(text)


def iteration(rng: random.Random, made: Program) -> list[tuple[str, Op]]:
    """A random order of one iteration's operations that some barriers can make right."""
    loader = next(r.name for r in made.roles if r.loads)
    sequence: list[tuple[str, Op]] = []
    for operand in made.operands:
        offset = rng.choice([0, operand.buffers - 1])
        ways: dict[str, list[type[Move]]] = {"collective": [Load], "registers": [Fetch, Write], "direct": [Copy]}
        moves = [(loader, kind.of(operand.name, offset)) for kind in ways[operand.via.value]]
        reads = [(made.compute.name, Read.of(operand.name, 0, (0,), (0,)))]
        late = offset > 0 and rng.random() < 0.5
        sequence = _shuffled(rng, sequence, [*reads, *moves] if late else [*moves, *reads])
    multiply = Multiply.of(made.products[0].names, (0,), (0,), (0,))
    return [*sequence, (made.compute.name, multiply)]


def _shuffled(rng: random.Random, a: list[tuple[str, Op]], b: list[tuple[str, Op]]) -> list[tuple[str, Op]]:
    """Both lists in one, each in its own order."""
    turns = ["a"] * len(a) + ["b"] * len(b)
    rng.shuffle(turns)
    first, second = iter(a), iter(b)
    return [next(first if turn == "a" else second) for turn in turns]


def with_barriers(base: Plan, sequence: list[tuple[str, Op]], gaps: tuple[int, ...]) -> Plan:
    """The iteration with a barrier, after full waits, in each of the gaps; gap 0 is its end."""
    bodies = {}
    for role in base.program.roles:
        meeting = (Drain("lds"), Drain("vm"), Barrier())
        ops: list[Op] = []
        for position, (owner, op) in enumerate(sequence):
            if position in gaps and position:
                ops += meeting
            if owner == role.name:
                ops.append(op)
        bodies[role.name] = (*ops, *(meeting if 0 in gaps else ()))
    return base.with_bodies(bodies)


def compare(seed: int) -> int:
    rng = random.Random(seed)
    made = program(rng)
    base, sequence = scheduled(made), iteration(rng, made)
    length = len(sequence)
    chosen = tuple(minimum_stabbing(arcs(dataflow.iteration_dependencies(made, sequence), length), length))
    assert not with_barriers(base, sequence, chosen).conflicts(), f"seed {seed}"
    for size in range(len(chosen)):
        for gaps in combinations(range(length), size):
            assert with_barriers(base, sequence, gaps).conflicts(), f"seed {seed}: {gaps} does for {chosen}"
    return len(chosen)


def test_the_fewest_barriers_are_placed() -> None:
    counts = {compare(seed) for seed in range(50)}
    assert counts == {1, 2} or counts == {1, 2, 3}


@pytest.mark.slow
def test_the_fewest_barriers_are_placed_in_many_programs() -> None:
    for seed in range(50, 2000):
        compare(seed)


def test_a_few_passes_prove_all() -> None:
    """The proof finds the same in the iterations that it unrolls as in more of them."""
    verdicts = set()
    for seed in range(40):
        rng = random.Random(seed)
        made = program(rng)
        base, sequence = scheduled(made), iteration(rng, made)
        gaps = tuple(g for g in range(len(sequence)) if rng.random() < 0.35)
        tried = with_barriers(base, sequence, gaps)
        kinds = {(c.kind, c.operand) for c in tried.conflicts()}
        passes = tried.passes_to_prove[0] + 12
        found = conflicts(made, tried.waves, passes, tried.shape.unroll, tried.shape.steps(passes))
        assert {(c.kind, c.operand) for c in found} == kinds, f"seed {seed}"
        verdicts.add(bool(kinds))
    assert verdicts == {True, False}
