"""Commands around the work: doctor, specs, new, regen, lsp."""

from __future__ import annotations

import json
import sys
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
    Out,
    fail,
    findings,
    fitted,
    load_spec,
    reported,
    say,
    show_diagnostics,
    spec_files,
)

commands = typer.Typer()


@commands.command()
def doctor(cxx: Cxx = None, as_json: Json = False) -> None:
    """List the compilers and packages of this machine, what each enables, and how to install missing ones."""
    from dataclasses import asdict

    from tkgen.targets import load_target, target_names
    from tkgen.toolchain.doctor import doctor as examine

    report = examine([load_target(name) for name in target_names()], cxx)
    if as_json:
        say(json.dumps(asdict(report), indent=2, default=str))
    else:
        for compiler in report.compilers:
            works = [t for t, reason in compiler.targets.items() if not reason]
            command = f"compiler   {' '.join(compiler.command)}"
            say(fitted(f"{command}  {compiler.version}  {', '.join(works) or 'no target'}", " " * 11))
        for part in report.components:
            say(fitted(f"{'found' if part.found else 'missing':<10} {part.name}: {part.detail}", " " * 11))
        for ability in report.capabilities:
            say(
                f"{'can' if ability.available else 'cannot':<10} {ability.name}"
                + (f"  ({ability.by})" if ability.by else "")
            )
            for missing in ability.missing:
                say(fitted(f"{'':<10}   needs {missing.what}: {missing.install}", " " * 13))
    raise typer.Exit(OK if report.ok else TOOLCHAIN)


@commands.command()
def specs(as_json: Json = False) -> None:
    """List the specs that come with tkgen, each with a description."""
    from tkgen.starting import bundled_specs
    from tkgen.syntax.loader import read_source
    from tkgen.syntax.parser import header_comment

    rows = []
    for path in [*sorted(bundled_specs().glob("*.tk")), *sorted(bundled_specs().glob("*/*.tk"))]:
        header = header_comment(read_source(path)).splitlines()
        rows.append({"name": path.stem, "shows": header[0] if header else "", "path": str(path)})
    if as_json:
        say(json.dumps(rows, indent=2))
    else:
        for row in rows:
            say(fitted(f"{row['name']:<26} {row['shows']}", " " * 27))


@commands.command()
def new(
    name: Annotated[str | None, typer.Argument(help="The new kernel's name; the file is NAME.tk.")] = None,
    source: Annotated[
        str | None, typer.Option("--from", help="Start from this spec: a file, or a name that `tkgen specs` lists.")
    ] = None,
    layout: Annotated[str | None, typer.Option(help="AB, ABt, AtB or AtBt.")] = None,
    dtype: Annotated[str | None, typer.Option(help="bf16, f16 or f32.")] = None,
    size: Annotated[str | None, typer.Option(help="M x N x K.")] = None,
    block: Annotated[str | None, typer.Option(help="Rows x columns x K-step of a block.")] = None,
    waves: Annotated[str | None, typer.Option(help="Wave rows x wave columns.")] = None,
    buffers: Annotated[int | None, typer.Option(min=1, help="LDS buffers per operand.")] = None,
    out: Out = Path("."),
    as_json: Json = False,
) -> None:
    """Start a new spec: from an existing one, from options, or by answering questions on a terminal."""
    from tkgen import starting
    from tkgen.diagnostics import Severity
    from tkgen.diagnostics.machine import to_json
    from tkgen.toolchain.files import write_atomic

    asking = name is None and sys.stdin.isatty()
    if name is None and not asking:
        raise typer.BadParameter("give the kernel a NAME")

    def right(field: str, text: str) -> str:
        try:
            if field != "name":
                return str(starting.checked(field, text))
            starting.path_of(out, text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        return text

    def ask(field: str, question: str, default: str | None) -> str:
        """An answer of the right form; asked again until it is."""
        answer = typer.prompt(question, default=default, value_proc=lambda text: right(field, text), err=as_json)
        return str(answer)

    name = right("name", name) if name is not None else ask("name", "kernel name", None)
    destination = out / f"{name}.tk"
    given = {"layout": layout, "dtype": dtype, "size": size, "block": block, "waves": waves, "buffers": buffers}
    with reported():
        try:
            if source is not None:
                text = starting.renamed(source, name)
            else:
                text = starting.spec_text(starting.collected(name, given, ask if asking else None))
        except ValueError as error:
            fail(str(error), USAGE)
        write_atomic(destination, text)
    found = findings(destination, None, None, None)
    if as_json:
        say(json.dumps({"written": str(destination), "diagnostics": [to_json(d) for d in found]}, indent=2))
    else:
        show_diagnostics(found)
        wrong = any(d.severity is Severity.ERROR for d in found)
        say(f"wrote {destination}; next: {'mend it, and ' if wrong else ''}tkgen watch {destination}")


@commands.command()
def regen(
    directory: Annotated[Path, typer.Option(help="Folder of the specs.")] = Path("specs"),
    out: Out = Path("generated"),
    check_only: Annotated[bool, typer.Option("--check", help="Change nothing; exit with 1 if a file differs.")] = False,
    as_json: Json = False,
) -> None:
    """Rewrite the generated C++ (generated/TARGET/*.cpp and *.cu) of all specs in a folder."""
    from tkgen.backends.registry import backend_of
    from tkgen.toolchain.files import write_atomic

    wanted: dict[Path, str] = {}
    for path in [*spec_files([directory]), *sorted(directory.glob("*/*.tk"))]:
        with reported():
            found = load_spec(path, None, None, None)
            suffix = backend_of(found.target.name).suffix
            wanted[out / found.target.name / f"{path.stem}.{suffix}"] = found.text
    present = {p: p.read_text(encoding="utf-8") for pattern in ("*/*.cpp", "*/*.cu") for p in out.glob(pattern)}
    changed = sorted(p for p in wanted.keys() | present.keys() if wanted.get(p) != present.get(p))
    for path in changed:
        if not check_only:
            if path in wanted:
                write_atomic(path, wanted[path])
            else:
                path.unlink()
        if not as_json:
            say(f"{'differs' if check_only else 'wrote' if path in wanted else 'removed'} {path}")
    if as_json:
        say(json.dumps({"changed": [str(p) for p in changed], "written": not check_only}))
    raise typer.Exit(WRONG if check_only and changed else OK)


@commands.command()
def lsp(
    tcp: Annotated[bool, typer.Option("--tcp", help="Listen on a port instead of standard input.")] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 2087,
) -> None:
    """Start the language server for editors."""
    try:
        from tkgen.lsp.server import main as serve
    except ImportError:
        from tkgen.packages import install_line

        fail(f"the language server needs pygls: {install_line('lsp')}", TOOLCHAIN)
    serve(tcp=tcp, host=host, port=port)
