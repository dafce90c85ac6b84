"""What a regression tries of a kernel: the figures that its spec expects, and the sizes worth running."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import lcm
from typing import TYPE_CHECKING

from tkgen.api import Spec
from tkgen.ir.divided import divided
from tkgen.ir.limits import dynamic_batch, product_sizes, with_all
from tkgen.ir.types import ACCESS_BYTES, Program
from tkgen.loops import LoopSpec
from tkgen.rows.build import RowBuild
from tkgen.rows.spec import RowSpec
from tkgen.sequence.build import SequenceBuild
from tkgen.sequence.spec import SequenceSpec
from tkgen.targets.model import round_up

if TYPE_CHECKING:
    from tkgen.execute.kernels import AnyBuild, AnySpec

FAR = 4  # times a size that two kernels ask for, beyond which no common multiple is tried
TERM = re.compile(r"(?P<name>[\w/]+) (?P<sign><= )?(?P<value>\d+)")


@dataclass(frozen=True)
class Expectation:
    """A term of a spec's `# expect` line: `name value`, or `name <= value`."""

    name: str
    at_most: bool
    value: int


def expectations(header: str) -> list[Expectation]:
    """The terms of the `expect` line of a header comment, such as `expect waves 8, barriers/step 2, vgpr <= 128`.

    Raises:
        ValueError: a term that is not `name value` or `name <= value`.
    """
    found = []
    for line in header.splitlines():
        if line.startswith("expect "):
            for term in line.removeprefix("expect ").split(", "):
                match = TERM.fullmatch(term.strip())
                if match is None:
                    raise ValueError(f"`{term}` is no expectation: write `name value` or `name <= value`")
                found.append(Expectation(match["name"], match["sign"] is not None, int(match["value"])))
    return found


def figures(build: AnyBuild) -> dict[str, int]:
    """The numbers that an expect line can name; those of a sequence are called `KERNEL/FIGURE`."""
    if isinstance(build, SequenceBuild):
        return {f"{k.spec.name}/{name}": value for k in build.kernels for name, value in figures(k).items()}
    r = build.resources
    if isinstance(build, RowBuild):
        barriers = {"barriers": build.barriers}
    else:
        barriers = {"barriers/step": build.spec.plan.barriers_per_step}
    return {
        "waves": build.spec.program.waves,
        **barriers,
        "vgpr": r.vgpr,
        "agpr": r.agpr,
        "sgpr": r.sgpr,
        "spills": r.vgpr_spills + r.sgpr_spills,
        "scratch": r.scratch_bytes,
        "lds": build.lds_bytes,
    }


def unmet(build: AnyBuild) -> str:
    """What the spec's expect line says and the build does not do; empty where all holds."""
    have, wrong = figures(build), []
    for e in expectations(build.spec.program.header):
        if e.name not in have:
            wrong.append(f"nothing is called {e.name}; there are {', '.join(have)}")
        elif not (have[e.name] <= e.value if e.at_most else have[e.name] == e.value):
            wrong.append(f"{e.name} is {have[e.name]}, expected {'at most ' if e.at_most else ''}{e.value}")
    return "; ".join(wrong)


def size_cases(spec: AnySpec) -> list[dict[str, int]]:
    """Sizes worth trying, by the names of dimensions; those that are left out are the spec's own."""
    if isinstance(spec, SequenceSpec):
        return list(_of_sequence(spec))
    return list(spec.size_cases()) if isinstance(spec, RowSpec) else _of_products(spec)


def _of_sequence(spec: SequenceSpec) -> Iterator[dict[str, int]]:
    """Those of each kernel of products, together; where there is none, those of the others."""
    of_products = [size_cases(k) for k in spec.kernels if isinstance(k, Spec)]
    others = [size_cases(k) for k in spec.kernels if isinstance(k, RowSpec)]
    first, rest = (of_products, others) if of_products else (others, [])
    for number in range(max(map(len, first))):
        found: dict[str, int] = {}
        for each in first:
            for name, size in each[number % len(each)].items():
                found[name] = _common(found.get(name, size), size)
        for each in rest:
            found = each[number % len(each)] | found
        for kernel in spec.kernels:
            chunks = _chunks(kernel.program) if isinstance(kernel, Spec) else {}
            found |= {name: round_up(found[name], chunk) for name, chunk in chunks.items() if name in found}
            for d in divided(kernel.program.kernel) if isinstance(kernel, LoopSpec) else ():
                if d.large.name in found:  # so many heads of keys have a whole number of those of queries
                    found[d.large.name] = round_up(found[d.large.name], found.get(d.small.name, d.small.size or 1))
        yield found


def _common(one: int, other: int) -> int:
    """A size that suits two kernels: a multiple of both, or the larger one where that is far away."""
    multiple = lcm(one, other)
    return multiple if multiple <= FAR * max(one, other) else max(one, other)


def _of_products(spec: Spec) -> list[dict[str, int]]:
    """Sizes worth trying: one K-step, odd and even counts, the smallest grid and a larger one, ragged where allowed."""
    program = spec.program
    bm, bn, bk = program.block
    unroll = spec.plan.shape.unroll if program.k.size is None else program.unroll or 1
    least = max(spec.plan.shape.tail_iterations if program.k.size is None else 1, 1)
    parts = program.grid.count if program.grid.name == "split_k" else 1
    parts = parts if program.part is None else program.part.dim.size or 1
    counts = sorted({-(-max(c, least) // unroll) * unroll * parts for c in (1, 2, 3, 5, 8)})
    sizes = partial(product_sizes, program, steps=unroll * parts)
    cases = [sizes(bm, bn, c * bk) for c in counts]
    cases.append(sizes(2 * bm, 3 * bn, counts[min(2, len(counts) - 1)] * bk))
    if program.tail == "clamped":
        elements = program.a.tensor.dtype.elements(ACCESS_BYTES)  # a clamped load moves whole chunks of 16 bytes
        cases.append(sizes(bm + elements, 2 * bn - elements, counts[-1] * bk))
    if program.tail == "masked":
        ragged = [sizes(bm + 1, 2 * bn - 5, counts[-1] * bk - 3), sizes(bm - 8, bn + 8, counts[-1] * bk - 8)]
        whole = sizes(bm, bn, counts[-1] * bk)
        ragged = [case | {name: whole[name] for name in _pitched(program) & case.keys()} for case in ragged]
        cases += [case | {n: round_up(case[n], c) for n, c in _chunks(program).items()} for case in ragged]
        if program.part is not None and unroll == 1:  # most parts have nothing
            cases.append(sizes(bm, bn, bk))
    return list(_batched(program, cases))


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


def blocks_text(blocks: Sequence[int]) -> str:
    """`block 3`, or `blocks 0, 2048, 4095`."""
    return f"block{'s' if len(blocks) > 1 else ''} {', '.join(map(str, blocks))}"
