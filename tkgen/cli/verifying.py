"""The command that compares machine code with its meaning, exactly: verify."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tkgen.cli.common import (
    OK,
    USAGE,
    WRONG,
    Cxx,
    Jobs,
    Json,
    Roots,
    Seed,
    Target,
    each,
    fail,
    launch_defines,
    macros,
    need_emulator,
    refuse_early,
    reported,
    say,
    spec_files,
)

if TYPE_CHECKING:
    from tkgen.execute.rows import Row
    from tkgen.verify.run import Verdict

commands = typer.Typer()

IN_NUMBERS = "compared within bounds of f32 arithmetic: on sm_90a values have no payloads in finite fields"


@commands.command()
def verify(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Specs (.tk), a directory of them; or one code object or C++ source with its meaning (`--against`, "
            "`--reference`)."
        ),
    ],
    target: Target = None,
    define: Annotated[
        list[str] | None,
        typer.Option("-D", "--define", metavar="NAME=VALUE", help="A size or scalar of a spec, or a macro of C++."),
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Random inputs, each with random payloads.")] = 2,
    schedules: Annotated[int, typer.Option(min=1, help="Interleavings of the waves to use, one after the other.")] = 2,
    against: Annotated[Path | None, typer.Option(help="A spec whose equations FILE must compute.")] = None,
    reference: Annotated[str, typer.Option(help="FILE.py:FUNCTION, a torch function that FILE must compute.")] = "",
    grid: Annotated[str, typer.Option(help="Blocks to launch: X, X,Y or X,Y,Z.")] = "",
    block: Annotated[str, typer.Option(help="Threads of a block: X, X,Y or X,Y,Z.")] = "",
    lds: Annotated[int | None, typer.Option(min=0, help="Dynamic LDS of a block, in bytes.")] = None,
    kernel: Annotated[str | None, typer.Option(help="The kernel to run, if the file has several.")] = None,
    arg: Annotated[
        list[str] | None, typer.Option(help="An argument, in order: `A:bf16[256,192]=randn`, `i32=7`, `{...}`.")
    ] = None,
    args: Annotated[
        Path | None, typer.Option(help="A file of arguments, a line each; those of --arg come after them.")
    ] = None,
    args_from: Annotated[str, typer.Option(help="FILE.py:FUNCTION that returns the arguments.")] = "",
    include: Roots = None,
    kittens: Annotated[
        Path | None, typer.Option(help="Compile with the headers of this checkout of ThunderKittens.")
    ] = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    as_json: Json = False,
    cxx: Cxx = None,
) -> None:
    """Run machine code over finite fields and compare every stored value exactly with its meaning.

    A spec is built at a small size with its own loop counts, or at the sizes of `-D`. Any other kernel needs its
    meaning, a spec (`--against`) or a torch function (`--reference`), and its launch, as for `tkgen sanitize`. For
    sm_90a the generated C++ runs on the CPU, and its results are compared with a tolerance.
    """
    wrong: list[Verdict] = []
    unlike: list[Row] = []
    foreign = [f for f in files if f.suffix != ".tk" and not f.is_dir()]
    launch = {
        "--against": against, "--reference": reference, "--grid": grid, "--block": block, "--lds": lds,
        "--kernel": kernel, "--arg": arg, "--args-from": args_from, "--kittens": kittens,
    }  # fmt: skip
    if not foreign and (said := [option for option, value in launch.items() if value not in (None, "", [])]):
        raise typer.BadParameter(
            f"{said[0]} is for kernels that are not specs: the equations of a spec are its meaning"
        )
    if foreign and (bool(against) == bool(reference) or len(files) > 1):
        raise typer.BadParameter(
            "a kernel that is not a spec must be the only file, with --against SPEC or --reference FILE.py:FUNCTION"
        )

    def verdicts(path: Path) -> list[Verdict]:
        from tkgen import sanitize
        from tkgen.verify import foreign as kernels_of_others
        from tkgen.verify.specs import verified_spec

        if not foreign:
            return verified_spec(path, launch_defines(define), target, include or (), draws, schedules, seed, cxx)
        launched = sanitize.Request(
            path, grid, block, lds, kernel, arg or (), args_from, target, macros(define), include or (), kittens, cxx,
            seed, args,
        )  # fmt: skip
        request = kernels_of_others.Request(launched, against, reference)
        return [kernels_of_others.verified_file(request, draws, schedules)]

    def executed(path: Path) -> tuple[list[object], list[str]]:
        from tkgen.execute import modelled_suite
        from tkgen.execute.given import Asked
        from tkgen.execute.rows import tables

        asked = Asked(path, launch_defines(define), target, include or ())
        rows = modelled_suite.compared(asked, draws, schedules, seed)
        unlike.extend(row for row in rows if not row.ok)
        return [row.to_json() for row in rows], [f"{tables(rows)}\n{IN_NUMBERS}"]

    def one(path: Path) -> tuple[list[object], list[str]]:
        if not foreign:
            with reported():
                refuse_early(path, define, include)
        need_emulator()
        from tkgen.emulate import EmulateError
        from tkgen.execute import modelled_suite
        from tkgen.execute.arguments import SizeError
        from tkgen.sanitize import ArgumentError
        from tkgen.verify.report import table
        from tkgen.verify.ring import UnsupportedError

        try:
            with reported():
                if not foreign and modelled_suite.takes(path, target):
                    return executed(path)
                found = verdicts(path)
        except (SizeError, ArgumentError, EmulateError) as error:
            fail(str(error), USAGE)
        except UnsupportedError as error:
            fail(str(error), WRONG)
        wrong.extend(v for v in found if not v.ok)
        return [v.to_json() for v in found], [table(found)]

    results, worst = each(one, files if foreign else spec_files(files), jobs, "verifying", as_json)
    if as_json:
        say(json.dumps(results, indent=2))
    raise typer.Exit(worst or (WRONG if wrong or unlike else OK))
