"""`tkgen build`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tkgen.cli.common import (
    USAGE,
    Cxx,
    Defines,
    Jobs,
    Json,
    Out,
    Roots,
    Specs,
    Target,
    complain,
    defines,
    each,
    fail,
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
    emit: Annotated[
        list[str] | None,
        typer.Option(
            show_default=",".join(DEFAULTS),
            metavar="KIND[,KIND]...",
            help="Files to write, separated by commas or in several --emit: "
            "cpp, asm, hsaco, module, harness, report, html.",
        ),
    ] = None,
    define: Defines = None,
    out: Out = Path("out"),
    jobs: Jobs = None,
    as_json: Json = False,
    cxx: Cxx = None,
    kittens: Annotated[
        Path | None, typer.Option(help="Compile with the headers of this checkout of ThunderKittens.")
    ] = None,
    machine_check: Annotated[
        bool, typer.Option(help="Run the machine code under the race referee, and refuse it if it races.")
    ] = True,
    library: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Build for each shape in a file of tuned shapes, each into a separate folder."
        ),
    ] = None,
    roots: Roots = None,
    print_after: PrintAfter = None,
) -> None:
    """Check specs, generate their C++, compile and run it to find races, and write a report on the machine code."""
    from tkgen.pipeline import COMPILE, LOWER, SCHEDULE, along

    wanted = print_after or []
    kinds = list(dict.fromkeys(kind for one in emit or DEFAULTS for kind in one.split(",") if kind))

    def one(path: Path) -> tuple[list[object], list[str]]:
        with reported():
            refuse_early(path, define, roots)
            from tkgen.backends.registry import backend_of
            from tkgen.build.outputs import EMITS

            for kind in (kind for kind in kinds if kind not in EMITS):
                raise typer.BadParameter(f"--emit {kind}: it is one of {', '.join(EMITS)}")
            if library is not None:
                return _library(path, library, target, define, out, kinds, roots, cxx, machine_check)
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


def _library(
    path: Path, file: Path, target: str | None, define: Sequence[str] | None, out: Path, kinds: Sequence[str],
    roots: Sequence[Path] | None, cxx: str | None, watch: bool,
) -> tuple[list[object], list[str]]:  # fmt: skip
    """Build a spec for each shape that a file has for it, each in its own folder; `library.json` lists them."""
    from dataclasses import asdict

    from tkgen.api import load
    from tkgen.backends.registry import backend_of
    from tkgen.toolchain.files import write_atomic
    from tkgen.tune.errors import TuneError
    from tkgen.tune.results import fingerprint, read

    spec = load(path, None, target, roots or ())
    try:
        known = [shape for shape in read(file) if shape.kernel == spec.name]
    except TuneError as error:
        fail(str(error), USAGE)
    text = fingerprint(path.read_text(encoding="utf-8"))
    shapes = [s for s in known if s.spec == text and target in (None, s.target)]
    if not shapes:
        others = f"; it has {len(known)} for another text of it, or another target" if known else ""
        fail(f"{file} has no shape for {path}{others}", USAGE)
    reports: list[object] = []
    lines: list[str] = []
    entries = []
    for shape in shapes:
        sizes = {**shape.sizes, **shape.values}
        folder = "_".join([shape.kernel, shape.target, *(f"{name}{size}" for name, size in shape.sizes.items())])
        given = {**defines(define), **(shape.sizes if shape.text else sizes)}
        one = load(path, given, shape.target, roots or (), shape.text or None).check()
        backend = backend_of(shape.target)
        allowed = [kind for kind in kinds if kind in backend.emits]
        built, files = backend.produce(one, out / folder, allowed, cxx=cxx, kittens=None, watch=watch)
        show_diagnostics(built.diagnostics)
        written = {kind: str(Path(found).relative_to(out)) for kind, found in files.items()}
        entries.append(asdict(shape) | {"files": written})
        reports.append(built.report() | {"files": {k: str(v) for k, v in files.items()}})
        lines.append(f"{folder}: {built.line()}")
    listing = out / f"{spec.name}.library.json"
    write_atomic(listing, json.dumps(entries, indent=1) + "\n")
    return reports, [*lines, f"wrote {listing}"]
