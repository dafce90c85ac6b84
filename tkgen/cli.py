"""The command line: parses arguments, calls one function per command, renders. Nothing is computed here.

Exit codes: 0 all is well, 1 a spec is wrong (or its numbers are), 2 the command line is, 3 the toolchain failed.
Heavy modules are imported by the command that needs them, so that `tkgen --help` is quick.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from tkgen.api import Spec
    from tkgen.build import Build
    from tkgen.diagnostics import Diagnostic
    from tkgen.report import Prediction

OK, WRONG, USAGE, TOOLCHAIN = 0, 1, 2, 3

app = typer.Typer(
    name="tkgen",
    help="Declarative specs of tiled kernels -> proven ThunderKittens HIP C++ -> machine code, run without a GPU.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Format(StrEnum):
    """How diagnostics are printed."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


class GraphFormat(StrEnum):
    """How a graph is printed."""

    TEXT = "text"
    DOT = "dot"
    JSON = "json"


class Pass(StrEnum):
    """A stage whose result can be printed."""

    PARSE = "parse"
    GRAPH = "graph"
    SCHEDULE = "schedule"
    LOWER = "lower"


Specs = Annotated[list[Path], typer.Argument(help="Spec files (.tk); a directory stands for the specs in it.")]
OneSpec = Annotated[Path, typer.Argument(help="A spec file (.tk).")]
Target = Annotated[
    str | None, typer.Option("--target", "-t", help="gfx942, gfx90a or gfx950; else what the spec says.")
]
Defines = Annotated[
    list[str] | None,
    typer.Option(
        "-D", metavar="NAME=VALUE", help="Give a dimension or parameter a value; `dynamic` for a run-time size."
    ),
]
Roots = Annotated[list[Path] | None, typer.Option("--include-root", "-I", help="Folders that `include` may reach.")]
Json = Annotated[bool, typer.Option("--json", help="Print plain JSON instead.")]
Cxx = Annotated[str | None, typer.Option("--cxx", help="The compiler to use (also TKGEN_CXX).")]
Jobs = Annotated[
    int | None, typer.Option("-j", "--jobs", min=1, help="Specs handled side by side; else as many as there are cores.")
]
Out = Annotated[Path, typer.Option("-o", "--out", help="Folder for the outputs.")]


# ---------------------------------------------------------------- shared by commands


def _defines(values: Sequence[str] | None) -> dict[str, int | None]:
    """`NAME=VALUE` options as a mapping; several may stand in one, split by spaces."""
    result: dict[str, int | None] = {}
    for word in (w for value in values or () for w in value.split()):
        name, _, number = word.partition("=")
        if number == "dynamic":
            result[name] = None
        elif number.isdecimal() and number.isascii() and len(number) <= 12:
            result[name] = int(number)
        else:
            raise typer.BadParameter(f"-D takes NAME=NUMBER or NAME=dynamic, not `{word}`")
    return result


def _spec_files(paths: Iterable[Path]) -> list[Path]:
    """The spec files that `paths` name."""
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob("*.tk")) if path.is_dir() else [path]
        if not found:
            raise typer.BadParameter(f"no .tk files in {path}")
        files += found
    return files


def _say(text: str = "") -> None:
    typer.echo(text)


def _complain(text: str) -> None:
    typer.echo(text, err=True)


def _colour() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ


def _show(diagnostics: Iterable[Diagnostic], how: Format = Format.TEXT) -> None:
    """Print diagnostics: text to standard error, machine formats to standard output."""
    from tkgen.diagnostics import machine
    from tkgen.diagnostics.render import render_text

    found = list(diagnostics)
    if how is Format.TEXT:
        if found:
            _complain(render_text(found, color=_colour()).rstrip("\n"))
        return
    renderers = {
        Format.JSON: machine.render_json,
        Format.SARIF: machine.render_sarif,
        Format.GITHUB: machine.render_github,
    }
    _say(renderers[how](found).rstrip("\n"))


class Stop(typer.Exit):
    """The end of a command on an error, whose text has been printed; `said` is the error as plain data."""

    def __init__(self, code: int, message: str, diagnostics: Iterable[Diagnostic] = ()) -> None:
        from tkgen.diagnostics.machine import to_json

        super().__init__(code)
        self.said: dict[str, object] = {"error": message, "diagnostics": [to_json(d) for d in diagnostics]}


