"""Kernels that sum products step by step on CDNA: their tiles are staged, K-step after K-step, as a plan says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from tkgen.backends.cdna.form import CdnaForm, loop_mix, loop_words, other_per_mfma
from tkgen.checks.families import check
from tkgen.checks.registers import check_resources
from tkgen.execute.arguments import launched
from tkgen.ir.launch import Launch
from tkgen.ir.limits import dynamic_batch, product_sizes, requirements, with_all
from tkgen.ir.types import ACCESS_BYTES, Program
from tkgen.schedule.plan import Plan, plan
from tkgen.targets.model import round_up
from tkgen.toolchain.isa import Function

if TYPE_CHECKING:
    from tkgen.backends.cdna.lower.origins import Source
    from tkgen.backends.cdna.spec import Spec
    from tkgen.tile.scheduled import Footprint


def _cases(plan: Plan) -> Iterator[dict[str, int]]:
    """Sizes worth trying: one K-step, odd and even counts, the smallest grid and a larger one, ragged where allowed."""
    program = plan.program
    bm, bn, bk = program.block
    unroll = plan.shape.unroll if program.k.size is None else program.unroll or 1
    least = max(plan.shape.tail_iterations if program.k.size is None else 1, 1)
    parts = program.parts or 1
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
        found += [case | {n: round_up(case[n], c) for n, c in _chunks(program).items()} for case in ragged]
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


def _chunks(program: Program) -> dict[str, int]:
    """Along which dimensions rows that are gathered lie, and how many of their elements are a chunk."""
    gathered = [o.tensor for o in program.operands if o.name in program.gathered]
    return {t.dims[-1].name: t.dtype.elements(ACCESS_BYTES) for t in gathered}


def _fitting(spec: Spec[Any], sizes: Mapping[str, int]) -> dict[str, int]:
    """`sizes` with whole chunks along rows that are gathered."""
    fitted = {name: round_up(sizes[name], chunk) for name, chunk in _chunks(spec.program).items() if name in sizes}
    return dict(sizes) | fitted


def _launch(spec: Spec[Any], given: Mapping[str, int] | None) -> Launch[Program]:
    shape = spec.schedule.shape
    return launched(spec.program, requirements(spec.program, shape.unroll, shape.tail_iterations), given)


def _source(spec: Spec[Any], alone: bool) -> Source:
    from tkgen.backends.cdna.lower.render import lower  # no check needs it

    return lower(spec.schedule, spec.target.name, str(spec.path), alone=alone)


def _figures(spec: Spec[Any], function: Function) -> dict[str, object]:
    made, loop = spec.schedule, loop_mix(function)
    return {
        "block": list(spec.program.block),
        "schedule": made.chosen,
        "barriers_per_step": made.barriers_per_step,
        "steps_per_pass": made.shape.unroll,
        "main_loop": None if loop is None else asdict(loop) | {"other_per_mfma": other_per_mfma(loop)},
    }


def _footprint(spec: Spec[Any]) -> Footprint:
    from tkgen.backends.cdna.footprint import staged_footprint  # no check needs it

    return staged_footprint(spec.schedule, spec.target)


STAGED = CdnaForm(
    layout=lambda spec: spec.schedule,
    schedule=lambda spec: plan(spec.program, spec.target),
    check=lambda spec: check(spec.schedule, spec.target),
    tiles=lambda spec: spec.schedule.tiles,
    footprint=_footprint,
    text=lambda spec: str(spec.schedule.to_text()),
    graph=lambda spec: spec.schedule.graph,
    source=partial(_source, alone=True),
    namespace=partial(_source, alone=False),
    launch=_launch,
    size_cases=lambda spec: _cases(spec.schedule),
    fitting=_fitting,
    measured=lambda spec, resources: check_resources(spec.schedule, spec.target, resources),
    barriers=lambda spec: ("barriers/step", spec.schedule.barriers_per_step),
    figures=_figures,
    words=lambda spec, function: loop_words(spec.schedule.barriers_per_step, loop_mix(function)),
)
