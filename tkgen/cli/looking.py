"""Commands that show what was built: report, diff, watch, predict."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tkgen.cli.common import (
    OK,
    USAGE,
    WRONG,
    Cxx,
    Defines,
    Json,
    OneSpec,
    Out,
    Roots,
    Specs,
    Stop,
    Target,
    bar,
    complain,
    defines,
    fail,
    load_spec,
    need_emulator,
    refuse_early,
    reported,
    say,
    show_diagnostics,
    spec_files,
    working,
)

if TYPE_CHECKING:
    from tkgen.backends.protocol import Build
    from tkgen.backends.protocol import Spec as AnySpec
    from tkgen.build.saves import State
    from tkgen.execute.predicted import PredictionAsked
    from tkgen.predict import Prediction
    from tkgen.report import Facts
    from tkgen.report import Prediction as Shown
    from tkgen.report.hot import Hot
    from tkgen.tune.edits import Tried

commands = typer.Typer()


@commands.command()
def report(
    specs: Specs,
    target: Target = None,
    define: Defines = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="The HTML file to write.")] = Path("report.html"),
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    product: Annotated[
        str | None, typer.Option(help="The GPU to predict for, such as MI325X; by default the first of the target.")
    ] = None,
    predicted: Annotated[
        bool, typer.Option("--predict/--no-predict", help="Predict time and cycles (takes some seconds per kernel).")
    ] = True,
    previous: Annotated[
        Path, typer.Option(help="Folder of an earlier build whose figures are shown for comparison.")
    ] = Path("out"),
    cxx: Cxx = None,
    as_json: Json = False,
    roots: Roots = None,
) -> None:
    """Write one HTML file: source and machine code side by side, the layout, the pipeline, registers, LDS."""
    with reported():
        for path in spec_files(specs):
            refuse_early(path, define, roots)
    from rich.console import Console

    from tkgen.report import all_facts, print_facts, render_html, to_json
    from tkgen.toolchain.files import write_atomic

    def one(path: Path) -> Sequence[Facts]:
        spec = load_spec(path, define, target, roots)
        with working(f"measuring {path.stem}"):
            built = spec.build(cxx=cxx)
            times = [_prediction(kernel, product) for kernel in built.kernels] if predicted else []
            times = _with_cheaper(spec, times, product, cxx, tuple(roots or ()))
            return all_facts(built, previous / f"{spec.name}.json", times, product)

    with reported():
        kernels = [found for path in spec_files(specs) for found in one(path)]
        write_atomic(out, render_html(kernels))
    if as_json:
        say(json.dumps([to_json(k) for k in kernels], indent=2))
    else:
        for kernel in kernels:
            print_facts(kernel, Console())
        say(f"wrote {out}")
    if open_it:
        import webbrowser

        webbrowser.open(out.resolve().as_uri())


def _prediction(built: Build, product: str | None) -> Shown | None:
    """Predict a kernel's time for its report; return None, with a note, where no prediction can be made."""
    from tkgen.packages import install_line, needed_by
    from tkgen.report import prediction

    try:
        from tkgen.predict import PredictError

        try:
            return prediction(built, product)
        except PredictError as error:
            complain(f"note: no prediction for {built.spec.name}: {error}")
    except ModuleNotFoundError as error:
        extra = needed_by(error.name or "")
        if extra is None:
            raise
        complain(f"note: no prediction, which needs {error.name}: {install_line(extra)}")
    return None


def _with_cheaper(
    spec: AnySpec, times: Sequence[Shown | None], product: str | None, cxx: str | None, roots: tuple[Path, ...]
) -> list[Shown | None]:
    """The predictions with that of a cheaper form of each hot equation."""
    hot = [t.hot for t in times if t is not None and t.hot is not None]
    if not hot or len(hot) < len(times):
        return list(times)
    from tkgen.tune.cheaper import with_cheaper

    seconds = [t.seconds for t in times if t is not None]
    sizes = next(t.sizes for t in times if t is not None)
    found = with_cheaper(spec, hot, seconds, product, sizes, cxx, roots)
    return [t and replace(t, hot=h) for t, h in zip(times, found, strict=True)]


