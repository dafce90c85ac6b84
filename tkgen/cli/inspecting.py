"""Commands that look at specs without compiling them: check, fmt, graph, explain."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tkgen.cli.common import (
    OK,
    STANDARD_INPUT,
    USAGE,
    WRONG,
    Defines,
    Format,
    Json,
    OneSpec,
    Roots,
    Specs,
    Target,
    fail,
    findings,
    fitted,
    load_spec,
    reported,
    say,
    show_diagnostics,
    spec_files,
    standard_input,
)
from tkgen.cli.fixing import fixed
from tkgen.cli.stages import PrintAfter, go_along

if TYPE_CHECKING:
    from tkgen.diagnostics import Diagnostic

commands = typer.Typer()


class GraphFormat(StrEnum):
    """The format in which a graph is printed."""

    TEXT = "text"
    DOT = "dot"
    JSON = "json"


def _standing(files: list[Path], target: str | None, roots: list[Path] | None, texts: Mapping[Path, str]) -> str:
    """Say what is proven of specs without a finding."""
    from tkgen.api import target_of
    from tkgen.backends.registry import backend_of

    found = {target_of(path, target, roots or (), texts.get(path)) for path in files}
    unwatched = sorted(name for name in found if not backend_of(name).emulated)
    said = [f"the schedule is proven for {name}; its machine code is tested on the GPU" for name in unwatched]
    said += ["the schedule is proven; `tkgen build` also checks the machine code"] if found - set(unwatched) else []
    return "\n".join(said)


@commands.command()
def check(
    specs: Annotated[
        list[Path],
        typer.Argument(help="Spec files (.tk); a directory means all specs in it, `-` for standard input."),
    ],
    target: Target = None,
    define: Defines = None,
    how: Annotated[Format, typer.Option("--format", help="Format of the findings.")] = Format.TEXT,
    as_json: Json = False,
    fix: Annotated[bool, typer.Option("--fix", help="Apply the fixes that are certain and pass the checks.")] = False,
    unsafe_fixes: Annotated[
        bool, typer.Option("--unsafe-fixes", help="As --fix, and also the fixes that are uncertain: read the result.")
    ] = False,
    roots: Roots = None,
    print_after: PrintAfter = None,
) -> None:
    """Prove specs correct without compiling them; print errors and how to fix them."""
    from tkgen.diagnostics import Severity, SpecError
    from tkgen.diagnostics.text import count_text
    from tkgen.pipeline import last_of, stage_of

    how = Format.JSON if as_json else how
    fix = fix or unsafe_fixes
    if print_after and how is not Format.TEXT:
        raise typer.BadParameter(f"--print-after prints text, not {how.value}")
    found: list[Diagnostic] = []
    files = spec_files(specs)
    texts: dict[Path, str] = {}
    if STANDARD_INPUT in files:
        if fix or print_after:
            raise typer.BadParameter(f"`{'--fix' if fix else '--print-after'}` needs a file, not standard input")
        try:
            texts[STANDARD_INPUT] = standard_input()
        except SpecError as error:
            found += error.diagnostics
            files = [path for path in files if path != STANDARD_INPUT]
    for path in files:
        if print_after:
            with reported(), suppress(SpecError):  # what is wrong comes with the findings
                go_along(path, define, target, roots, last_of(map(stage_of, print_after)), print_after)
        if fix:
            found += fixed(path, define, target, roots, unsafe_fixes)
        else:
            found += findings(path, define, target, roots, texts.get(path))
    show_diagnostics(found, how)
    errors = sum(d.severity is Severity.ERROR for d in found)
    if how is Format.TEXT:
        counts = count_text(errors, "error"), count_text(len(found) - errors, "warning")
        say(f"{count_text(len(files), 'spec')} checked: {', '.join(counts)}{' left' if fix else ''}")
        if not errors:
            say(_standing(files, target, roots, texts))
    raise typer.Exit(WRONG if errors else OK)


@commands.command()
def fmt(
    specs: Specs,
    check_only: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if a file would change.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Format specs with standard spacing; comments are kept."""
    from tkgen.syntax.format import format_source
    from tkgen.syntax.loader import read_source
    from tkgen.toolchain.files import write_atomic

    changed = []
    for path in spec_files(specs):
        with reported():
            file = read_source(path)
            text = format_source(file)
            if text != file.text:
                changed.append(str(path))
                if not check_only:
                    write_atomic(path, text)
                if not as_json:
                    say(f"{'would reformat' if check_only else 'reformatted'} {path}")
    if as_json:
        say(json.dumps({"changed": changed, "written": not check_only}))
    raise typer.Exit(WRONG if check_only and changed else OK)


@commands.command()
def graph(
    spec: OneSpec,
    how: Annotated[GraphFormat, typer.Option("--format")] = GraphFormat.TEXT,
    target: Target = None,
    define: Defines = None,
    roots: Roots = None,
    as_json: Json = False,
) -> None:
    """Print the dataflow graph and the schedule of a spec: operations, dependencies, waits, budgets of a block."""
    with reported():
        found = load_spec(spec, define, target, roots)
        kernels: Sequence[Any] = found.kernels
        known = [(kernel.graph, kernel.tiles, kernel.footprint) for kernel in kernels]
    from tkgen.ir import graph as dataflow
    from tkgen.tile import table

    if as_json or how is GraphFormat.JSON:
        plain = [dataflow.to_json(graph) | table.as_data(*shown) for graph, *shown in known]
        say(json.dumps(plain[0] if found.kernels[0] is found else plain, indent=2))
    elif how is GraphFormat.DOT:
        say("\n".join(dataflow.to_dot(graph) for graph, *_ in known).rstrip("\n"))
    else:
        texts = (dataflow.to_text(graph) + table.as_text(*shown) for graph, *shown in known)
        say("\n".join(texts).rstrip("\n"))


@commands.command()
def explain(
    code: Annotated[str, typer.Argument(help="A diagnostic's code, such as E301.")], as_json: Json = False
) -> None:
    """Explain a diagnostic: its meaning, an example that fails, and the same example fixed."""
    from dataclasses import asdict

    from tkgen.diagnostics.explain import UnknownCode, explain_text, page

    try:
        say(json.dumps(asdict(page(code)), indent=2) if as_json else fitted(explain_text(code).rstrip("\n"), ""))
    except UnknownCode as error:
        fail(str(error), USAGE)
