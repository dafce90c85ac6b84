"""The regression run of a kernel suite: every spec at several sizes, under several schedules, against what was
expected.

For each spec: the checks pass; the generated source equals the checked-in one, where there is one; each size compiles
with the figures of the spec's `# expect` line; the emulated numbers are right and the referee finds nothing on any
schedule tried. A spec whose sizes are all known at build time is other code at each size, so some blocks of its own
code are run, too, at its own sizes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from tkgen.api import Spec, load
from tkgen.build import Build
from tkgen.diagnostics import SpecError
from tkgen.diagnostics.render import render_text
from tkgen.emulate import EmulateError
from tkgen.toolchain.compiler import ToolchainError

SHIPPED_SCHEDULES = 2  # interleavings tried at full size, where a launch takes seconds
TERM = re.compile(r"(?P<name>[a-z/]+) (?P<sign><= )?(?P<value>\d+)")


@dataclass(frozen=True)
class Result:
    """One thing tried: `failure` is empty where it holds, else says what does not."""

    spec: str
    case: str
    failure: str
    seconds: float = field(compare=False)


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
    have, wrong = figures(build), []
    for e in expectations(build.spec.program.header):
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
    counts = sorted({-(-max(c, least) // unroll) * unroll * parts for c in (1, 2, 3, 5, 8)})
    cases = [{m: bm, n: bn, k: c * bk} for c in counts]
    cases.append({m: 2 * bm, n: 3 * bn, k: counts[min(2, len(counts) - 1)] * bk})
    if program.tail == "clamped":
        elements = 16 // program.a.tensor.dtype.bytes  # a clamped load moves whole chunks of 16 bytes
        cases.append({m: bm + elements, n: 2 * bn - elements, k: counts[-1] * bk})
    if program.tail == "masked":
        cases += [{m: bm + 1, n: 2 * bn - 5, k: counts[-1] * bk - 3}, {m: bm - 8, n: bn + 8, k: counts[-1] * bk - 8}]
    return cases


def test_spec(
    path: Path,
    *,
    target: str | None = None,
    schedules: int = 5,
    generated: Path | None = None,
    blocks: Sequence[int] | None = None,
    cxx: str | None = None,
    seed: int = 0,
) -> list[Result]:
    """Everything the regression run tries on one spec; never raises for what is wrong with it.

    `blocks` are those run at the spec's own sizes, else a sample.
    """
    results: list[Result] = []

    def attempt(case: str, work: object) -> None:
        start = time.perf_counter()
        try:
            failure = work() or ""  # type: ignore[operator]
        except SpecError as error:
            failure = render_text(error.diagnostics)
        except (ToolchainError, EmulateError, ValueError) as error:
            failure = str(error)
        results.append(Result(path.stem, case, failure, time.perf_counter() - start))

    spec: list[Spec] = []

    def proves() -> None:
        spec.append(load(path, None, target).check())

    attempt("proves", proves)
    if not spec:
        return results
    if generated is not None:
        attempt("source", lambda: _source(spec[0], generated))
    attempt("figures", lambda: unmet(spec[0].build(cxx=cxx).check()))
    for extents in size_cases(spec[0]):
        shown = " ".join(f"{name}={size}" for name, size in extents.items())
        attempt(shown, lambda e=extents: _numbers(path, target, e, schedules, cxx, seed))
    if all(d.size is not None for d in spec[0].program.dims):
        attempt("as shipped", lambda: _shipped(spec[0], blocks, min(schedules, SHIPPED_SCHEDULES), cxx, seed))
    return results


def _source(spec: Spec, generated: Path) -> str:
    golden = generated / spec.target.name / f"{spec.path.stem}.cpp"
    if not golden.exists():
        return f"there is no {golden} to compare with; `tkgen regen` writes it"
    if golden.read_text(encoding="utf-8") != spec.source.text:
        return f"the generated source differs from {golden}; `tkgen regen` rewrites it"
    return ""


def _numbers(
    path: Path, target: str | None, extents: Mapping[str, int], schedules: int, cxx: str | None, seed: int
) -> str:
    from tkgen.run import check_scalars, run, trials

    whole = load(path, None, target).program
    static: dict[str, int | None] = {
        d.name: extents[d.name] for d in whole.dims if d.size is not None and d.name in extents
    }
    build = load(path, static, target).build(cxx=cxx)
    for order, kind in trials(schedules):
        tried = run(
            build, extents=extents, scalars=check_scalars(build.spec.program), seed=seed, kind=kind, order=order
        )
        if not tried.comparison.right:
            return f"{order}: {tried.comparison}"
        if tried.outcome.findings:
            return f"{order}: " + "\n".join(str(f) for f in tried.outcome.findings)
    return ""


def _shipped(spec: Spec, blocks: Sequence[int] | None, schedules: int, cxx: str | None, seed: int) -> str:
    """Some blocks of the code object as it is shipped, at the spec's own sizes."""
    from tkgen.blocks import run_blocks, sample
    from tkgen.run import check_scalars, sizes, trials

    build = spec.build(cxx=cxx)
    chosen = sample(spec.program, sizes(spec.program)) if blocks is None else blocks
    for order, kind in trials(schedules):
        tried = run_blocks(build, chosen, seed=seed, kind=kind, scalars=check_scalars(build.spec.program), order=order)
        what = f"{order}, {blocks_text(chosen)}"
        if not tried.comparison.right:
            return f"{what}: {tried.comparison}"
        if tried.outcome.findings:
            return f"{what}: " + "\n".join(str(f) for f in tried.outcome.findings)
    return ""


def blocks_text(blocks: Sequence[int]) -> str:
    """`block 3`, or `blocks 0, 2048, 4095`."""
    return f"block{'s' if len(blocks) > 1 else ''} {', '.join(map(str, blocks))}"


def junit(results: Sequence[Result]) -> str:
    """The results as JUnit XML, a suite for each spec."""
    root = ElementTree.Element("testsuites")
    for name in dict.fromkeys(r.spec for r in results):
        mine = [r for r in results if r.spec == name]
        suite = ElementTree.SubElement(
            root, "testsuite", name=name, tests=str(len(mine)), failures=str(sum(bool(r.failure) for r in mine)),
            time=f"{sum(r.seconds for r in mine):.3f}",
        )  # fmt: skip
        for r in mine:
            case = ElementTree.SubElement(suite, "testcase", classname=r.spec, name=r.case, time=f"{r.seconds:.3f}")
            if r.failure:
                clean = "".join(c if c.isprintable() or c == "\n" else "?" for c in r.failure)
                ElementTree.SubElement(case, "failure", message=clean.splitlines()[0]).text = clean
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