@commands.command("diff")
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
    with reported():
        for path in (before, after):
            if path is not None and path.suffix != ".json":
                refuse_early(path, define, roots)
    from dataclasses import asdict

    from rich.console import Console

    from tkgen.report import diff, render_diff, render_diff_html
    from tkgen.toolchain.files import write_atomic

    def side(path: Path) -> Build | Path:
        if path.suffix == ".json":
            return path
        return load_spec(path, define, target, roots).build(cxx=cxx)

    with reported():
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
            fail(str(error), USAGE)
        if html is not None:
            write_atomic(html, render_diff_html(change))
    if as_json:
        say(json.dumps(asdict(change), indent=2, default=str))
    else:
        render_diff(change, Console())


@commands.command()
def watch(
    spec: OneSpec,
    target: Target = None,
    define: Defines = None,
    out: Out = Path("out"),
    once: Annotated[bool, typer.Option("--once", help="Check, build and run the spec once, and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each save instead.")] = False,
    cxx: Cxx = None,
    roots: Roots = None,
) -> None:
    """Check, build and run a spec on the emulator whenever it or a file that it includes is saved."""
    import time

    from tkgen.backends.registry import backend_of
    from tkgen.build.outputs import DEFAULT_EMITS
    from tkgen.build.saves import Saves
    from tkgen.execute import rows as launches
    from tkgen.execute.given import Asked

    saves = Saves(spec, roots or ())

    def cycle() -> dict[str, object]:
        with reported():
            loaded = load_spec(spec, define, target, roots)
            backend = backend_of(loaded.target.name)
            built, _ = backend.produce(loaded, out, DEFAULT_EMITS, cxx=cxx, kittens=None, watch=True)
            if not as_json:
                say(built.line())
            show_diagnostics(built.diagnostics)
            small = launches.smallest(Asked(spec, target=target, roots=roots or ()), defines(define))
            rows = launches.run_spec(small, "emulator", 0, 1, 1, cxx)
            if not as_json:
                say(launches.tables(rows))
        code = OK if all(row.ok for row in rows) else WRONG
        return {"exit": code, "build": built.report(), "runs": [row.to_json() for row in rows]}

    seen: State | None = None
    while True:
        now = saves.state()
        if now != seen:
            seen = now
            if not as_json:
                say(f"--- {spec}")
            try:
                said = cycle()
            except Stop as stop:
                said = {"exit": stop.exit_code} | stop.said
            if as_json:
                say(json.dumps({"spec": str(spec)} | said))
            if once:
                raise typer.Exit(int(str(said["exit"])))
            if said["exit"] and not as_json:
                say(f"(exit code {said['exit']}; waiting for the next save)")
        time.sleep(0.3)


@commands.command()
def predict(
    spec: OneSpec,
    target: Target = None,
    define: Defines = None,
    product: Annotated[
        str | None, typer.Option(help="The GPU, such as MI300X or MI325X; by default the first of the target.")
    ] = None,
    compare: Annotated[Path | None, typer.Option(help="Another spec to compare with.")] = None,
    compare_define: Annotated[
        list[str] | None,
        typer.Option(
            "--compare-D", metavar="NAME=VALUE", help="The -D values of the second kernel; by default the same."
        ),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines/--no-lines", help="Show instructions, cycles and registers by line of the spec.")
    ] = True,
    edits: Annotated[
        bool, typer.Option("--edits", help="Try edits of the spec, one at a time, and predict the effect of each.")
    ] = False,
    apply: Annotated[
        str | None,
        typer.Option(metavar="EDIT", help="Write one of the edits that --edits lists to the spec, and stop."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="Write the work and waits of every wave to a file for Perfetto or chrome://tracing."),
    ] = None,
    cxx: Cxx = None,
    as_json: Json = False,
    roots: Roots = None,
) -> None:
    """Predict how long a kernel takes on a GPU, what limits it, and what would change that."""
    if apply is not None:
        with reported():
            done = _applied(spec, load_spec(spec, define, target, roots), apply, tuple(roots or ()))
        say(json.dumps({"spec": str(spec), "applied": done}) if as_json else f"{spec}: {done}")
        return
    places = [(spec, define)]
    if compare is not None or compare_define:
        places.append((compare or spec, compare_define or define))
    with reported():
        for path, values in places:
            refuse_early(path, values, roots)
    with working(f"reading {spec.name}"):  # seen before what predicts is imported
        from tkgen.execute.predicted import PredictionAsked
        from tkgen.predict import PredictError

    asked = [PredictionAsked(path, defines(values), target, roots or (), product) for path, values in places]
    with reported():
        try:
            alone = lines and len(asked) == 1
            (first, hot), *rest = (_predicted(a, trace if a is asked[0] else None, cxx, alone) for a in asked)
        except PredictError as error:
            fail(str(error), USAGE)
    tried = _tried(asked[0], first.seconds, cxx) if edits else None
    _say_predictions([first, *(p for p, _ in rest)], hot, tried, as_json)
    if as_json:
        return
    if tried is not None:
        from rich.console import Console

        from tkgen.tune.edits import render_edits

        render_edits(tried, spec, Console())
    if trace is not None:
        say(f"wrote {trace}")


