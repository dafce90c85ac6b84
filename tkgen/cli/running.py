"""Commands that run kernels: run, test, sanitize, emulate."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tkgen.cli.common import (
    OK,
    TOO_EARLY,
    USAGE,
    WRONG,
    Blocks,
    Cxx,
    Defines,
    Format,
    Jobs,
    Json,
    Roots,
    Seed,
    Specs,
    Target,
    block_ids,
    complain,
    each,
    emulating,
    fail,
    launch_defines,
    macros,
    need_emulator,
    refuse_early,
    reported,
    say,
    show_diagnostics,
    spec_files,
)
from tkgen.cli.sweeping import swept

if TYPE_CHECKING:
    from tkgen.execute.suites import Result
    from tkgen.sanitize import Advised, Verdict

commands = typer.Typer()

Device = Annotated[str, typer.Option(help="`emulator` (for sm_90a see `--executor`) or `gpu`.")]
Executor = Annotated[
    str,
    typer.Option(
        help="For sm_90a without a GPU: `host` (the default) runs the generated C++, `model` a model of its schedule."
    ),
]


@commands.command()
def run(
    specs: Specs,
    target: Target = None,
    define: Defines = None,
    seed: Seed = 0,
    schedules: Annotated[
        int | None, typer.Option(min=1, help="Interleavings of the waves to try; 1 by default.")
    ] = None,
    device: Device = "emulator",
    executor: Executor = "",
    blocks: Blocks = "",
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Threads that share the blocks.")] = 1,
    as_json: Json = False,
    cxx: Cxx = None,
    roots: Roots = None,
) -> None:
    """Build specs, run their machine code (for sm_90a the generated C++) with random inputs, and compare with torch.

    Sizes of the spec are constants of the code, so `-D` builds a different kernel from the one that is shipped.
    `--blocks` runs some blocks of the shipped one.
    """
    _check_device(device, schedules, blocks, executor)
    wrong = []
    chosen, files = block_ids(blocks) if blocks else None, spec_files(specs)

    def one(path: Path) -> tuple[list[object], list[str]]:
        with reported():
            refuse_early(path, define, roots)
            quicker = _quicker(path, target, roots, jobs, blocks)
        with reported(), emulating(path.stem, len(files) == 1, quicker) as progress:  # seen before torch is imported
            if device == "emulator":
                need_emulator()
            from tkgen.execute import rows as launches
            from tkgen.execute.arguments import SizeError
            from tkgen.execute.given import Asked

            try:
                asked = Asked(path, launch_defines(define), target, roots or ())
                rows = launches.run_spec(asked, device, seed, schedules or 1, jobs, cxx, chosen, progress, executor)
            except SizeError as error:
                fail(str(error), USAGE)
        for row in rows:
            wrong.extend([] if row.ok else [row])
        return [row.to_json() for row in rows], [launches.tables(rows)]

    results, worst = each(one, files, 1, "running", as_json)
    if as_json:
        say(json.dumps(results, indent=2))
    raise typer.Exit(worst or (WRONG if wrong else OK))


def _quicker(path: Path, target: str | None, roots: Sequence[Path] | None, jobs: int, blocks: str) -> str:
    """The options that make a run shorter, as a phrase."""
    from tkgen.api import target_of
    from tkgen.backends.registry import backend_of

    emulated = not backend_of(target_of(path, target, roots or ())).executors
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found = ["`--blocks 0,1` runs some of them"] if emulated and not blocks else []
    found += [f"-j {cores} uses all cores"] if emulated and jobs == 1 < cores else []
    return ", ".join([*found, "-D gives smaller sizes"])


def _check_device(device: str, schedules: int | None, blocks: str, executor: str) -> None:
    """End the command where there is no such device, or it has no use for what is asked for."""
    if device not in ("emulator", "gpu"):
        raise typer.BadParameter("--device is `emulator` or `gpu`")
    if executor not in ("", "host", "model"):
        raise typer.BadParameter("--executor is `host` or `model`")
    for name, given in (("--schedules", schedules), ("--blocks", blocks), ("--executor", executor)):
        if device == "gpu" and given:
            message = "a GPU launches all blocks in its own order: it is for the emulator"
            raise typer.BadParameter(message, param_hint=name)


@commands.command()
def test(
    specs: Specs,
    target: Target = None,
    schedules: Annotated[
        int | None, typer.Option(min=1, help="Interleavings of the waves to try at each size; 5 by default.")
    ] = None,
    generated: Annotated[Path | None, typer.Option(help="Folder of checked-in sources to compare with.")] = None,
    blocks: Annotated[
        str, typer.Option(metavar="0,8..11", help="Blocks of the shipped code to run at full size; a few by default.")
    ] = "",
    device: Device = "emulator",
    executor: Executor = "",
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here.")] = None,
    jobs: Jobs = None,
    as_json: Json = False,
    cxx: Cxx = None,
) -> None:
    """Test specs at several sizes, in several interleavings, and compare with the expected source and figures.

    A GPU launches all blocks in its own order, so `--schedules` and `--blocks` are for the emulator only.
    Kernels for sm_90a run as generated C++ on the CPU, or with `--executor model` as a model of their schedules.
    """
    _check_device(device, schedules, blocks, executor)
    if generated is not None and not generated.is_dir():
        raise typer.BadParameter(f"no folder {generated}", param_hint="--generated")
    files, chosen = spec_files(specs), block_ids(blocks) if blocks else None
    results: list[Result] = []

    def one(path: Path) -> tuple[list[object], list[str]]:
        with reported():
            refuse_early(path)
            if device == "emulator":
                need_emulator()
            from tkgen.execute import gpu_suite, modelled_suite, suites

            if device == "gpu":
                found = gpu_suite.regression(path, target=target, generated=generated, cxx=cxx)
            elif modelled_suite.takes(path, target) and not chosen:
                found = modelled_suite.regression(
                    path, target=target, schedules=schedules or 5, generated=generated, cxx=cxx, executor=executor
                )
            else:
                found = suites.regression(
                    path, target=target, schedules=schedules or 5, generated=generated, blocks=chosen, cxx=cxx
                )
        results.extend(found)
        bad = [r for r in found if r.failure]
        passed = f"{path}: {len(found) - len(bad)} passed, {len(bad)} failed  ({sum(r.seconds for r in found):.1f} s)"
        return [r.to_json() for r in found], [passed, *(f"  {r.case}: {r.failure}" for r in bad)]

    # one after another on a GPU: kernels of others would stand beside those that are compared
    plain, worst = each(one, files, 1 if device == "gpu" else jobs, "testing", as_json)
    if junit is not None:
        from tkgen.execute import suites
        from tkgen.toolchain.files import write_atomic

        write_atomic(junit, suites.junit(results))
    if as_json:
        say(json.dumps(plain, indent=2))
    raise typer.Exit(worst or (WRONG if any(r.failure for r in results) else OK))


@commands.command()
def sanitize(
    file: Annotated[
        Path,
        typer.Argument(
            help="A code object, a C++ source (.cpp, .hip, .cu), a spec (.tk), or a folder of code objects."
        ),
    ],
    grid: Annotated[str, typer.Option(help="Blocks to launch: X, X,Y or X,Y,Z.")] = "",
    block: Annotated[str, typer.Option(help="Threads of a block: X, X,Y or X,Y,Z.")] = "",
    lds: Annotated[int | None, typer.Option(min=0, help="Dynamic LDS of a block, in bytes.")] = None,
    kernel: Annotated[str | None, typer.Option(help="The kernel to run, if the file has several.")] = None,
    arg: Annotated[
        list[str] | None,
        typer.Option(help="An argument, in order: `bf16[256,192]=randn`, `i32=7`, `{...}`."),
    ] = None,
    args: Annotated[
        Path | None, typer.Option(help="A file of arguments, a line each; those of --arg come after them.")
    ] = None,
    args_from: Annotated[str, typer.Option(help="FILE.py:FUNCTION that returns the arguments.")] = "",
    schedules: Annotated[int, typer.Option(min=1, help="Interleavings of the waves to try.")] = 5,
    blocks: Annotated[str, typer.Option(help="Run only the blocks with these linear indices: 0,3,8..11.")] = "",
    budget: Annotated[
        int, typer.Option(min=1, help="Instructions after which a block counts as endless.")
    ] = 50_000_000,
    kittens: Annotated[
        Path | None, typer.Option(help="Compile with the headers of this checkout of ThunderKittens.")
    ] = None,
    target: Target = None,
    define: Annotated[
        list[str] | None, typer.Option("-D", "--define", metavar="NAME[=VALUE]", help="A macro, or a size of the spec.")
    ] = None,
    include: Annotated[
        list[Path] | None, typer.Option("-I", "--include-root", help="Folders of headers, or that `include` may reach.")
    ] = None,
    seed: Seed = 0,
    advice: Annotated[
        bool,
        typer.Option(
            "--advice", help="Also report waits that are stronger than needed, and barriers that order nothing."
        ),
    ] = False,
    how: Annotated[Format, typer.Option("--format", help="Format of the findings.")] = Format.TEXT,
    as_json: Json = False,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Threads that share the blocks.")] = 1,
    cxx: Cxx = None,
) -> None:
    """Run any gfx9 kernel and report races, missing waits and barriers, wrong addresses, half-loaded tiles.

    For a folder, all kernels are launched with arguments that tkgen chooses. Exit code 4 then means that some kernels
    were not checked.
    """
    how = Format.JSON if as_json else how
    if file.is_dir():
        one = {"--grid": grid, "--block": block, "--lds": lds, "--kernel": kernel, "--arg": arg,
               "--args-from": args_from, "--blocks": blocks, "--kittens": kittens, "--target": target,
               "--define": define, "--include": include, "--advice": advice}  # fmt: skip
        raise typer.Exit(swept(file, how, one))
    as_json = how is Format.JSON
    if advice and how not in (Format.TEXT, Format.JSON):
        raise typer.BadParameter("it is printed as text or JSON", param_hint="--advice")
    if file.suffix == ".tk":
        with reported():
            refuse_early(file, define, include)
    need_emulator()
    from tkgen import sanitize as referee
    from tkgen.emulate import EmulateError

    request = referee.Request(
        file, grid, block, lds, kernel, arg or (), args_from, target, macros(define), include or (), kittens, cxx, seed,
        args,
    )  # fmt: skip
    try:
        with reported():
            chosen, given = referee.block_ids(blocks), referee.prepare(request)
            verdicts = [
                referee.sanitize(subject, launch, schedules=schedules, blocks=chosen, budget=budget, workers=jobs)
                for subject, launch in given
            ]
            advised = [
                referee.advise(subject, launch, v, schedules=schedules, blocks=chosen, budget=budget, workers=jobs)
                for (subject, launch), v in zip(given, verdicts, strict=True)
                if advice
            ]
    except (referee.ArgumentError, EmulateError) as error:
        fail(str(error), USAGE)
    _show_sanitized(file, verdicts, advised, how)
    found = [verdict for verdict in verdicts if not verdict.clean]
    alone = all(verdict.wait_states_alone for verdict in found)
    raise typer.Exit(OK if not found else TOO_EARLY if alone else WRONG)


def _show_sanitized(file: Path, verdicts: Sequence[Verdict], advised: Sequence[Advised], how: Format) -> None:
    """Findings, a line about them, and advice where it was asked for: JSON is then an object that has both."""
    from tkgen.diagnostics.machine import to_json
    from tkgen.sanitize.advice import advice_json, advice_text
    from tkgen.sanitize.referee import WAIT_STATES

    diagnostics = [d for verdict in verdicts for d in verdict.diagnostics]
    if advised and how is Format.JSON:
        kernels = [advice_json(one) for one in advised]
        return say(json.dumps({"diagnostics": [to_json(d) for d in diagnostics], "kernels": kernels}, indent=2))
    for verdict in verdicts:
        if verdict.printed:
            (say if how is Format.TEXT else complain)(verdict.printed.removesuffix("\n"))
    show_diagnostics(diagnostics, how)
    if how is Format.TEXT:
        early = sum(d.code == WAIT_STATES for d in diagnostics)
        errors = sum(d.severity.value == "error" for d in diagnostics) - early
        found = f"{errors or 'no'} finding{'s' if errors != 1 else ''}"
        if early:
            found += f", and {early} of too few wait states ({WAIT_STATES}, whatever runs)"
        effort = [f"{file}: {found}; {verdicts[0].effort}", *(f"  then {v.effort}" for v in verdicts[1:])]
        say("\n".join([*effort, *map(advice_text, advised)]))


@commands.command(context_settings={"allow_interspersed_args": False})
def emulate(
    program: Annotated[
        list[str], typer.Argument(metavar="[--] PROGRAM [ARGS]...", help="A HIP program and its arguments.")
    ],
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            "-t",
            help="An AMD GPU, such as gfx950; by default the one that the program is compiled for, else gfx942.",
        ),
    ] = None,
    watched: Annotated[bool, typer.Option("--sanitize", help="Run every launch under the race referee.")] = False,
    schedules: Annotated[int, typer.Option(min=1, help="Interleavings of the waves that --sanitize tries.")] = 5,
    budget: Annotated[
        int, typer.Option(min=1, help="Instructions after which a block counts as endless.")
    ] = 200_000_000,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Threads that share the blocks of a launch.")] = 1,
    times: Annotated[bool, typer.Option("--times", help="Give events the predicted times of launches.")] = False,
) -> None:
    """Run a HIP program, unchanged, on an emulated GPU: its kernels are executed on the CPU.

    The program is linked with tkgen's libamdhip64. The exit status is that of the program; with --sanitize it is 1 if
    there are findings. If the program calls a HIP function that tkgen lacks, it ends with the function's name and
    status 3.
    """
    from tkgen.emulate import EmulateError
    from tkgen.emulate.decode import TARGETS
    from tkgen.emulate.program import emulated
    from tkgen.emulate.program import run as started
    from tkgen.predict.launches import Times
    from tkgen.sanitize.program import Refereed

    if target is not None and target not in TARGETS:
        fail(f"there is no emulator for '{target}'; known are {', '.join(TARGETS)}", USAGE)
    need_emulator()
    plain = emulated(jobs, budget, Times() if times else None)
    referee = Refereed(program[0], plain, show_diagnostics, schedules, budget, jobs) if watched else None
    try:
        status = started(program, referee or plain, target)
    except EmulateError as error:
        fail(str(error), USAGE)
    if referee is not None:
        found = f"{referee.errors or 'no'} finding{'s' if referee.errors != 1 else ''}"
        launches = f"{referee.launches} launch{'es' if referee.launches != 1 else ''}"
        complain(f"{program[0]}: {found}; {launches}, {schedules} schedules, {referee.instructions} instructions")
        status = status or (WRONG if referee.errors else OK)
    raise typer.Exit(status)
