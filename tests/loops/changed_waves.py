"""A wave of a loop with other ops, and whether both proofs accept it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from tkgen.backends.cdna.spec import Spec
from tkgen.schedule.loop_steps import unproven
from tkgen.schedule.loop_terms import unlike
from tkgen.tile.program import Op, Role, Tiles, ops


def is_right(spec: Spec, wave: Role) -> bool:
    """Return True if no interleaving goes wrong, and what is stored is what the equations say."""
    return unproven(spec.layout, wave, spec.target.synchronisation) is None and unlike(spec.layout, wave) is None


def with_body(wave: Role, body: Iterable[Op]) -> Role:
    """The wave with these ops in an iteration."""
    return replace(wave, tiles=Tiles((), tuple(body)))


def with_each(wave: Role, change: Callable[[Op], Op]) -> Role:
    """The wave with another op for each of an iteration."""
    return with_body(wave, map(change, ops(wave.tiles.body)))


def left_out(wave: Role) -> Iterator[tuple[bool, Op, Role]]:
    """For each op whether it is the loop's, the op, and the wave without it; the loop itself counts its iterations."""
    for n, op in enumerate(ops(wave.before)):
        yield False, op, replace(wave, before=(*wave.before[:n], *wave.before[n + 1 :]))
    body = tuple(ops(wave.tiles.body))
    for n, op in enumerate(body[:-1]):
        yield True, op, with_body(wave, (*body[:n], *body[n + 1 :]))
