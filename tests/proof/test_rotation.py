"""Iterations that are the one before them with other slots: the same program, and the verdict of many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tkgen.backends.hopper.loop_schedule import Shape as LoopShape
from tkgen.backends.hopper.loop_schedule import schedule as loop_schedule
from tkgen.backends.hopper.schedule import Shape, right_tile_by_tile, schedule
from tkgen.proof.faults import faults
from tkgen.proof.passes import loop_faults, passes_to_prove, unbalanced
from tkgen.proof.program import Access, Arrive, Await, Do, Drain, Fence, Loop, Meet, Step
from tkgen.proof.rotation import rotated

SMALL = Shape(stages=3, consumers=1, steps=4, panels=2, buffers=2, warps=2)
SHAPES = [
    SMALL,
    replace(SMALL, steps=5, warps=1),
    replace(SMALL, stages=5, steps=3),
    replace(SMALL, scaled=True, steps=8),
    replace(SMALL, products=((0, 0), (0, 1)), outputs=2, panels=4),
    replace(SMALL, ping_pong=True, consumers=2, steps=5),
    replace(SMALL, panels=1, buffers=1, warps=1, blocks=2, common="B"),
]


def parts_of(shape: Shape) -> int:
    return 1 + -(-shape.turn // shape.steps)


def short(shape: Shape) -> Loop:
    """The loop of one tile."""
    found = rotated(schedule(shape, parts_of(shape)), parts_of(shape))
    assert found is not None
    return found


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_rotated_tile_unrolls_to_the_same_program(shape: Shape) -> None:
    loop, tile = schedule(shape), short(shape)
    assert shape.tiles > 1 and not list(unbalanced(tile))
    for iterations in (1, 2):
        long, made = loop.unrolled(iterations), tile.unrolled(iterations * shape.tiles)
        assert [agent.steps for agent in made.agents] == [agent.steps for agent in long.agents]
    assert not loop_faults(tile)


def test_rows_of_groups_rotate_after_two_tiles() -> None:
    ragged = replace(SMALL, ragged=True)
    tile = rotated(schedule(ragged, 4), 2)
    assert ragged.tiles == 6 and tile is not None
    made, long = tile.unrolled(3), schedule(ragged).unrolled(1)
    assert [agent.steps for agent in made.agents] == [agent.steps for agent in long.agents]


def test_tiles_of_attention_rotate() -> None:
    shape = LoopShape(left=2, right=2, consumers=2, passes=3, warps=1)
    tile = rotated(loop_schedule(shape, 2))
    assert tile is not None
    made, long = tile.unrolled(4), loop_schedule(shape).unrolled(2)
    assert [agent.steps for agent in made.agents] == [agent.steps for agent in long.agents]


def changed(loop: Loop, edit: Callable[[Step], Step | None], every: int = 1) -> Iterator[Loop]:
    """The loop with one step of an iteration changed, or left out, in turn."""
    places = [(a, n) for a, agent in enumerate(loop.agents) for n in range(len(agent.body))]
    for a, n in places[::every]:
        agent = loop.agents[a]
        step = agent.body[n]
        new = edit(step)
        if new != step:
            body = (*agent.body[:n], *([new] if new else []), *agent.body[n + 1 :])
            yield replace(loop, agents=(*loop.agents[:a], replace(agent, body=body), *loop.agents[a + 1 :]))


def other(step: Step) -> Step | None:
    """A step that does something else; none for what is left out."""
    match step:
        case Await():
            return replace(step, phase=step.phase + 1)
        case Drain():
            return replace(step, left=step.left + 1)
        case Do(writes=(Access() as access,)) if step.stream:
            return replace(step, writes=(replace(access, instance=access.instance + 1),))
        case Arrive(bytes=int(count)) if count:
            return replace(step, bytes=count + 1)
    return None


@pytest.mark.parametrize("edit", [lambda step: None, other], ids=["left out", "changed"])
def test_the_verdict_of_a_few_rotated_tiles_is_that_of_many(edit: Callable[[Step], Step | None]) -> None:
    verdicts = set()
    for loop in changed(short(SMALL), edit, every=5):
        if list(unbalanced(loop)):
            continue
        enough = passes_to_prove(loop)
        few, many = bool(loop_faults(loop)), any(faults(loop.unrolled(n)) for n in range(enough + 4))
        assert few == many
        verdicts.add(few)
    assert True in verdicts


@pytest.mark.parametrize("kind", [Await, Arrive, Do, Drain, Fence, Meet])
def test_tiles_that_differ_in_one_step_are_no_rotation(kind: type[Step]) -> None:
    """A step of the second of two tiles is changed, or left out.

    Where a tile waits once for a barrier, another phase is another rotation: other
    phases than arrivals bring.
    """
    loop = schedule(SMALL, 2)
    halves = [len(agent.body) // 2 for agent in loop.agents]
    tried = 0
    for a, agent in enumerate(loop.agents):
        for n, step in enumerate(agent.body[halves[a] :], halves[a]):
            new = other(step)
            if isinstance(step, kind) and tried < 6:
                body = (*agent.body[:n], *([new] if new else []), *agent.body[n + 1 :])
                agents = (*loop.agents[:a], replace(agent, body=body), *loop.agents[a + 1 :])
                found = rotated(replace(loop, agents=agents))
                assert found is None or (kind is Await and list(unbalanced(found)))
                tried += 1
    assert tried and rotated(loop) is not None


def test_a_slot_that_is_not_where_the_rotation_would_have_it_is_no_rotation() -> None:
    loop = schedule(SMALL, 2)
    agent = loop.agents[0]
    at = next(n for n in range(len(agent.body) - 1, 0, -1) if isinstance(agent.body[n], Do))
    step = agent.body[at]
    assert isinstance(step, Do)
    moved = replace(step, writes=tuple(replace(w, slot=(w.slot + 1) % 3) for w in step.writes))
    body = (*agent.body[:at], moved, *agent.body[at + 1 :])
    assert rotated(replace(loop, agents=(replace(agent, body=body), *loop.agents[1:]))) is None


def test_arrivals_are_counted_for_all_barriers_of_a_circle() -> None:
    """Of three barriers that take each other's place one gets an arrival too few: after a rotation all do."""
    tile = short(SMALL)
    agent = tile.agents[1]
    at = next(n for n, step in enumerate(agent.body) if isinstance(step, Arrive))
    fewer = replace(agent, body=(*agent.body[:at], *agent.body[at + 1 :]))
    found = list(unbalanced(replace(tile, agents=(tile.agents[0], fewer, *tile.agents[2:]))))
    assert len(found) == 1 and "arrivals a pass" in found[0]


def test_a_kernel_whose_rotated_tile_has_a_fault_is_not_accepted_by_it() -> None:
    """A wait for another phase in every tile rotates as well: the proof of one tile finds it."""

    def wrong(tiles: int) -> Loop:
        loop = schedule(SMALL, tiles)
        agents = []
        for agent in loop.agents:
            body = tuple(
                replace(s, phase=s.phase + 1) if isinstance(s, Await) and s.meeting.startswith("full") else s
                for s in agent.body
            )
            agents.append(replace(agent, body=body))
        return replace(loop, agents=tuple(agents))

    assert rotated(wrong(2)) is not None
    assert not right_tile_by_tile(wrong, SMALL.tiles, SMALL.steps, SMALL.turn)
    assert right_tile_by_tile(lambda tiles: schedule(SMALL, tiles), SMALL.tiles, SMALL.steps, SMALL.turn)
