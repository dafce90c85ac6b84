"""`tkgen build`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tkgen.cli.common import (
    Cxx,
    Defines,
    Jobs,
    Json,
    Out,
    Roots,
    Specs,
    Target,
    complain,
    each,
    refuse_early,
    reported,
    say,
    show_diagnostics,
    spec_files,
)
from tkgen.cli.stages import PrintAfter, go_along, say_stage

commands = typer.Typer()


DEFAULTS = ("cpp", "asm", "hsaco", "report", "html")


@commands.command()
def build(
    specs: Specs,
    target: Target = None,
    emit: Annotated[str, typer.Option(help="Comma list of cpp, asm, hsaco, module, harness, report, html.")] = ",".join(
        DEFAULTS
    ),
    define: Defines = None,
    out: Out = Path("out"),
    jobs: Jobs = None,
    as_json: Json = False,
    cxx: Cxx = None,
    kittens: Annotated[
        Path | None, typer.Option(help="Compile against a real ThunderKittens checkout instead.")
    ] = None,
    machine_check: Annotated[
        bool, typer.Option(help="Watch the machine code with the race referee before it counts as good.")
    ] = True,
    roots: Roots = None,
    print_after: PrintAfter = None,
) -> None:
    """Check specs, generate their C++, compile it, measure the machine code and write a report of it."""
    from tkgen.pipeline import COMPILE, LOWER, SCHEDULE, along

    wanted = print_after or []
    kinds = [e for e in emit.split(",") if e]

    def one(path: Path) -> tuple[list[object], list[str]]:
        with reported():
            refuse_early(path, define, roots)
            from tkgen.backends.registry import backend_of
            from tkgen.build.outputs import EMITS

            for kind in (kind for kind in kinds if kind not in EMITS):
                raise typer.BadParameter(f"--emit {kind}: it is one of {', '.join(EMITS)}")
            spec = go_along(path, define, target, roots, SCHEDULE, wanted)
            backend = backend_of(spec.target.name)
            for kind in set(kinds) - set(backend.emits) - set(DEFAULTS):
                raise typer.BadParameter(f"--emit {kind}: {spec.target.name} has {', '.join(backend.emits)} alone")
            if kittens is not None and backend.own_headers:
                raise typer.BadParameter(f"--kittens, for {spec.target.name}: {backend.own_headers}")
            for stage, value in along(spec, LOWER, after=SCHEDULE):
                say_stage(stage, value, wanted)
            built, files = backend.produce(spec, out, kinds, cxx=cxx, kittens=kittens, watch=machine_check)
            say_stage(COMPILE, built, wanted)
            show_diagnostics(built.diagnostics)
            if built.unwatched:
                complain(f"note: {spec.name}: {built.unwatched}")
        return [built.report() | {"files": {k: str(v) for k, v in files.items()}}], built.line().splitlines()

    reports, worst = each(one, spec_files(specs), jobs, "building", as_json)
    if as_json:
        say(json.dumps(reports, indent=2))
    raise typer.Exit(worst)