@contextmanager
def _reported(as_json: bool = False) -> Iterator[None]:
    """Turn the errors of the library into messages and exit codes; `as_json`: also into JSON on standard output."""
    from tkgen.diagnostics import SpecError
    from tkgen.targets.model import UnknownTargetError
    from tkgen.toolchain.compiler import ToolchainError

    try:
        yield
    except SpecError as error:
        _show(error.diagnostics)
        stop = Stop(WRONG, "the spec is wrong", error.diagnostics)
        if as_json:
            _say(json.dumps(stop.said, indent=2))
        raise stop from None
    except UnknownTargetError as error:
        _fail(str(error), USAGE, as_json)
    except ToolchainError as error:
        log = f"\n  the compiler's output is in {error.log}" if error.log else ""
        _fail(f"{error.message}{log}", TOOLCHAIN, as_json)
    except OSError as error:
        _fail(f"{error.strerror}: {error.filename}" if error.filename else str(error), USAGE, as_json)


def _fail(message: str, code: int, as_json: bool = False) -> NoReturn:
    _complain(f"error: {message}")
    stop = Stop(code, message)
    if as_json:
        _say(json.dumps(stop.said, indent=2))
    raise stop from None


def _load(path: Path, defines: Sequence[str] | None, target: str | None, roots: Sequence[Path] | None) -> Spec:
    from tkgen.api import load

    return load(path, _defines(defines), target, roots or ())


# ---------------------------------------------------------------- build


@app.command()
def build(
    specs: Specs,
    target: Target = None,
    emit: Annotated[
        str, typer.Option(help="Comma list of cpp, asm, hsaco, module, harness, report, html.")
    ] = "cpp,asm,hsaco,report,html",
    define: Defines = None,
    out: Out = Path("out"),
    jobs: Jobs = None,
    as_json: Json = False,
    cxx: Cxx = None,
    kittens: Annotated[
        Path | None, typer.Option(help="Compile against a real ThunderKittens checkout instead.")
    ] = None,
    roots: Roots = None,
    print_after: Annotated[list[Pass] | None, typer.Option(help="Print what a pass left.")] = None,
) -> None:
    """Check specs, generate their C++, compile it, measure the machine code and write a report of it."""
    from tkgen.build import EMITS, produce

    kinds = [e for e in emit.split(",") if e]
    for kind in kinds:
        if kind not in EMITS:
            raise typer.BadParameter(f"--emit {kind}: it is one of {', '.join(EMITS)}")

    def one(path: Path) -> tuple[list[object], list[str]]:
        with _reported():
            spec = _load(path, define, target, roots)
            for stage in print_after or ():
                _say(_after(spec, stage).rstrip("\n"))
            built, files = produce(spec, out, kinds, cxx=cxx, kittens=kittens)
            _show(built.diagnostics)
        return [built.report() | {"files": {k: str(v) for k, v in files.items()}}], [_build_line(built)]

    reports, worst = _each(one, _spec_files(specs), jobs, "building", as_json)
    if as_json:
        _say(json.dumps(reports, indent=2))
    raise typer.Exit(worst)


def _each(
    work: Callable[[Path], tuple[list[object], list[str]]],
    paths: list[Path],
    jobs: int | None,
    what: str,
    as_json: bool,
) -> tuple[list[object], int]:
    """`work` on every path, `jobs` at a time, with progress on a terminal: all results, and the worst exit code.

    `work` gives results and lines to say, which are said in the order of the paths. Where a path stops with an error,
    the error stands in the results.
    """
    from concurrent.futures import ThreadPoolExecutor

    from rich.console import Console
    from rich.progress import Progress

    def guarded(path: Path) -> tuple[list[object], list[str], int]:
        try:
            return *work(path), OK
        except Stop as stop:
            return [{"spec": str(path)} | stop.said], [], stop.exit_code

    jobs = min(jobs or os.cpu_count() or 1, max(len(paths), 1))

    show = sys.stderr.isatty() and len(paths) > 1
    results, worst = [], OK
    with Progress(console=Console(stderr=True), transient=True, disable=not show) as progress:
        task = progress.add_task(what, total=len(paths))
        with ThreadPoolExecutor(jobs) as pool:
            try:
                # One at a time stays on the main thread, where an interrupt arrives.
                for found, lines, code in map(guarded, paths) if jobs == 1 else pool.map(guarded, paths):
                    results += found
                    for line in () if as_json else lines:
                        _say(line)
                    worst = max(worst, code)
                    progress.advance(task)
            except KeyboardInterrupt:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    return results, worst


def _after(spec: Spec, stage: Pass) -> str:
    from tkgen.ir import graph
    from tkgen.syntax.dump import dump

    texts: dict[Pass, Callable[[], str]] = {
        Pass.PARSE: lambda: dump(spec.kernel),
        Pass.GRAPH: lambda: graph.to_text(spec.plan.graph),
        Pass.SCHEDULE: spec.plan.to_text,
        Pass.LOWER: lambda: spec.source.text,
    }
    return texts[stage]()