def _predicted(
    asked: PredictionAsked, trace: Path | None, cxx: str | None, lines: bool
) -> tuple[Prediction, list[Hot]]:
    """The prediction of a spec and of its `lines`, if asked for, with progress shown on a terminal."""
    from tkgen.tune.cheaper import with_cheaper

    with working(f"checking {asked.path.name}"):
        subject = asked.checked()
        if subject.emulated:
            need_emulator()
    with working(f"predicting {subject.spec.name}"):
        found, hot = subject.predict(cxx, trace, lines)
        seconds = [k.seconds for k in found.kernels or (found,)]
        return found, with_cheaper(subject.spec, hot, seconds, asked.product, subject.extents, cxx, tuple(asked.roots))


def _say_predictions(
    found: Sequence[Prediction], hot: Sequence[Hot], tried: Sequence[Tried] | None, as_json: bool
) -> None:
    """Print a prediction and the lines of its kernels, or one beside another; `tried` is for JSON."""
    from rich.console import Console

    from tkgen.predict import Comparison, render_comparison, render_terminal, to_json
    from tkgen.report.hot import to_json as hot_json
    from tkgen.report.hot_text import render_hot

    first, *others = found
    both = Comparison(first, *others) if others else None
    if as_json:
        data = to_json(both or first)
        if hot:
            data["hot"] = [hot_json(lines) for lines in hot]
        say(json.dumps(data if tried is None else data | {"edits": [asdict(t) for t in tried]}, indent=2))
    elif both is not None:
        render_comparison(both, Console())
    else:
        render_terminal(first, Console())
        render_hot(hot, Console())
        if tried is None and first.what_if:
            say("--edits tries changes to the spec, one at a time")


def _tried(asked: PredictionAsked, seconds: float, cxx: str | None) -> tuple[Tried, ...]:
    """Predict the effect of each edit of a spec, with progress on a terminal."""
    from tkgen.tune.edits import try_edits
    from tkgen.tune.evaluate import editable

    with reported(), bar() as shown:
        task = shown.add_task("edits", total=None)
        subject = asked.checked()
        return try_edits(
            editable(subject.spec), seconds, asked.product, subject.extents, cxx=cxx, roots=tuple(asked.roots),
            jobs=os.cpu_count() or 1, progress=lambda done, total: shown.update(task, completed=done, total=total),
        )  # fmt: skip


def _applied(path: Path, spec: AnySpec, name: str, roots: Sequence[Path]) -> str:
    """Write the edit called `name` to the spec; its name."""
    from tkgen.edits import named, passes
    from tkgen.toolchain.files import write_atomic
    from tkgen.tune.evaluate import editable

    loaded = editable(spec)
    try:
        change = named(loaded, name, roots)
    except ValueError as error:
        fail(str(error), USAGE)
    if not passes(loaded, change.text, roots):
        fail(f"{path} with `{change.name}` does not pass the checks", WRONG)
    write_atomic(path, change.text)
    return change.name
