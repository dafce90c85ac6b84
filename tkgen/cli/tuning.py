"""`tkgen tune`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tkgen.cli.common import (
    INTERRUPTED,
    TOOLCHAIN,
    USAGE,
    WRONG,
    Cxx,
    Defines,
    Json,
    Out,
    Roots,
    Seed,
    Specs,
    Target,
    bar,
    define_words,
    defines,
    fail,
    need_emulator,
    refuse_early,
    reported,
    say,
    spec_files,
    working,
)

if TYPE_CHECKING:
    from tkgen import tune as tuner

commands = typer.Typer()


@commands.command()
def tune(
    specs: Specs,
    target: Target = None,
    define: Defines = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option("--range", metavar="NAME=64,128", help="Values of a parameter, in place of a `tune` clause."),
    ] = None,
    sizes: Annotated[
        list[str] | None, typer.Option("--sizes", metavar="M=..,N=..", help="The sizes to tune for.")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Candidates to compile; if there are more, Optuna chooses.")] = 64,
    best: Annotated[int, typer.Option(min=1, help="Fastest candidates to verify, and to time on a GPU.")] = 3,
    product: Annotated[str | None, typer.Option(help="The GPU to predict for, such as MI325X.")] = None,
    device: Annotated[
        str, typer.Option(help="`gpu` also times the fastest candidates on the GPU of this machine.")
    ] = "emulator",
    executor: Annotated[str, typer.Option(help="`process`, or `ray` for a cluster.")] = "process",
    jobs: Annotated[
        int | None,
        typer.Option("-j", "--jobs", min=1, help="Candidates that are evaluated in parallel; by default one per core."),
    ] = None,
    seed: Seed = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the search in the output folder.")] = False,
    out: Out = Path("tune"),
    as_json: Json = False,
    cxx: Cxx = None,
    roots: Roots = None,
) -> None:
    """Search parameters and variants for the fastest kernel; write it as a spec. Several specs compete."""
    files = spec_files(specs)
    with reported():
        for path in files:
            refuse_early(path, define if len(files) == 1 else None, roots)
    from rich.console import Console

    with working("reading the specs"):  # seen before what tunes is imported
        from tkgen import tune as tuner
    from tkgen.api import target_of
    from tkgen.backends.registry import backend_of

    request = tuner.Request(
        tuple(files), defines(define), _ranges(ranges), _sizes(sizes), target, product,
        tuple(roots or ()), trials, best, jobs or os.cpu_count() or 1, executor, device, out, resume, cxx, seed,
    )  # fmt: skip
    with reported():
        emulated = all(backend_of(target_of(path, target, request.include_roots)).emulated for path in request.specs)
    if emulated:
        need_emulator()
    outcome = _searched(request, out)
    with reported():
        offers = tuner.offered(request, outcome) if emulated else {}
    if as_json:
        offered = {str(spec): str(paths[0]) for spec, paths in offers.items()}
        variants = {str(spec): [str(path) for path in paths[1:]] for spec, paths in offers.items()}
        say(json.dumps(outcome.to_json() | {"offers": offered, "variants": variants}, indent=2))
        return
    tuner.render_terminal(outcome, Console())
    for spec, paths in offers.items():
        say(
            f"{spec} has no `tune` clause; a spec with parameters was written, so run: tkgen tune "
            f"{' '.join(map(str, paths))}"
        )


def _searched(request: tuner.Request, out: Path) -> tuner.Outcome:
    """The search, with its progress on a terminal; `out` is where its trials are."""
    from rich.progress import TaskID

    from tkgen import tune as tuner

    with bar() as progress:
        begin = progress.add_task("reading the specs", total=None)
        tasks: dict[str, TaskID] = {}

        def show(step: tuner.Progress) -> None:
            if step.stage not in tasks:
                tasks[step.stage] = progress.add_task(step.stage)
            progress.update(begin, visible=False)
            progress.update(tasks[step.stage], completed=step.done, total=step.total)

        with reported():
            try:
                return tuner.tune(request, show)
            except tuner.MissingPackage as error:
                fail(str(error), TOOLCHAIN)
            except tuner.NothingFits as error:
                fail(str(error), WRONG)
            except tuner.TuneError as error:
                fail(str(error), USAGE)
            except KeyboardInterrupt:
                fail(
                    f"interrupted; the trials are in {out}: run the same command with `--resume` to continue",
                    INTERRUPTED,
                )


def _ranges(values: Sequence[str] | None) -> dict[str, list[int]]:
    """`NAME=64,128` options as lists of values."""
    found: dict[str, list[int]] = {}
    for word in (w for value in values or () for w in value.split()):
        name, _, listed = word.partition("=")
        numbers = listed.split(",")
        if name in found:
            raise typer.BadParameter(f"--range {name} is given twice")
        if not name or not all(n.isdecimal() and n.isascii() and len(n) <= 12 for n in numbers):
            raise typer.BadParameter(f"--range takes NAME=NUMBER,NUMBER,..., not `{word}`")
        found[name] = [int(n) for n in numbers]
    return found


def _sizes(values: Sequence[str] | None) -> dict[str, int]:
    """`M=4096,N=4096` options as a mapping; every size is a number."""
    words = define_words(values)
    found = {name: size for name, size in defines(words).items() if size is not None}
    if len(found) < len(words):
        raise typer.BadParameter("--sizes takes NAME=NUMBER,..., each name once")
    return found