def _build_line(built: Build) -> str:
    from tkgen.build import other_per_mfma
    from tkgen.checks.words import count_text

    r, loop = built.resources, built.main_loop
    waves = built.occupancy.waves_per_simd

    figures = [
        f"{r.vgpr} VGPR" + (f" + {r.agpr} AGPR" if r.agpr else ""),
        f"{r.sgpr} SGPR",
        count_text(r.vgpr_spills + r.sgpr_spills, "spill"),
        f"{r.scratch_bytes} B scratch",
        f"{built.lds_bytes} B LDS",
        f"{waves:g} {'wave' if waves == 1 else 'waves'}/SIMD",
        f"{count_text(built.spec.plan.barriers_per_step, 'barrier')}/step",
    ]
    if loop is not None:
        figures.append(f"{sum(loop.mfma.values())} MFMA in the loop, {other_per_mfma(loop):.2f} others per MFMA")
    return f"{built.spec.name} ({built.spec.target.name}): " + ", ".join(figures)


# ---------------------------------------------------------------- looking at specs


@app.command()
def check(
    specs: Specs,
    target: Target = None,
    define: Defines = None,
    how: Annotated[Format, typer.Option("--format", help="How to print what is found.")] = Format.TEXT,
    as_json: Json = False,
    fix: Annotated[bool, typer.Option("--fix", help="Apply the fixes that are certain.")] = False,
    roots: Roots = None,
) -> None:
    """Prove specs correct without compiling them; say what is wrong and how to mend it."""
    from tkgen.api import load
    from tkgen.checks.words import count_text
    from tkgen.diagnostics import Severity, SpecError
    from tkgen.diagnostics.fixes import apply_fixes
    from tkgen.toolchain.files import write_atomic

    found: list[Diagnostic] = []
    files = _spec_files(specs)
    for path in files:
        try:
            with _reported_usage():
                mine = list(load(path, _defines(define), target, roots or ()).diagnostics)
        except SpecError as error:
            mine = error.diagnostics
        if fix and any(d.fix and d.fix.edits for d in mine):
            text = path.read_text(encoding="utf-8")
            mended = apply_fixes(text, mine)
            if mended != text:
                write_atomic(path, mended)
                _complain(f"{path}: fixed; run `tkgen check` again")
        found += mine
    how = Format.JSON if as_json else how
    _show(found, how)
    errors = sum(d.severity is Severity.ERROR for d in found)
    if how is Format.TEXT:
        counts = count_text(errors, "error"), count_text(len(found) - errors, "warning")
        _say(f"{count_text(len(files), 'spec')} checked: {', '.join(counts)}")
    raise typer.Exit(WRONG if errors else OK)


@contextmanager
def _reported_usage() -> Iterator[None]:
    """As `_reported`, but SpecError passes."""
    from tkgen.diagnostics import SpecError

    try:
        yield
    except SpecError:
        raise
    except Exception:
        with _reported():
            raise


@app.command()
def fmt(
    specs: Specs,
    check_only: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 where a file would change.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Format specs: canonical spacing, every comment kept."""
    from tkgen.syntax.format import format_source
    from tkgen.syntax.loader import read_source
    from tkgen.toolchain.files import write_atomic

    changed = []
    for path in _spec_files(specs):
        with _reported(as_json):
            file = read_source(path)
            text = format_source(file)
            if text != file.text:
                changed.append(str(path))
                if not check_only:
                    write_atomic(path, text)
                if not as_json:
                    _say(f"{'would reformat' if check_only else 'reformatted'} {path}")
    if as_json:
        _say(json.dumps({"changed": changed, "written": not check_only}))
    raise typer.Exit(WRONG if check_only and changed else OK)


@app.command()
def graph(
    spec: OneSpec,
    how: Annotated[GraphFormat, typer.Option("--format")] = GraphFormat.TEXT,
    define: Defines = None,
    roots: Roots = None,
    as_json: Json = False,
) -> None:
    """Print a spec's dataflow graph: operations, dependencies, the barrier that covers each."""
    from tkgen.ir import graph as dataflow

    with _reported(as_json or how is GraphFormat.JSON):
        found = _load(spec, define, None, roots).plan.graph
    if as_json or how is GraphFormat.JSON:
        _say(json.dumps(dataflow.to_json(found), indent=2))
    else:
        _say((dataflow.to_dot if how is GraphFormat.DOT else dataflow.to_text)(found).rstrip("\n"))


@app.command()
def explain(
    code: Annotated[str, typer.Argument(help="A diagnostic's code, such as E301.")], as_json: Json = False
) -> None:
    """Explain a diagnostic: what it means, an example that fails, the same one mended."""
    from dataclasses import asdict

    from tkgen.diagnostics.explain import UnknownCode, explain_text, page

    try:
        _say(json.dumps(asdict(page(code)), indent=2) if as_json else explain_text(code).rstrip("\n"))
    except UnknownCode as error:
        _fail(str(error), USAGE, as_json)


# ---------------------------------------------------------------- what people look at


@app.command()
def report(
    specs: Specs,
    target: Target = None,
    define: Defines = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="The HTML file to write.")] = Path("report.html"),
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    product: Annotated[
        str | None, typer.Option(help="The GPU to predict for, such as MI325X; else the target's first.")
    ] = None,
    predicted: Annotated[
        bool, typer.Option("--predict/--no-predict", help="Predict time and cycles (some seconds a kernel).")
    ] = True,
    previous: Annotated[Path, typer.Option(help="Folder of an earlier build, to show its figures.")] = Path("out"),
    cxx: Cxx = None,
    as_json: Json = False,
    roots: Roots = None,
) -> None:
    """Write one HTML file: source and machine code side by side, who owns what, the pipeline, registers, LDS."""
    from rich.console import Console

    from tkgen.report import Facts, facts, previous_report, print_facts, render_html, to_json
    from tkgen.toolchain.files import write_atomic

    def one(path: Path) -> Facts:
        built = _load(path, define, target, roots).build(cxx=cxx)
        found = _prediction(built, product) if predicted else None
        return facts(built, found, previous_report(previous / f"{built.spec.name}.json"))

    with _reported(as_json):
        kernels = [one(path) for path in _spec_files(specs)]
        write_atomic(out, render_html(kernels))
    if as_json:
        _say(json.dumps([to_json(k) for k in kernels], indent=2))
    else:
        for kernel in kernels:
            print_facts(kernel, Console())
        _say(f"wrote {out}")
    if open_it:
        import webbrowser

        webbrowser.open(out.resolve().as_uri())


