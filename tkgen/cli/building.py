"""`tkgen build`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    build_line,
    complain,
    each,
    load_any_spec,
    reported,
    say,
    show_diagnostics,
    spec_files,
)
from tkgen.cli.stages import PrintAfter, stage_text

if TYPE_CHECKING:
    from tkgen.backends.hopper import HopperSpec
    from tkgen.build import Build
    from tkgen.rows import RowBuild

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
    from tkgen.backends.hopper import HopperSpec
    from tkgen.build.outputs import EMITS, produce
    from tkgen.machine_check import UNCHECKED
    from tkgen.rows import RowSpec
    from tkgen.rows.commands import produce as produce_rows

    kinds = [e for e in emit.split(",") if e]
    for kind in kinds:
        if kind not in EMITS:
            raise typer.BadParameter(f"--emit {kind}: it is one of {', '.join(EMITS)}")

    def one(path: Path) -> tuple[list[object], list[str]]:
        built: Build | RowBuild
        with reported():
            for stage in print_after or ():
                say(stage_text(stage, path, define, target, roots))
            spec = load_any_spec(path, define, target, roots)
            if isinstance(spec, HopperSpec):
                return _for_hopper(spec, out, kinds, cxx)
            if isinstance(spec, RowSpec):
                of_rows, files = produce_rows(spec, out, kinds, cxx=cxx, kittens=kittens, watch=machine_check)
                built, line = of_rows, of_rows.line()
            else:
                built, files = produce(spec, out, kinds, cxx=cxx, kittens=kittens, watch=machine_check)
                line = build_line(built)
            show_diagnostics(built.diagnostics)
            if built.machine_check.outcome == UNCHECKED and machine_check:
                complain(f"note: {spec.name}: {built.machine_check.summary}")
        return [built.report() | {"files": {k: str(v) for k, v in files.items()}}], [line]

    reports, worst = each(one, spec_files(specs), jobs, "building", as_json)
    if as_json:
        say(json.dumps(reports, indent=2))
    raise typer.Exit(worst)


def _for_hopper(spec: HopperSpec, out: Path, kinds: list[str], nvcc: str | None) -> tuple[list[object], list[str]]:
    """Build a spec for Hopper: source, cubin, disassembly and figures stand for what AMD's tools leave."""
    names = {"cpp": "cu", "asm": "sass", "hsaco": "cubin", "report": "report"}
    unknown = [kind for kind in kinds if kind not in names and kind not in DEFAULTS]
    if unknown:
        raise typer.BadParameter(f"--emit {unknown[0]}: {spec.target.name} has {', '.join(names)} alone")
    built = spec.build(nvcc=nvcc)
    show_diagnostics(built.diagnostics)
    files = built.write(out, [names[kind] for kind in kinds if kind in names])
    return [built.report() | {"files": {k: str(v) for k, v in files.items()}}], [built.line()]
