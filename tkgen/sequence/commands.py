"""What the commands do with a sequence: run it, try it at several sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from math import lcm
from pathlib import Path
from typing import TYPE_CHECKING

from tkgen.build.model import Build
from tkgen.diagnostics import SpecError
from tkgen.diagnostics.render import render_text
from tkgen.execute import cases
from tkgen.execute.arguments import SizeError, check_scalars, launched
from tkgen.rows import commands as of_rows
from tkgen.rows.build import RowBuild
from tkgen.rows.launch import row_launch
from tkgen.rows.spec import RowSpec
from tkgen.sequence.build import SequenceBuild
from tkgen.sequence.spec import SequenceSpec
from tkgen.toolchain.compiler import ToolchainError

if TYPE_CHECKING:
    from tkgen.execute.rows import Row
    from tkgen.execute.suites import Result

Loader = Callable[[Mapping[str, int | None]], SequenceSpec]  # the spec with other sizes
SHIPPED_SCHEDULES = 2  # interleavings tried at full size
FAR = 4  # times a size that two kernels ask for, beyond which no common multiple is tried


def run_spec(
    load: Loader,
    defines: Mapping[str, float | None],
    seed: int,
    schedules: int,
    workers: int,
    cxx: str | None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Row]:
    """Build the spec and launch its kernels on the emulator, once per schedule; `defines` are sizes and scalars.

    Raises:
        SpecError: the spec is wrong, or its sizes are.
        SizeError: a dynamic dimension or a scalar without a value, or one that a kernel cannot do.
        ToolchainError: nothing here compiles or emulates it.
    """
    from tkgen.emulate import EmulateError
    from tkgen.execute.launch import trials
    from tkgen.execute.rows import Row
    from tkgen.sequence.run import launches, run_sequence, scalar_values

    static, extents, scalars = _told_apart(load({}), defines)
    spec = load(static).check()
    values = scalar_values(spec, scalars)
    each = sum(launch.blocks for launch in launches(spec, extents))
    build = spec.build(cxx=cxx).check()
    found = []
    for number, (order, kind) in enumerate(trials(schedules)):

        def done(count: int, before: int = number * each) -> None:
            if progress is not None:
                progress(before + count, schedules * each)

        try:
            tried = run_sequence(
                build, extents=extents, seed=seed, kind=kind, scalars=values, order=order, workers=workers,
                progress=done,
            )  # fmt: skip
        except EmulateError as error:
            raise ToolchainError(str(error)) from error
        found.append(
            Row(
                spec=spec.name,
                sizes=tried.sizes,
                schedule=str(order),
                inputs=kind,
                comparison=tried.comparison,
                findings=tried.findings,
                instructions=sum(outcome.instructions for outcome in tried.outcomes),
                shipped=not spec.defines,
                grid=each,
            )
        )
    return found


def _told_apart(
    spec: SequenceSpec, defines: Mapping[str, float | None]
) -> tuple[dict[str, int | None], dict[str, int], dict[str, float]]:
    """`-D` values by what they give: sizes that the code is built for, sizes of the launch, scalars."""
    dynamic = {d.name for d in spec.dims if d.size is None}
    names = {s.name for s in spec.scalars}
    static: dict[str, int | None] = {}
    extents: dict[str, int] = {}
    scalars: dict[str, float] = {}
    for name, value in defines.items():
        if name in names and value is not None:
            scalars[name] = float(value)
        elif name in names:
            raise SizeError(f"{name} is a scalar: its value is a number, not `dynamic`")
        elif isinstance(value, float):
            raise SizeError(f"{name} = {value}: sizes are whole numbers, other numbers are for scalars")
        elif name in dynamic and value is not None:
            extents[name] = value
        else:
            static[name] = value
    return static, extents, scalars


# ---------------------------------------------------------------- the regression run


def size_cases(spec: SequenceSpec) -> Iterator[dict[str, int]]:
    """Sizes worth trying: those of each kernel of products, together; where there is none, those of the others."""
    of_products = [cases.size_cases(k) for k in spec.kernels if not isinstance(k, RowSpec)]
    others = [list(of_rows.size_cases(k)) for k in spec.kernels if isinstance(k, RowSpec)]
    first, rest = (of_products, others) if of_products else (others, [])
    count = max(map(len, first))
    for number, together in enumerate(zip(*(cycle(each) for each in first), strict=False)):
        if number == count:
            return
        found: dict[str, int] = {}
        for sizes in together:
            for name, size in sizes.items():
                found[name] = _common(found.get(name, size), size)
        for each in rest:
            found = each[number % len(each)] | found
        yield found


def _common(one: int, other: int) -> int:
    """A size that suits two kernels: a multiple of both, or the larger one where that is far away."""
    multiple = lcm(one, other)
    return multiple if multiple <= FAR * max(one, other) else max(one, other)


def regression(
    path: Path,
    load: Loader,
    *,
    schedules: int = 5,
    generated: Path | None = None,
    cxx: str | None = None,
    seed: int = 0,
) -> list[Result]:
    """Everything the regression run tries on one spec: figures, source, sizes, some blocks as they are shipped."""
    from tkgen.emulate import EmulateError
    from tkgen.execute.launch import trials
    from tkgen.execute.suites import Result
    from tkgen.sequence.run import run_sequence

    results: list[Result] = []

    def attempt(case: str, work: Callable[[], str]) -> None:
        start = time.perf_counter()
        try:
            failure = work()
        except SpecError as error:
            failure = render_text(error.diagnostics)
        except (ToolchainError, EmulateError, ValueError) as error:
            failure = str(error)
        results.append(Result(path.stem, case, failure, time.perf_counter() - start))

    def numbers(extents: Mapping[str, int]) -> str:
        static = {d.name: extents[d.name] for d in load({}).dims if d.size is not None and d.name in extents}
        build = load(static).build(cxx=cxx)
        scalars = {name: value for p in build.spec.programs for name, value in check_scalars(p).items()}
        for order, kind in trials(schedules):
            tried = run_sequence(build, extents=extents, seed=seed, kind=kind, order=order, scalars=scalars)
            if tried.failure:
                return f"{order}: {tried.failure}"
        return ""

    def proves() -> str:
        load({}).check()
        return ""

    attempt("proves", proves)
    if results[-1].failure:
        return results
    spec = load({})
    if generated is not None:
        attempt("source", lambda: _source(spec, generated))
    attempt("figures", lambda: unmet(load({}).build(cxx=cxx).check()))
    for extents in size_cases(spec):
        attempt(" ".join(f"{name}={size}" for name, size in extents.items()), lambda e=extents: numbers(e))  # type: ignore[misc]
    if all(d.size is not None for d in spec.dims):
        for number, kernel in enumerate(spec.kernels):
            attempt(f"{kernel.name}, as shipped", lambda n=number: _shipped(  # type: ignore[misc]
                load({}).build(cxx=cxx).kernels[n], min(schedules, SHIPPED_SCHEDULES), seed))  # fmt: skip
    return results


def _source(spec: SequenceSpec, generated: Path) -> str:
    golden = generated / spec.target.name / f"{spec.path.stem}.cpp"
    if not golden.exists():
        return f"there is no {golden} to compare with; `tkgen regen` writes it"
    same = golden.read_text(encoding="utf-8") == spec.source.text
    return "" if same else f"the generated source differs from {golden}; `tkgen regen` rewrites it"


def _shipped(build: Build | RowBuild, schedules: int, seed: int) -> str:
    """Some blocks of one kernel as it is shipped, on random numbers for all that it reads."""
    from tkgen.execute.blocks import run_blocks, sample
    from tkgen.execute.launch import trials
    from tkgen.rows.run import run_rows
    from tkgen.rows.run import sample as sample_rows

    for order, kind in trials(schedules):
        if isinstance(build, RowBuild):
            chosen = sample_rows(row_launch(build.spec.program, build.spec.layout))
            failure = run_rows(build, seed=seed, kind=kind, order=order, blocks=chosen).failure
        else:
            chosen = sample(launched(build.spec))
            scalars = check_scalars(build.spec.program)
            failure = run_blocks(build, chosen, seed=seed, kind=kind, order=order, scalars=scalars).failure
        if failure:
            return f"{order}, {cases.blocks_text(chosen)}: {failure}"
    return ""


def unmet(build: SequenceBuild) -> str:
    """What the spec's expect line says and the build does not do; figures are called `KERNEL/FIGURE`."""
    have = {
        f"{k.spec.name}/{name}": value
        for k in build.kernels
        for name, value in (of_rows.figures(k) if isinstance(k, RowBuild) else cases.figures(k)).items()
    }
    return cases.unmet_of(build.spec.sequence.header, have)