def _prediction(built: Build, product: str | None) -> Prediction | None:
    """What the report says of a kernel's time; None, with a note, where nothing can be said."""
    from tkgen.report import prediction

    try:
        from tkgen.predict import PredictError

        try:
            return prediction(built, product)
        except PredictError as error:
            _complain(f"note: no prediction for {built.spec.name}: {error}")
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        _complain(f"note: no prediction, which needs {error.name}: pip install 'tkgen[{EXTRAS[error.name]}]'")
    return None


@app.command("diff")
def compare(
    before: Annotated[Path, typer.Argument(help="A spec, or the report.json of an earlier build.")],
    after: Annotated[
        Path | None, typer.Argument(help="A spec, or a report.json; without it BEFORE is compared with its last build.")
    ] = None,
    target: Target = None,
    define: Defines = None,
    html: Annotated[Path | None, typer.Option(help="Also write the comparison as HTML.")] = None,
    previous: Annotated[Path, typer.Option(help="Folder of the last build.")] = Path("out"),
    cxx: Cxx = None,
    as_json: Json = False,
    roots: Roots = None,
) -> None:
    """Show what changed between two specs or builds: spec, schedule, source, instructions, figures."""
    from dataclasses import asdict

    from rich.console import Console

    from tkgen.report import diff, render_diff, render_diff_html
    from tkgen.toolchain.files import write_atomic

    def side(path: Path) -> Build | Path:
        return path if path.suffix == ".json" else _load(path, define, target, roots).build(cxx=cxx)

    with _reported(as_json):
        first = side(before)
        if after is not None:
            sides = (first, side(after))
        elif isinstance(first, Path):
            raise typer.BadParameter("a report.json needs a second argument to be compared with")
        else:
            sides = (previous / f"{first.spec.name}.json", first)
        try:
            change = diff(*sides)
        except ValueError as error:
            _fail(str(error), USAGE, as_json)
        if html is not None:
            write_atomic(html, render_diff_html(change))
    if as_json:
        _say(json.dumps(asdict(change), indent=2, default=str))
    else:
        render_diff(change, Console())


@app.command()
def watch(
    spec: OneSpec,
    target: Target = None,
    define: Defines = None,
    out: Out = Path("out"),
    once: Annotated[bool, typer.Option("--once", help="Handle the spec as it is and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each save instead.")] = False,
    cxx: Cxx = None,
    roots: Roots = None,
) -> None:
    """Check, build and run a spec on the emulator each time it, or a file it includes, is saved."""
    import time

    from tkgen import launching
    from tkgen.diagnostics import SpecError
    from tkgen.syntax.parser import parse_path

    files = {spec}

    def cycle() -> dict[str, object]:
        with _reported():
            built = _load(spec, define, target, roots).build(cxx=cxx, log=out / f"{spec.stem}.log")
            built.write(out)
            if not as_json:
                _say(_build_line(built))
            _show(built.check().diagnostics)
            small = launching.smallest(spec, _defines(define), target, roots or ())
            rows = launching.run_spec(spec, small, target, roots or (), "emulator", 0, 1, 1, cxx)
            if not as_json:
                _say(launching.table(rows))
        code = OK if all(row.ok for row in rows) else WRONG
        return {"exit": code, "build": built.report(), "runs": [row.to_json() for row in rows]}

    def stamp() -> tuple[object, ...]:
        with suppress(SpecError, OSError):  # what is broken now was included before
            files.update(launching.included(parse_path(spec, roots or ())))
        return tuple((f, f.stat().st_mtime_ns, f.stat().st_size) for f in sorted(files) if f.exists())

    seen: tuple[object, ...] | None = None
    while True:
        now = stamp()
        if now != seen:
            seen = now
            if not as_json:
                _say(f"--- {spec}")
            try:
                said = cycle()
            except Stop as stop:
                said = {"exit": stop.exit_code} | stop.said
            if as_json:
                _say(json.dumps({"spec": str(spec)} | said))
            if once:
                raise typer.Exit(int(str(said["exit"])))
            if said["exit"] and not as_json:
                _say(f"(exit code {said['exit']}; waiting for the next save)")
        time.sleep(0.3)


