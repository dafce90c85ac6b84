"""Sizes worth trying of a kernel that sums products step by step."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tkgen.ir.limits import dynamic_batch, product_sizes, with_all
from tkgen.ir.types import ACCESS_BYTES, Program
from tkgen.schedule import Plan
from tkgen.targets.model import round_up


def cases(plan: Plan) -> Iterator[dict[str, int]]:
    """Sizes worth trying: one K-step, odd and even counts, the smallest grid and a larger one, ragged where allowed."""
    program = plan.program
    bm, bn, bk = program.block
    unroll = plan.shape.unroll if program.k.size is None else program.unroll or 1
    least = max(plan.shape.tail_iterations if program.k.size is None else 1, 1)
    parts = program.grid.count if program.grid.name == "split_k" else 1
    parts = parts if program.part is None else program.part.dim.size or 1
    counts = sorted({-(-max(c, least) // unroll) * unroll * parts for c in (1, 2, 3, 5, 8)})
    sizes = partial(product_sizes, program, steps=unroll * parts)
    found = [sizes(bm, bn, c * bk) for c in counts]
    found.append(sizes(2 * bm, 3 * bn, counts[min(2, len(counts) - 1)] * bk))
    if program.tail == "clamped":
        elements = program.a.tensor.dtype.elements(ACCESS_BYTES)  # a clamped load moves whole chunks of 16 bytes
        found.append(sizes(bm + elements, 2 * bn - elements, counts[-1] * bk))
    if program.tail == "masked":
        ragged = [sizes(bm + 1, 2 * bn - 5, counts[-1] * bk - 3), sizes(bm - 8, bn + 8, counts[-1] * bk - 8)]
        whole = sizes(bm, bn, counts[-1] * bk)
        ragged = [case | {name: whole[name] for name in _pitched(program) & case.keys()} for case in ragged]
        found += [case | {n: round_up(case[n], c) for n, c in chunks(program).items()} for case in ragged]
        if program.part is not None and unroll == 1:  # most parts have nothing
            found.append(sizes(bm, bn, bk))
    yield from _batched(program, found)


def _batched(program: Program, cases: list[dict[str, int]]) -> Iterator[dict[str, int]]:
    """Each with sizes of other dynamic dimensions, in turn one place and several; and one of a batch that is empty."""
    others = [d.name for d in program.dims if d.size is None and d not in (program.m, program.n, program.k)]
    empty = {d.name: 0 for d in dynamic_batch(program) if d not in (program.m, program.n, program.k)}
    for number, case in enumerate([*cases, *([cases[0] | empty] if empty else [])]):
        whole = with_all(program, case, (1, 3, 2)[number % 3])
        yield case | {name: whole[name] for name in others}


def _pitched(program: Program) -> set[str]:
    """The dimensions along which a row ends where another one's numbers begin, beside it: they have no tail."""
    views = program.equations.views
    return {v.tensor.dims[-1].name for v in views if len(v.pitch) > 1}


def chunks(program: Program) -> dict[str, int]:
    """Along which dimensions rows that are gathered lie, and how many of their elements are a chunk."""
    gathered = [o.tensor for o in program.operands if o.name in program.gathered]
    return {t.dims[-1].name: t.dtype.elements(ACCESS_BYTES) for t in gathered}
