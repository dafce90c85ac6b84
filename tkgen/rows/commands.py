"""What the commands do with a spec of rows: run it, try it at several sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tkgen.execute.given import Values
from tkgen.rows.build import RowBuild
from tkgen.rows.spec import RowSpec
from tkgen.toolchain.compiler import ToolchainError

if TYPE_CHECKING:
    from tkgen.execute.rows import Row
    from tkgen.execute.suites import Result
    from tkgen.rows.run import RowRun

Loader = Callable[[Mapping[str, int | None]], RowSpec]  # the spec with other sizes


def run_spec(
    load: Loader,
    defines: Mapping[str, float | None],
    seed: int,
    schedules: int,
    workers: int,
    cxx: str | None,
    blocks: Sequence[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Row]:
    """Build the spec and launch it on the emulator, once per schedule; `defines` are sizes and scalars.

    Raises:
        SpecError: the spec is wrong, or its sizes are.
        SizeError: a dynamic dimension or a scalar without a value, or one that the kernel cannot do.
        ToolchainError: nothing here compiles or emulates it.
    """
    from tkgen.emulate import EmulateError
    from tkgen.execute.arguments import SizeError, scalar_values
    from tkgen.execute.launch import trials
    from tkgen.execute.rows import Row
    from tkgen.rows.run import run_rows

    given = Values.of(load({}).program, defines)
    spec = load(given.static)
    values = scalar_values(spec.program, given.scalars)
    build = spec.build(cxx=cxx).check()
    rows = []
    for number, (order, kind) in enumerate(trials(schedules)):
        try:
            tried = run_rows(
                build,
                extents=given.extents,
                seed=seed,
                kind=kind,
                scalars=values,
                order=order,
                workers=workers,
                blocks=blocks,
            )
        except EmulateError as error:
            raise SizeError(str(error)) if blocks is not None else ToolchainError(str(error)) from error
        if progress is not None:
            progress(number + 1, schedules)
        rows.append(
            Row(
                spec=spec.name,
                sizes=tried.sizes,
                schedule=str(order),
                inputs=kind,
                comparison=tried.comparison,
                findings=tuple(map(str, tried.outcome.findings)),
                instructions=tried.outcome.instructions,
                shipped=not spec.defines,
                grid=tried.launch.blocks,
                blocks=None if blocks is None else tuple(blocks),
            )
        )
    return rows


# ---------------------------------------------------------------- the regression run


def size_cases(spec: RowSpec) -> Iterator[dict[str, int]]:
    """Sizes worth trying: one tile of each parallel dimension, one element, one more than a tile, less than three."""
    tiles = {a.dim.name: a.tile or 1 for a in spec.program.parallel}
    for size in (lambda t: t, lambda t: 1, lambda t: t + 1, lambda t: max(3 * t - 1, 2)):
        yield {name: size(tile) for name, tile in tiles.items()}


def regression(
    path: Path,
    load: Loader,
    *,
    schedules: int = 5,
    generated: Path | None = None,
    blocks: Sequence[int] | None = None,
    cxx: str | None = None,
    seed: int = 0,
) -> list[Result]:
    """Everything the regression run tries on one spec: figures, source, sizes, some blocks as they are shipped."""
    from tkgen.execute.suites import SHIPPED_SCHEDULES, attempted
    from tkgen.rows.launch import row_launch
    from tkgen.rows.run import run_rows, sample

    def numbers(extents: Mapping[str, int]) -> str:
        spec = load({})
        static = {d.name: extents[d.name] for d in spec.program.dims if d.size is not None and d.name in extents}
        build = load(static).build(cxx=cxx)
        return _first_failure(schedules, lambda **how: run_rows(build, extents=extents, seed=seed, **how))

    def as_shipped(spec: RowSpec) -> str:
        build = spec.build(cxx=cxx)
        chosen = sample(row_launch(spec.program, spec.layout)) if blocks is None else blocks
        tries = min(schedules, SHIPPED_SCHEDULES)
        return _first_failure(tries, lambda **how: run_rows(build, seed=seed, blocks=chosen, **how))

    def shipped(spec: RowSpec) -> Iterator[tuple[str, Callable[[], str]]]:
        if all(d.size is not None for d in spec.program.dims):
            yield "as shipped", lambda: as_shipped(spec)

    return attempted(
        path.stem, lambda: load({}).check(), lambda spec: unmet(spec.build(cxx=cxx).check()), size_cases, numbers,
        shipped, generated,
    )  # fmt: skip


def _first_failure(schedules: int, attempt: Callable[..., RowRun]) -> str:
    from tkgen.execute.launch import trials

    for order, kind in trials(schedules):
        failure = attempt(kind=kind, order=order).failure
        if failure:
            return f"{order}: {failure}"
    return ""


def figures(build: RowBuild) -> dict[str, int]:
    """The numbers that an `# expect` line can name."""
    r = build.resources
    return {
        "waves": build.spec.program.waves,
        "vgpr": r.vgpr,
        "agpr": r.agpr,
        "sgpr": r.sgpr,
        "spills": r.vgpr_spills + r.sgpr_spills,
        "scratch": r.scratch_bytes,
        "lds": r.lds_static_bytes,
        "barriers": build.spec.layout.exchanges * build.spec.layout.passes,
    }


def unmet(build: RowBuild) -> str:
    """What the spec's expect line says and the build does not do; empty where all holds."""
    from tkgen.execute.cases import unmet_of

    return unmet_of(build.spec.program.header, figures(build))
