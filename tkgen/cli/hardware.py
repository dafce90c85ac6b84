"""The command for owners of an AMD GPU: hardware-check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tkgen.cli.common import (
    OK,
    TOOLCHAIN,
    USAGE,
    WRONG,
    Cxx,
    Json,
    Seed,
    Stop,
    Target,
    complain,
    fail,
    need_emulator,
    say,
)

commands = typer.Typer()


@commands.command("hardware-check")
def hardware_check(
    into: Annotated[
        Path, typer.Option(help="Folder of results and report; a check that was stopped continues there.")
    ] = Path("hardware-check"),
    only: Annotated[
        str, typer.Option(help="Sections to run, with commas between: specs, instructions, machine, times.")
    ] = "",
    sample: Annotated[
        int | None, typer.Option(min=1, help="Run this number of items of each section, evenly spread.")
    ] = None,
    item: Annotated[
        list[str] | None, typer.Option(help="Run this item alone, such as `eight_wave`; may be given several times.")
    ] = None,
    stand_in: Annotated[bool, typer.Option("--stand-in", help="Run on the emulator, without a GPU.")] = False,
    target: Target = None,
    page: Annotated[Path | None, typer.Option(help="Also write a page of Markdown, such as measured-amd.md.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget earlier results in the folder.")] = False,
    limit: Annotated[
        float | None, typer.Option(min=1, help="Seconds that an item may take; else 900, 7200 on the stand-in.")
    ] = None,
    specs: Annotated[Path | None, typer.Option(help="Folder of specs, instead of those that come with tkgen.")] = None,
    seed: Seed = 0,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Threads of the emulator.")] = 1,
    as_json: Json = False,
    cxx: Cxx = None,
) -> None:
    """Check an AMD GPU: run every spec and instruction on it, measure it, time kernels, and write one report.

    The report (report.html, report.json) names no host and no folder; attach it to an issue. Exit status: 0 all is
    right, 1 something is wrong, 3 the GPU, ROCm or a package is missing, 130 it was interrupted.
    """
    from tkgen.hardware.check import CheckOptions, absent, is_wrong
    from tkgen.hardware.check import run as run_check
    from tkgen.hardware.report import summary, write
    from tkgen.hardware.sections import chosen
    from tkgen.hardware.state import State, StateError
    from tkgen.starting import bundled_specs

    if target is not None and not stand_in:
        fail("-t names the GPU to emulate, so it needs --stand-in", USAGE)
    if specs is not None and not specs.is_dir():
        fail(f"no folder {specs}", USAGE)
    try:
        chosen(only)
    except ValueError as error:
        fail(str(error), USAGE)
    emulated = _emulated(target) if stand_in else None
    options = CheckOptions(
        into, specs or bundled_specs(), only, tuple(item or ()), sample, seed, limit, cxx, emulated, jobs
    )
    state = State(into)
    try:
        if fresh:
            with state.locked():
                state.clear()
        missing = absent(options)
        for section, name, install in missing:
            complain(f"{section}: needs {name}, which is not installed\n  to get it: {install}")
        status = run_check(options)
        if status in (USAGE, TOOLCHAIN) or not (into / "run.json").exists():
            raise Stop(status, "the check could not start: standard error says why")
        found = write(state, options.only, missing, page)
    except StateError as error:
        fail(str(error), USAGE)
    except KeyboardInterrupt:
        complain("stopped; run the same command to continue")
        raise
    say(json.dumps(found, indent=2) if as_json else summary(found, into))
    raise typer.Exit(status or (WRONG if is_wrong(found["results"]) else TOOLCHAIN if missing else OK))


def _emulated(target: str | None) -> str:
    """The target that the stand-in is. Ends the command where nothing emulates it."""
    need_emulator()
    from tkgen.emulate.decode import TARGETS

    name = target or "gfx942"
    if name not in TARGETS:
        fail(f"there is no emulator for '{name}'; known are {', '.join(TARGETS)}", USAGE)
    return name
