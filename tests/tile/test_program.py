"""The tile program: its expressions, and that an op which is left out of one is found by the proof."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import tkgen.targets
import tkgen.tile
from tkgen.backends.hopper import loop_schedule, schedule
from tkgen.backends.hopper.loop_schedule import Shape as Chained
from tkgen.backends.hopper.schedule import Shape as Streamed
from tkgen.targets.synchronisation import synchronisation
from tkgen.tile.expressions import evaluate
from tkgen.tile.program import Advance, Block, If, Loop, Node, Op, Scoped, Text, Tiles

# ---------------------------------------------------------------- expressions

VALUES = {"a": 7, "b": 3, "STAGES": 4}


@pytest.mark.parametrize(
    "expression, value",
    [
        ("12", 12), ("a", 7), ("a + b", 10), ("a - b", 4), ("a * b", 21), ("a / b", 2), ("a % b", 1),
        ("a == b", 0), ("a == 7", 1), ("b < a", 1), ("a < b", 0), ("a > b", 1), ("b > a", 0),
        ("a + b * 2", 13), ("(a + b) * 2", 20), ("(a + 1) % STAGES", 0), ("a - b - 1", 3),
        ("b < a && a < STAGES", 0), ("b < a && b < STAGES && a == 7", 1), ("a && b", 1), ("a && 0", 0),
        ("STAGES > 1 && a == 2 * b + 1", 1),
    ],
)  # fmt: skip
def test_expressions_have_the_values_of_cpp(expression: str, value: int) -> None:
    found = evaluate(expression, VALUES)
    assert found == value and type(found) is int


def test_a_conjunction_ends_with_its_first_part_that_is_false() -> None:
    assert evaluate("0 && unknown", {}) == 0
    with pytest.raises(KeyError, match="unknown"):
        evaluate("1 && unknown", {})


def test_a_name_without_a_value_is_told() -> None:
    with pytest.raises(KeyError, match="c"):
        evaluate("a + c", VALUES)


@pytest.mark.parametrize("text", ["a +", "f(a)", "-a", "a ? b : 1", "a || b", "a[0]", "1.5", "a ** b", "b < a < 9", ""])
def test_what_is_no_expression_of_integers_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="is no expression of integers"):
        evaluate(text, VALUES)


def test_no_target_has_a_word_in_the_tile_program() -> None:
    """Targets name their streams, barriers and ways to memory; no name of those or of an instruction is here."""
    instructions = (
        r"(v_|s_|ds_|buffer_|global_|sched_)\w+|vmcnt|lgkmcnt|mfma|wgmma|mbarrier|lds|simd|tma|ptx|gfx\w*|sm_\w+|"
        r"cdna|hopper|thunderkittens"
    )
    named = {"async"}
    for path in Path(tkgen.targets.__file__).parent.glob("*.toml"):
        machine = synchronisation(tomllib.loads(path.read_text()))
        named |= {s.name for s in machine.streams if s.name != s.carries} | {f.name for f in machine.fences}
    words = re.compile(rf"\b({instructions}|{'|'.join(map(re.escape, sorted(named)))})\b", re.IGNORECASE)
    folder = Path(tkgen.tile.__file__).parent
    found = {f"{path.name}: {word[0]}" for path in folder.glob("*.py") for word in words.finditer(path.read_text())}
    assert found == set()


# ---------------------------------------------------------------- programs with an op left out

Edit: TypeAlias = Callable[[Op | Text], tuple[Node, ...]]


def edited(nodes: tuple[Node, ...], edit: Edit) -> Iterator[tuple[Op | Text, tuple[Node, ...]]]:
    """Each op and text among nodes, and the nodes with what `edit` makes of it."""
    for n, node in enumerate(nodes):
        before, behind = nodes[:n], nodes[n + 1 :]
        match node:
            case Loop() | Tiles() | Scoped():
                for op, body in edited(node.body, edit):
                    yield op, (*before, replace(node, body=body), *behind)
            case If():
                for op, body in edited(node.then, edit):
                    yield op, (*before, replace(node, then=body), *behind)
                for op, body in edited(node.other, edit):
                    yield op, (*before, replace(node, other=body), *behind)
            case _:
                yield node, (*before, *edit(node), *behind)


def edited_blocks(block: Block, edit: Edit) -> Iterator[tuple[Op | Text, Block]]:
    """Each op and text of a block's roles, and the block with what `edit` makes of it."""
    for n, role in enumerate(block.roles):
        for op, nodes in edited(role.nodes, edit):
            ((at, tiles),) = ((i, node) for i, node in enumerate(nodes) if isinstance(node, Tiles))
            changed = replace(role, before=nodes[:at], tiles=tiles, behind=nodes[at + 1 :])
            yield op, replace(block, roles=(*block.roles[:n], changed, *block.roles[n + 1 :]))


