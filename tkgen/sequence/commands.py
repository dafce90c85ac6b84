"""What the commands do with a sequence: run it, try it at several sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import cycle
from math import lcm
from pathlib import Path
from typing import TYPE_CHECKING

from tkgen.build.model import Build
from tkgen.execute import cases
from tkgen.execute.arguments import check_scalars, launched
from tkgen.execute.given import Values
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

    given = Values.of(load({}), defines)
    spec = load(given.static).check()
    values = scalar_values(spec, given.scalars)
    each = sum(launch.blocks for launch in launches(spec, given.extents))
    build = spec.build(cxx=cxx).check()
    found = []
    for number, (order, kind) in enumerate(trials(schedules)):

        def done(count: int, before: int = number * each) -> None:
            if progress is not None:
                progress(before + count, schedules * each)

        try:
            tried = run_sequence(
                build, extents=given.extents, seed=seed, kind=kind, scalars=values, order=order, workers=workers,
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
    from tkgen.execute.launch import trials
    from tkgen.execute.suites import SHIPPED_SCHEDULES, attempted
    from tkgen.sequence.run import run_sequence

    def numbers(extents: Mapping[str, int]) -> str:
        static = {d.name: extents[d.name] for d in load({}).dims if d.size is not None and d.name in extents}
        build = load(static).build(cxx=cxx)
        scalars = {name: value for p in build.spec.programs for name, value in check_scalars(p).items()}
        for order, kind in trials(schedules):
            tried = run_sequence(build, extents=extents, seed=seed, kind=kind, order=order, scalars=scalars)
            if tried.failure:
                return f"{order}: {tried.failure}"
        return ""

    def shipped(spec: SequenceSpec) -> Iterator[tuple[str, Callable[[], str]]]:
        tries = min(schedules, SHIPPED_SCHEDULES)
        if all(d.size is not None for d in spec.dims):
            for number, kernel in enumerate(spec.kernels):
                work = partial(lambda n: _shipped(spec.build(cxx=cxx).kernels[n], tries, seed), number)
                yield f"{kernel.name}, as shipped", work

    return attempted(
        path.stem, lambda: load({}).check(), lambda spec: unmet(spec.build(cxx=cxx).check()), size_cases, numbers,
        shipped, generated,
    )  # fmt: skip


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
