"""The regression run of a kernel suite: every spec at several sizes, under several schedules, against what was
expected.

For each spec: the checks pass; the generated source equals the checked-in one, where there is one; each size compiles
with the figures of the spec's `# expect` line; the emulated numbers are right and the referee finds nothing on any
schedule tried. A spec whose sizes are all known at build time is other code at each size, so some blocks of its own
code are run, too, at its own sizes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from tkgen.api import load
from tkgen.backends import protocol
from tkgen.backends.registry import backend_of
from tkgen.backends.spec import AnySpec
from tkgen.diagnostics import Diagnostic, SpecError
from tkgen.diagnostics.machine import to_json
from tkgen.emulate import EmulateError
from tkgen.execute.admitted import admitted, stated
from tkgen.execute.arguments import check_scalars
from tkgen.execute.cases import blocks_text, size_cases, unmet
from tkgen.execute.given import emulated
from tkgen.execute.launch import Run, run, trials
from tkgen.toolchain.compiler import ToolchainError

Work = Callable[[], str]
SHIPPED_SCHEDULES = 2  # interleavings tried at full size, where a launch takes seconds


@dataclass(frozen=True)
class Result:
    """One thing tried: `failure` is empty where it holds, else says what does not."""

    spec: str
    case: str
    failure: str
    seconds: float = field(compare=False)
    diagnostics: tuple[Diagnostic, ...] = field(default=(), repr=False)  # where the spec or its machine code is refused

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        found = [to_json(d) for d in self.diagnostics]
        return {
            "spec": self.spec, "case": self.case, "failure": self.failure, "seconds": self.seconds, "diagnostics": found
        }  # fmt: skip


def regression(
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

    `blocks` are those run at the spec's own sizes, of each kernel, else a sample.
    """
    return attempted(
        path,
        target,
        cxx,
        size_cases,
        lambda extents: _numbers(path, target, extents, schedules, cxx, seed),
        lambda spec: _as_shipped(spec, blocks, min(schedules, SHIPPED_SCHEDULES), cxx, seed),
        generated,
        emulated,
    )


def attempted(
    path: Path,
    target: str | None,
    cxx: str | None,
    sizes: Callable[[AnySpec], Iterable[Mapping[str, int]]],
    numbers: Callable[[Mapping[str, int]], str],
    shipped: Callable[[AnySpec], Iterable[tuple[str, Work]]],
    generated: Path | None,
    admit: Callable[[AnySpec], AnySpec] = lambda spec: spec,
) -> list[Result]:
    """Try everything of a spec, whatever its kernels compute: one result for each case, with its failure, empty if
    none.

    `numbers` says what is wrong with its results at some sizes, `shipped` has the cases of its own sizes. `admit`
    raises for a spec that nothing here runs.
    """
    results: list[Result] = []

    def attempt(case: str, work: Work) -> None:
        start, refused = time.perf_counter(), tuple[Diagnostic, ...]()
        try:
            failure = work()
        except (SpecError, ToolchainError, EmulateError, ValueError) as error:
            failure, refused = str(error), tuple(getattr(error, "diagnostics", ()))
        results.append(Result(path.stem, case, failure, time.perf_counter() - start, refused))

    proved: list[AnySpec] = []

    def proves() -> str:
        proved.append(admit(load(path, None, target)).check())
        return ""

    attempt("proves", proves)
    for found in proved:
        if generated is not None:
            attempt("source", partial(_source, found, generated))
        attempt("figures", partial(_figures, found, cxx))
        for extents, refusal in admitted(list(sizes(found)), stated(found), lambda s: load(path, s, target).check()):
            case = " ".join(f"{name}={size}" for name, size in extents.items())
            attempt(case, partial(str, refusal) if refusal else partial(numbers, extents))
        for case, work in shipped(found):
            attempt(case, work)
    return results


def _figures(spec: AnySpec, cxx: str | None) -> str:
    """Compare the figures of the machine code with the expected ones; return an empty text where they agree."""
    return unmet(spec.build(cxx=cxx).check())


def _source(spec: protocol.Spec, generated: Path) -> str:
    suffix = backend_of(spec.target.name).suffix
    golden = generated / spec.target.name / f"{spec.path.stem}.{suffix}"
    if not golden.exists():
        return f"there is no {golden} to compare with; `tkgen regen` writes it"
    if golden.read_text(encoding="utf-8") != spec.text:
        return f"the generated source differs from {golden}; `tkgen regen` rewrites it"
    return ""


def _numbers(
    path: Path, target: str | None, extents: Mapping[str, int], schedules: int, cxx: str | None, seed: int
) -> str:
    program = emulated(load(path, None, target)).program
    static = {d.name: extents[d.name] for d in program.dims if d.size is not None and d.name in extents}
    build = emulated(load(path, static, target)).build(cxx=cxx)
    return _first_failure(partial(run, build, extents=extents), build, schedules, seed)


def _as_shipped(
    spec: protocol.Spec, blocks: Sequence[int] | None, schedules: int, cxx: str | None, seed: int
) -> Iterator[tuple[str, Work]]:
    """The cases of the code object as it is shipped, at the spec's own sizes: some blocks of each kernel."""
    if any(d.size is None for d in spec.program.dims):
        return

    def work(kernel: int) -> str:
        alone = spec.build(cxx=cxx).kernels[kernel]
        (launch,) = alone.spec.launch().launches
        chosen = launch.sample() if blocks is None else blocks
        return _first_failure(partial(run, alone, chosen), alone, schedules, seed, f", {blocks_text(chosen)}")

    for number, kernel in enumerate(spec.kernels):
        yield "as shipped" if kernel is spec else f"{kernel.name}, as shipped", partial(work, number)


def _first_failure(
    attempt: Callable[..., Run], build: protocol.Build, schedules: int, seed: int, what: str = ""
) -> str:
    """Return the first failure of some launches, one for each schedule; an empty text where there is none."""
    scalars = check_scalars(build.spec.program)
    for order, kind in trials(schedules):
        failure = attempt(seed=seed, kind=kind, scalars=scalars, order=order).failure
        if failure:
            return f"{order}{what}: {failure}"
    return ""


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