@app.command()
def predict(
    spec: OneSpec,
    target: Target = None,
    define: Defines = None,
    product: Annotated[
        str | None, typer.Option(help="The GPU, such as MI300X or MI325X; else the target's first.")
    ] = None,
    compare: Annotated[Path | None, typer.Option(help="Another spec to compare with.")] = None,
    compare_define: Annotated[
        list[str] | None, typer.Option("--compare-D", metavar="NAME=VALUE", help="Its -D values; else the same.")
    ] = None,
    cxx: Cxx = None,
    as_json: Json = False,
    roots: Roots = None,
) -> None:
    """Predict how long a kernel takes on a GPU, what limits it, and what would change that."""
    from rich.console import Console

    from tkgen import predict as model

    def one(path: Path, values: Sequence[str] | None) -> model.Prediction:
        from tkgen.launching import split_defines

        static, extents = split_defines(path, _defines(values), target, roots or ())
        loaded = load(path, static, target, roots or ())
        model.device_of(loaded.target, product)  # before anything is compiled
        loaded.check()
        _emulator(as_json)
        return model.predict(loaded.build(cxx=cxx).check(), extents, product)

    from tkgen.api import load

    with _reported(as_json):
        try:
            first = one(spec, define)
            second = None
            if compare is not None or compare_define:
                second = one(compare or spec, compare_define or define)
        except model.PredictError as error:
            _fail(str(error), USAGE, as_json)
    both = None if second is None else model.compare(first, second)
    if as_json:
        _say(json.dumps(model.to_json(first if both is None else both), indent=2))
    elif both is None:
        model.render_terminal(first, Console())
    else:
        model.render_comparison(both, Console())


# ---------------------------------------------------------------- running


def _emulator(as_json: bool) -> None:
    """Make sure that the emulator can run here."""
    from tkgen.emulate import EmulateError, native

    try:
        native.core()
    except EmulateError as error:
        _fail(str(error), TOOLCHAIN, as_json)


@app.command()
def run(
    specs: Specs,
    target: Target = None,
    define: Defines = None,
    seed: Annotated[int, typer.Option(help="Seed of the random inputs.")] = 0,
    schedules: Annotated[int, typer.Option(min=1, help="Interleavings of the waves to try.")] = 1,
    device: Annotated[str, typer.Option(help="`emulator`, or `gpu` through the built module.")] = "emulator",
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Threads that share the blocks.")] = 1,
    as_json: Json = False,
    cxx: Cxx = None,
    roots: Roots = None,
) -> None:
    """Build specs, run their machine code with random inputs, and compare with torch."""
    from tkgen import launching

    if device not in ("emulator", "gpu"):
        raise typer.BadParameter("--device is `emulator` or `gpu`")
    if device == "emulator":
        _emulator(as_json)
    wrong = []

    def one(path: Path) -> tuple[list[object], list[str]]:
        try:
            with _reported():
                rows = launching.run_spec(
                    path, _defines(define), target, roots or (), device, seed, schedules, jobs, cxx
                )
        except launching.SizeError as error:
            _fail(str(error), USAGE)
        for row in rows:
            wrong.extend([] if row.ok else [row])
        return [row.to_json() for row in rows], [launching.table(rows)]

    results, worst = _each(one, _spec_files(specs), 1, "running", as_json)
    if as_json:
        _say(json.dumps(results, indent=2))
    raise typer.Exit(worst or (WRONG if wrong else OK))


