"""What a regression tries of a kernel: the figures that its spec expects, and the sizes worth running."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tkgen.api import Spec
from tkgen.build import Build
from tkgen.ir.types import Program

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


def figures(build: Build) -> dict[str, int]:
    """The numbers that an expect line can name."""
    r = build.resources
    return {
        "waves": build.spec.program.waves,
        "barriers/step": build.spec.plan.barriers_per_step,
        "vgpr": r.vgpr,
        "agpr": r.agpr,
        "sgpr": r.sgpr,
        "spills": r.vgpr_spills + r.sgpr_spills,
        "scratch": r.scratch_bytes,
        "lds": build.lds_bytes,
    }


def unmet(build: Build) -> str:
    """What the spec's expect line says and the build does not do; empty where all holds."""
    return unmet_of(build.spec.program.header, figures(build))


def unmet_of(header: str, have: Mapping[str, int]) -> str:
    """What the expect line of a header comment says and these figures are not."""
    wrong = []
    for e in expectations(header):
        if e.name not in have:
            wrong.append(f"nothing is called {e.name}; there are {', '.join(have)}")
        elif not (have[e.name] <= e.value if e.at_most else have[e.name] == e.value):
            wrong.append(f"{e.name} is {have[e.name]}, expected {'at most ' if e.at_most else ''}{e.value}")
    return "; ".join(wrong)


def size_cases(spec: Spec) -> list[dict[str, int]]:
    """Sizes worth trying: one K-step, odd and even counts, the smallest grid and a larger one, ragged where allowed."""
    program = spec.program
    bm, bn, bk = program.block
    m, n, k = program.m.name, program.n.name, program.k.name
    unroll = spec.plan.shape.unroll if program.k.size is None else program.unroll or 1
    least = max(spec.plan.shape.tail_iterations if program.k.size is None else 1, 1)
    parts = program.grid.count if program.grid.name == "split_k" else 1
    parts = parts if program.part is None else program.part.dim.size or 1
    counts = sorted({-(-max(c, least) // unroll) * unroll * parts for c in (1, 2, 3, 5, 8)})
    cases = [{m: bm, n: bn, k: c * bk} for c in counts]
    cases.append({m: 2 * bm, n: 3 * bn, k: counts[min(2, len(counts) - 1)] * bk})
    if program.tail == "clamped":
        elements = 16 // program.a.tensor.dtype.bytes  # a clamped load moves whole chunks of 16 bytes
        cases.append({m: bm + elements, n: 2 * bn - elements, k: counts[-1] * bk})
    if program.tail == "masked":
        ragged = [{m: bm + 1, n: 2 * bn - 5, k: counts[-1] * bk - 3}, {m: bm - 8, n: bn + 8, k: counts[-1] * bk - 8}]
        whole = {m: bm, n: bn, k: counts[-1] * bk}
        cases += [case | {name: whole[name] for name in _pitched(program) & case.keys()} for case in ragged]
        if program.part is not None and unroll == 1:  # most parts have nothing
            cases.append({m: bm, n: bn, k: bk})
    return cases


def _pitched(program: Program) -> set[str]:
    """The dimensions along which a row ends where another one's numbers begin, beside it: they have no tail."""
    views = program.equations.views if program.equations else ()
    inner = [(v.tensor.dims[-1], v.matrix.dims[-1]) for v in views if len(v.tiled) == 2]
    return {dim.name for dim, pitch in inner if dim.size != pitch.size}


def blocks_text(blocks: Sequence[int]) -> str:
    """`block 3`, or `blocks 0, 2048, 4095`."""
    return f"block{'s' if len(blocks) > 1 else ''} {', '.join(map(str, blocks))}"