SMALL = Streamed(stages=2, consumers=1, steps=3, panels=2, buffers=2, warps=2)
IN_TURNS = replace(SMALL, consumers=2, steps=2, ping_pong=True)
CHAINED = Chained(2, 2, consumers=1, passes=2, warps=2)
PROGRAMS: dict[str, list[Streamed] | list[Chained]] = {
    "streamed": [replace(SMALL, rounds=(False,))],
    "streamed, in turns": [IN_TURNS],
    "streamed, scaled": [replace(SMALL, scaled=True)],
    "streamed, of groups": [replace(SMALL, panels=4, ragged=True)],
    # One consumer takes no turns. Of as many iterations as buffers the wait for the held tile covers theirs.
    "chained": [CHAINED, replace(CHAINED, consumers=2, warps=1), replace(CHAINED, passes=3)],
}
"""Shapes of each program that are proven together: an op may be needed in one of them alone."""

NOT_PROVEN = {"Text", "Pin", "Bind"}
"""Ops that no schedule has: C++ that touches no tile, a fence for the compiler alone, another name for a tile."""

NOT_NEEDED = {"streamed, in turns": {"Let"}, "streamed, of groups": {"Drain"}}
"""Ops that these shapes do not need.

`Let`: names in coordinates of tensors, which a shape does not have; without them the C++ does not compile.
`Drain`: behind a tile whose rows warps store themselves no store of the copy engine is under way, and such
a tile is the last one here. A kernel of groups is also proven without such tiles.
"""
SLOW = ("streamed, scaled", "streamed, of groups")


def verdict(shape: Streamed | Chained) -> str | None:
    """The first fault of a schedule. A name without a value is one, too: the C++ does not declare it either."""
    try:
        made = schedule.schedule(shape) if isinstance(shape, Streamed) else loop_schedule.schedule(shape)
    except KeyError as error:
        return f"{error} has no value"
    return schedule.wrong(made)


@contextmanager
def instead(shape: Streamed | Chained, block: Block | None = None) -> Iterator[list[Block]]:
    """While it lasts, schedules like that of `shape` are made of `block`; the programs that are asked for otherwise."""
    module, found = schedule if isinstance(shape, Streamed) else loop_schedule, list[Block]()
    made = module.program

    def program(*code: Any) -> Block:
        found.append(block or made(*code))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "program", program)
        yield found


def verdicts(
    shapes: Sequence[Streamed | Chained], edit: Edit, kind: type[Op | Text] = object
) -> Iterator[tuple[Op | Text, str | None]]:
    """Each op of a kind in a program, and the first fault of any shape with what `edit` makes of it."""
    with instead(shapes[0]) as programs:
        assert not any(map(verdict, shapes))
    for op, block in (each for each in edited_blocks(programs[0], edit) if isinstance(each[0], kind)):
        with instead(shapes[0], block):
            yield op, next(filter(None, map(verdict, shapes)), None)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in PROGRAMS])
def test_an_op_that_is_left_out_is_found(name: str) -> None:
    found = list(verdicts(PROGRAMS[name], lambda _: ()))
    assert sum(fault is not None for _, fault in found) >= 20
    missed = {type(op.does or op if isinstance(op, Text) else op).__name__ for op, fault in found if fault is None}
    assert missed - NOT_PROVEN == NOT_NEEDED.get(name, set())


@pytest.mark.parametrize("times", [0, 2])
def test_a_cursor_that_goes_on_otherwise_is_found(times: int) -> None:
    """An iteration is one tile here: in each the wait would be for the same phase, or for each second one."""
    assert IN_TURNS.tiles == 1
    found = verdicts([IN_TURNS], lambda op: (op,) * times, Advance)
    ((_, fault),) = ((op, fault) for op, fault in found if isinstance(op, Advance) and op.cursor.name == "own")
    assert fault == f"`turn 0` gets 2 arrivals a pass, its phases take {2 * times}"