@app.command()
def test(
    specs: Specs,
    target: Target = None,
    schedules: Annotated[int, typer.Option(min=1, help="Interleavings of the waves to try on each size.")] = 5,
    generated: Annotated[Path | None, typer.Option(help="Folder of checked-in sources to compare with.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here.")] = None,
    jobs: Jobs = None,
    as_json: Json = False,
    cxx: Cxx = None,
) -> None:
    """The regression run: every spec at several sizes, under several schedules, against source and figures expected."""
    from dataclasses import asdict

    from tkgen import regression
    from tkgen.targets import load_target
    from tkgen.toolchain.files import write_atomic

    _emulator(as_json)
    with _reported():
        if target is not None:
            load_target(target)
    if generated is not None and not generated.is_dir():
        raise typer.BadParameter(f"no folder {generated}", param_hint="--generated")
    results: list[regression.Result] = []

    def one(path: Path) -> tuple[list[object], list[str]]:
        with _reported():
            found = regression.test_spec(path, target=target, schedules=schedules, generated=generated, cxx=cxx)
        results.extend(found)
        bad = [r for r in found if r.failure]
        passed = f"{path}: {len(found) - len(bad)} passed, {len(bad)} failed  ({sum(r.seconds for r in found):.1f} s)"
        return [asdict(r) for r in found], [passed, *(f"  {r.case}: {r.failure}" for r in bad)]

    plain, worst = _each(one, _spec_files(specs), jobs, "testing", as_json)
    if junit is not None:
        write_atomic(junit, regression.junit(results))
    if as_json:
        _say(json.dumps(plain, indent=2))
    raise typer.Exit(worst or (WRONG if any(r.failure for r in results) else OK))


@app.command()
def sanitize(
    file: Annotated[Path, typer.Argument(help="A code object, a C++ source (.cpp, .hip, .cu), or a spec (.tk).")],
    grid: Annotated[str, typer.Option(help="Blocks to launch: X, X,Y or X,Y,Z.")] = "",
    block: Annotated[str, typer.Option(help="Threads of a block: X, X,Y or X,Y,Z.")] = "",
    lds: Annotated[int | None, typer.Option(min=0, help="Dynamic LDS of a block, in bytes.")] = None,
    kernel: Annotated[str | None, typer.Option(help="The kernel, where there are several.")] = None,
    arg: Annotated[
        list[str] | None,
        typer.Option(help="An argument, in order: `bf16[256,192]=randn`, `i32=7`, `{...}`."),
    ] = None,
    args_from: Annotated[str, typer.Option(help="FILE.py:FUNCTION that returns the arguments.")] = "",
    schedules: Annotated[int, typer.Option(min=1, help="Interleavings of the waves to try.")] = 5,
    blocks: Annotated[str, typer.Option(help="Run these linear block ids alone: 0,3,8..11.")] = "",
    budget: Annotated[
        int, typer.Option(min=1, help="Instructions of a block until it counts as endless.")
    ] = 50_000_000,
    kittens: Annotated[
        Path | None, typer.Option(help="Compile against a real ThunderKittens checkout instead.")
    ] = None,
    target: Target = None,
    define: Annotated[
        list[str] | None, typer.Option("-D", "--define", metavar="NAME[=VALUE]", help="A macro, or a spec's size.")
    ] = None,
    include: Annotated[
        list[Path] | None, typer.Option("-I", "--include-root", help="Folders of headers, or that `include` may reach.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random inputs.")] = 0,
    how: Annotated[Format, typer.Option("--format", help="How to print what is found.")] = Format.TEXT,
    as_json: Json = False,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Threads that share the blocks.")] = 1,
    cxx: Cxx = None,
) -> None:
    """Run any gfx9 kernel under the race referee: races, waits, bounds, barriers, half-loaded tiles."""
    from tkgen import sanitize as referee
    from tkgen.emulate import EmulateError

    how = Format.JSON if as_json else how
    as_json = how is Format.JSON
    _emulator(as_json)
    macros = dict(word.partition("=")[::2] for value in define or () for word in value.split())
    request = referee.Request(
        file, grid, block, lds, kernel, arg or (), args_from, target, macros, include or (), kittens, cxx, seed
    )  # fmt: skip
    try:
        with _reported(as_json):
            subject, launch = referee.prepare(request)
            verdict = referee.sanitize(
                subject, launch, schedules=schedules, blocks=referee.block_ids(blocks), budget=budget, workers=jobs
            )
    except (referee.ArgumentError, EmulateError) as error:
        _fail(str(error), USAGE, as_json)
    _show(verdict.diagnostics, how)
    if how is Format.TEXT:
        errors = sum(d.severity.value == "error" for d in verdict.diagnostics)
        found = f"{errors or 'no'} finding{'s' if errors != 1 else ''}"
        _say(f"{file}: {found}; {verdict.effort}")
    raise typer.Exit(OK if verdict.clean else WRONG)


@app.command()
def tune(
    specs: Specs,
    target: Target = None,
    define: Defines = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option("--range", metavar="NAME=64,128", help="Values of a parameter, in place of a `tune` clause."),
    ] = None,
    sizes: Annotated[
        list[str] | None, typer.Option("--sizes", metavar="M=..,N=..", help="The problem to tune for.")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Candidates to compile; fewer than there are: Optuna picks.")] = 64,
    best: Annotated[int, typer.Option(min=1, help="Fastest candidates to verify on the emulator.")] = 3,
    product: Annotated[str | None, typer.Option(help="The device to predict for, such as MI325X.")] = None,
    device: Annotated[str, typer.Option(help="`gpu` also times the verified ones.")] = "emulator",
    executor: Annotated[str, typer.Option(help="`process`, or `ray` for a cluster.")] = "process",
    jobs: Annotated[
        int | None,
        typer.Option("-j", "--jobs", min=1, help="Candidates evaluated side by side; else as many as there are cores."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the trials in the output folder.")] = False,
    out: Out = Path("tune"),
    as_json: Json = False,
    cxx: Cxx = None,
    roots: Roots = None,
) -> None:
    """Search parameters and variants for the fastest kernel; write it as a spec. Several specs compete."""
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from tkgen import tune as tuner

    request = tuner.Request(
        tuple(_spec_files(specs)), _defines(define), _ranges(ranges), _sizes(sizes), target, product,
        tuple(roots or ()), trials, best, jobs or os.cpu_count() or 1, executor, device, out, resume, cxx, seed,
    )  # fmt: skip
    _emulator(as_json)
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        tasks: dict[str, TaskID] = {}

        def show(step: tuner.Progress) -> None:
            if step.stage not in tasks:
                tasks[step.stage] = bar.add_task(step.stage)
            bar.update(tasks[step.stage], completed=step.done, total=step.total)

        with _reported(as_json):
            try:
                outcome = tuner.tune(request, show)
            except tuner.MissingPackage as error:
                _fail(str(error), TOOLCHAIN, as_json)
            except tuner.NothingFits as error:
                _fail(str(error), WRONG, as_json)
            except tuner.TuneError as error:
                _fail(str(error), USAGE, as_json)
    if as_json:
        _say(json.dumps(outcome.to_json(), indent=2))
    else:
        tuner.render_terminal(outcome, Console())


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
    words = [w for value in values or () for w in value.replace(",", " ").split()]
    found = {name: size for name, size in _defines(words).items() if size is not None}
    if len(found) < len(words):
        raise typer.BadParameter("--sizes takes NAME=NUMBER,..., each name once")
    return found


# ---------------------------------------------------------------- the project


@app.command()
def doctor(cxx: Cxx = None, as_json: Json = False) -> None:
    """Show which compilers and packages are here, what each enables, and how to add what is missing."""
    from dataclasses import asdict

    from tkgen.targets import load_target, target_names
    from tkgen.toolchain.doctor import doctor as examine

    report = examine([load_target(name) for name in target_names()], cxx)
    if as_json:
        _say(json.dumps(asdict(report), indent=2, default=str))
    else:
        for compiler in report.compilers:
            works = [t for t, reason in compiler.targets.items() if not reason]
            _say(f"compiler   {' '.join(compiler.command)}  {compiler.version}  {', '.join(works) or 'no target'}")
        for part in report.components:
            _say(f"{'found' if part.found else 'missing':<10} {part.name}: {part.detail}")
        for ability in report.capabilities:
            _say(
                f"{'can' if ability.available else 'cannot':<10} {ability.name}"
                + (f"  ({ability.by})" if ability.by else "")
            )
            for missing in ability.missing:
                _say(f"{'':<10}   needs {missing.what}: {missing.install}")
    raise typer.Exit(OK if report.ok else TOOLCHAIN)


def bundled_specs() -> Path:
    """The folder of the specs that come with tkgen: package data, or the checkout's."""
    here = Path(__file__).parent
    return here / "specs" if (here / "specs").is_dir() else here.parent / "specs"


@app.command()
def specs(as_json: Json = False) -> None:
    """List the specs that come with tkgen and what each shows."""
    from tkgen.syntax.loader import read_source
    from tkgen.syntax.parser import header_comment

    rows = []
    for path in sorted(bundled_specs().glob("*.tk")):
        header = header_comment(read_source(path)).splitlines()
        rows.append({"name": path.stem, "shows": header[0] if header else "", "path": str(path)})
    if as_json:
        _say(json.dumps(rows, indent=2))
    else:
        for row in rows:
            _say(f"{row['name']:<26} {row['shows']}")


@app.command()
def new(
    name: Annotated[str | None, typer.Argument(help="The new kernel's name; the file is NAME.tk.")] = None,
    source: Annotated[
        str | None, typer.Option("--from", help="Start from this spec: a file, or a name `tkgen specs` lists.")
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
    from tkgen.lower.names import IDENTIFIER
    from tkgen.syntax.loader import read_source
    from tkgen.syntax.parser import parse_path
    from tkgen.toolchain.files import write_atomic

    asking = name is None and sys.stdin.isatty()
    if name is None and not asking:
        raise typer.BadParameter("give the kernel a NAME")

    def named(text: str) -> str:
        if not IDENTIFIER.match(text):
            raise typer.BadParameter(f"`{text}` cannot name a kernel: letters, digits and _ only")
        if (out / f"{text}.tk").exists():
            raise typer.BadParameter(f"{out / text}.tk is there already")
        return text

    def ask(field: str, question: str, default: str | None) -> str:
        """An answer of the right form; asked again until it is."""

        def value(text: str) -> str:
            try:
                return named(text) if field == "name" else str(starting.checked(field, text))
            except ValueError as error:
                raise typer.BadParameter(str(error)) from None

        return str(typer.prompt(question, default=default, value_proc=value, err=as_json))

    name = named(name) if name is not None else ask("name", "kernel name", None)
    destination = out / f"{name}.tk"
    if source is not None:
        path = Path(source) if Path(source).suffix == ".tk" else bundled_specs() / f"{source}.tk"
        if Path(source).suffix != ".tk" and not path.exists():
            _fail(f"no spec `{source}` comes with tkgen: `tkgen specs` lists them", USAGE, as_json)
        with _reported(as_json):
            span = parse_path(path).name.span
            text = read_source(path).text
        text = text[: span.start] + name + text[span.end :]
    else:
        given = {"layout": layout, "dtype": dtype, "size": size, "block": block, "waves": waves, "buffers": buffers}
        try:
            text = starting.spec_text(starting.collected(name, given, ask if asking else None))
        except ValueError as error:
            _fail(str(error), USAGE, as_json)
    with _reported(as_json):
        write_atomic(destination, text)
    found = _diagnostics(destination)
    if as_json:
        _say(json.dumps({"written": str(destination), "diagnostics": [to_json(d) for d in found]}, indent=2))
    else:
        _show(found)
        wrong = any(d.severity is Severity.ERROR for d in found)
        _say(f"wrote {destination}; next: {'mend it, and ' if wrong else ''}tkgen watch {destination}")


def _diagnostics(path: Path) -> list[Diagnostic]:
    """What is to be said about a spec, whether it can be loaded or not."""
    from tkgen.diagnostics import SpecError

    try:
        return list(_load(path, None, None, None).diagnostics)
    except SpecError as error:
        return error.diagnostics


@app.command()
def regen(
    directory: Annotated[Path, typer.Option(help="Where the specs are.")] = Path("specs"),
    out: Out = Path("generated"),
    check_only: Annotated[bool, typer.Option("--check", help="Change nothing; exit 1 where a file differs.")] = False,
    as_json: Json = False,
) -> None:
    """Rewrite generated/TARGET/*.cpp from the specs."""
    from tkgen.toolchain.files import write_atomic

    wanted: dict[Path, str] = {}
    for path in _spec_files([directory]):
        with _reported(as_json):
            spec = _load(path, None, None, None)
            wanted[out / spec.target.name / f"{path.stem}.cpp"] = spec.source.text
    present = {p: p.read_text(encoding="utf-8") for p in out.glob("*/*.cpp")}
    changed = sorted(p for p in wanted.keys() | present.keys() if wanted.get(p) != present.get(p))
    for path in changed:
        if not check_only:
            if path in wanted:
                write_atomic(path, wanted[path])
            else:
                path.unlink()
        if not as_json:
            _say(f"{'differs' if check_only else 'wrote' if path in wanted else 'removed'} {path}")
    if as_json:
        _say(json.dumps({"changed": [str(p) for p in changed], "written": not check_only}))
    raise typer.Exit(WRONG if check_only and changed else OK)


@app.command()
def lsp(
    tcp: Annotated[
        bool, typer.Option("--tcp", help="Listen on a port instead of speaking over standard input.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 2087,
) -> None:
    """Start the language server that editors talk to."""
    try:
        from tkgen.lsp.server import main as serve
    except ImportError:
        _fail("the language server needs pygls: pip install 'tkgen[lsp]'", TOOLCHAIN)
    serve(tcp=tcp, host=host, port=port)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        from tkgen import __version__

        _say(f"tkgen {__version__}")
        raise typer.Exit(OK)


# Packages that only some commands need, and the extra that brings them.
EXTRAS = {"torch": "emulate", "numpy": "emulate", "tinygrad": "emulate", "pygls": "lsp", "lsprotocol": "lsp",
          "optuna": "tune", "pybind11": "module"}  # fmt: skip


def main() -> None:
    """The console entry point: whatever goes wrong, a message and an exit code, never a traceback."""
    try:
        app()
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in EXTRAS:
            raise
        _complain(
            f"error: this command needs {package}, which is not installed: pip install 'tkgen[{EXTRAS[package]}]'"
        )
        sys.exit(TOOLCHAIN)
    except KeyboardInterrupt:
        _complain("interrupted")
        sys.exit(130)
    except BrokenPipeError:
        os._exit(OK)


if __name__ == "__main__":
    main()
