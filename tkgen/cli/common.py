"""The common parts of commands: options, printing, errors as exit codes, the work on several specs."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Self

import typer
from typer.core import TyperGroup

from tkgen.packages import install_line, needed_by

if TYPE_CHECKING:
    from rich.progress import Progress

    from tkgen.backends.protocol import Spec as AnySpec
    from tkgen.diagnostics import Diagnostic

LONG = 20  # seconds of work from which on an estimate is said
MANY = 1000  # blocks of a launch that takes minutes
OK, WRONG, USAGE, TOOLCHAIN, TOO_EARLY, INTERRUPTED = 0, 1, 2, 3, 4, 130


class Format(StrEnum):
    """The format in which diagnostics are printed."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


Specs = Annotated[list[Path], typer.Argument(help="Spec files (.tk); a directory means all specs in it.")]
STANDARD_INPUT = Path("-")
OneSpec = Annotated[Path, typer.Argument(help="A spec file (.tk).")]


def _known(target: str | None) -> str | None:
    """The target of `-t`. Ends the command where there is none of that name, before anything heavy is imported."""
    if target is None:
        return None
    from tkgen.targets.facts import target_files

    if target not in target_files():
        from tkgen.targets.model import UnknownTargetError, load_target

        try:
            load_target(target)
        except UnknownTargetError as error:
            fail(str(error), USAGE)
    return target


Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        "-t",
        help="A GPU, such as gfx942 or sm_90a; by default the first one that the spec names, else gfx942.",
        callback=_known,
    ),
]
Defines = Annotated[
    list[str] | None,
    typer.Option(
        "-D", metavar="NAME=VALUE", help="Give a dimension or parameter a value; `dynamic` for a run-time size."
    ),
]
Roots = Annotated[list[Path] | None, typer.Option("--include-root", "-I", help="Folders that `include` may reach.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Cxx = Annotated[str | None, typer.Option("--cxx", help="The compiler to use (also TKGEN_CXX).")]
Jobs = Annotated[
    int | None,
    typer.Option("-j", "--jobs", min=1, help="Specs that are processed in parallel; by default one per core."),
]
Blocks = Annotated[
    str, typer.Option("--blocks", metavar="0,8..11", help="Run only these blocks of the launch, at full size.")
]
Seed = Annotated[int, typer.Option(min=0, max=(1 << 32) - 1, help="Seed of the random numbers.")]
Out = Annotated[Path, typer.Option("-o", "--out", help="Folder for the outputs.")]


def defines(values: Sequence[str] | None) -> dict[str, int | None]:
    """`NAME=VALUE` options as a mapping; one may have several, separated by spaces or commas."""
    result: dict[str, int | None] = {}
    for name, value in launch_defines(values).items():
        if isinstance(value, float):
            raise typer.BadParameter(f"-D takes NAME=INTEGER or NAME=dynamic, not `{name}={value}`")
        result[name] = value
    return result


def launch_defines(values: Sequence[str] | None) -> dict[str, int | float | None]:
    """The same where there is a launch, which also takes the values of scalars."""
    from tkgen.api import define_value

    result: dict[str, int | float | None] = {}
    for word in define_words(values):
        name, _, number = word.partition("=")
        try:
            result[name] = define_value(number)
        except ValueError:
            raise typer.BadParameter(f"-D takes NAME=NUMBER or NAME=dynamic, not `{word}`") from None
    return result


def define_words(values: Sequence[str] | None) -> list[str]:
    """The `NAME=VALUE` words of `-D` options, which spaces or commas separate."""
    return [word for value in values or () for word in value.replace(",", " ").split()]


def macros(values: Sequence[str] | None) -> dict[str, str]:
    """Return the macros that `-D` defines where a source is compiled: any text, or none."""
    return dict(word.partition("=")[::2] for value in values or () for word in value.split())


def spec_files(paths: Iterable[Path]) -> list[Path]:
    """The spec files that `paths` name."""
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob("*.tk")) if path.is_dir() else [path]
        if not found:
            raise typer.BadParameter(f"no .tk files in {path}")
        files += found
    return files


def standard_input() -> str:
    """The spec on standard input. Raises SpecError (E100) where that cannot be the text of a spec."""
    from tkgen.syntax.loader import MAX_BYTES, decode

    return decode(sys.stdin.buffer.read(MAX_BYTES + 1), str(STANDARD_INPUT)).text


def say(text: str = "") -> None:
    """Print a result."""
    typer.echo(text)


def fitted(text: str, indent: str = "  ") -> str:
    """Text for standard output: on a terminal, lines that are too long are broken between words and indented."""
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(_broken(line, width, indent) for line in text.splitlines())


def _broken(line: str, width: int, indent: str) -> str:
    if len(line) <= width:
        return line
    return textwrap.fill(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, replace_whitespace=False,
        drop_whitespace=True,
    )  # fmt: skip


def complain(text: str) -> None:
    """Print to standard error."""
    typer.echo(text, err=True)


def _colour() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ


def show_diagnostics(diagnostics: Iterable[Diagnostic], how: Format = Format.TEXT) -> None:
    """Print diagnostics: text to standard error, machine formats to standard output."""
    from tkgen.diagnostics import machine
    from tkgen.diagnostics.render import render_text

    found = list(diagnostics)
    if how is Format.TEXT:
        if found:
            complain(render_text(found, color=_colour()).rstrip("\n"))
        return
    renderers = {
        Format.JSON: machine.render_json,
        Format.SARIF: machine.render_sarif,
        Format.GITHUB: machine.render_github,
    }
    say(renderers[how](found).rstrip("\n"))


class Stop(typer.Exit):
    """The end of a command on an error, whose text has been printed; `said` is the error as plain data."""

    def __init__(self, code: int, message: str, diagnostics: Iterable[Diagnostic] = ()) -> None:
        from tkgen.diagnostics.machine import to_json

        super().__init__(code)
        if code == INTERRUPTED:
            exec("")  # Python ends by the signal that interrupted an `exec`, as imports have it, until the next one
        self.said: dict[str, object] = {"error": message, "diagnostics": [to_json(d) for d in diagnostics]}


@contextmanager
def reported() -> Iterator[None]:
    """Turn the errors of the library into messages and exit codes."""
    from tkgen.diagnostics import SpecError

    try:
        yield
    except SpecError as error:
        show_diagnostics(error.diagnostics)
        raise Stop(WRONG, "the spec is wrong", error.diagnostics) from None
    except OSError as error:
        fail(f"{error.strerror}: {error.filename}" if error.filename else str(error), USAGE)
    except Exception as error:
        from tkgen.targets.model import UnknownTargetError
        from tkgen.toolchain.compiler import ToolchainError

        if isinstance(error, UnknownTargetError):
            fail(str(error), USAGE)
        if isinstance(error, ToolchainError):
            log = f"\n  the compiler's output is in {error.log}" if error.log else ""
            fail(f"{error.message}{log}", TOOLCHAIN)
        raise


def fail(message: str, code: int) -> NoReturn:
    """End the command with an error."""
    complain(f"error: {message}")
    raise Stop(code, message) from None


# What a wrong command line raises; typer shows its children only.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class Commands(TyperGroup):
    """All commands, from which no error gets away: each is a message and, where JSON was asked for, JSON."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> Any:
        """Parse the words before the command's name."""
        self.as_json = wants_json(args)
        with self.told():
            return super().make_context(info_name, args, *more, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Parse the rest and run the command."""
        with self.told():
            return super().invoke(ctx)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Errors on their way out, said as JSON on standard output too; a package that is missing, an interrupt."""
        try:
            try:
                yield
            except ModuleNotFoundError as error:
                extra = needed_by(error.name or "")
                if extra is None:
                    raise
                fail(f"this command needs {error.name}, which is not installed: {install_line(extra)}", TOOLCHAIN)
            except KeyboardInterrupt:
                complain("interrupted")
                raise Stop(INTERRUPTED, "interrupted") from None
        except Stop as stop:
            if self.as_json:
                say(json.dumps(stop.said, indent=2))
            raise
        except UsageError as error:
            # Typer would import rich for a frame around the message, which takes longer than all the rest.
            error.show()  # type: ignore[attr-defined]
            wrong = Stop(USAGE, _sentence(error))
            if self.as_json:
                say(json.dumps(wrong.said, indent=2))
            raise wrong from None


def _sentence(error: Exception) -> str:
    """The message of a wrong command line."""
    return str(getattr(error, "format_message", error.__str__)())


def wants_json(args: Sequence[str]) -> bool:
    """Return True if a command line asks for JSON."""
    words = list(args)[: list(args).index("--")] if "--" in args else list(args)
    return "--json" in words or "--format=json" in words or ("--format", "json") in pairwise(words)


def load_spec(
    path: Path,
    define: Sequence[str] | None,
    target: str | None,
    roots: Sequence[Path] | None,
    text: str | None = None,
) -> AnySpec:
    """The spec of a file, or of a text in its place, with what the options give."""
    if text is None:
        refuse_early(path, define, roots)
    from tkgen.api import load

    return load(path, defines(define), target, roots or (), text)


def findings(
    path: Path,
    define: Sequence[str] | None,
    target: str | None,
    roots: Sequence[Path] | None,
    text: str | None = None,
) -> list[Diagnostic]:
    """Everything there is to say about a spec, whether it can be loaded or not."""
    from tkgen.diagnostics import Severity, SpecError

    def found(given: str | None) -> list[Diagnostic]:
        try:
            return list(load_spec(path, define, target, roots, given).diagnostics)
        except SpecError as error:
            return error.diagnostics

    with reported():
        errors = found(text)
        if not any(d.severity is Severity.ERROR for d in errors):
            return errors
        from tkgen.diagnostics.later import with_later

        files = (d.primary.span.file for d in errors if d.primary)
        file = next((f for f in files if f.name == str(path)), None)
        return with_later(errors, file.text, found) if file else errors


def refuse_early(path: Path, define: Sequence[str] | None = None, roots: Sequence[Path] | None = None) -> None:
    """Raise SpecError for a spec that cannot be parsed, or has no name that a `-D` option gives a value.

    It imports the parser alone. Commands call it before they import torch and the checks, so a mistyped path or name
    is reported at once.
    """
    from tkgen.diagnostics import refuse
    from tkgen.syntax.loader import read_source

    read_source(path, str(path))  # a missing file needs no parser
    from tkgen.syntax import ast, statements
    from tkgen.syntax.parser import UnreadError, parse_spec, unknown_defines

    try:
        found = parse_spec(path, roots or ())
    except UnreadError as error:
        if error.rest is None:
            raise
        return  # the stages say what is wrong with the other statements, too
    if isinstance(found, ast.Kernel):
        scalars = {s.name.id for s in statements.flatten(found.body) if isinstance(s, ast.Scalar)}
        names = [word.partition("=")[0] for word in define_words(define)]
        refuse(unknown_defines(found, (name for name in names if name not in scalars)))


def need_emulator() -> None:
    """Make sure that the emulator can run here."""
    from tkgen.emulate import EmulateError, native

    try:
        native.core()
    except EmulateError as error:
        fail(str(error), TOOLCHAIN)


def each(
    work: Callable[[Path], tuple[list[object], list[str]]],
    paths: list[Path],
    jobs: int | None,
    what: str,
    as_json: bool,
) -> tuple[list[object], int]:
    """`work` on every path, `jobs` at a time, with progress on a terminal: all results, and the worst exit code.

    `work` gives results and lines to say, which are said in the order of the paths. Where a path stops with an error,
    the error is in the results.
    """
    from concurrent.futures import ThreadPoolExecutor

    def guarded(path: Path) -> tuple[list[object], list[str], int]:
        try:
            return *work(path), OK
        except Stop as stop:
            return [{"spec": str(path)} | stop.said], [], stop.exit_code

    jobs = min(jobs or os.cpu_count() or 1, max(len(paths), 1))

    results, worst = [], OK
    with bar(len(paths) > 1) as progress:
        task = progress.add_task(what, total=len(paths))
        with ThreadPoolExecutor(jobs) as pool:
            try:
                # One at a time stays on the main thread, where an interrupt arrives.
                for found, lines, code in map(guarded, paths) if jobs == 1 else pool.map(guarded, paths):
                    results += found
                    if lines and not as_json:
                        progress.stop()  # the bar is gone while results are written
                        for line in lines:
                            say(fitted(line))
                        progress.start()
                    worst = max(worst, code)
                    progress.advance(task)
            except KeyboardInterrupt:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    return results, worst


def block_ids(text: str) -> list[int] | None:
    """The numbers of a `--blocks` option; None where it is not given."""
    from tkgen.sanitize import ArgumentError
    from tkgen.sanitize import block_ids as parse

    try:
        return parse(text)
    except ArgumentError as error:
        fail(str(error), USAGE)


class Unseen:
    """The methods of a progress bar that commands call, none of which does anything."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def add_task(self, *_: object, **__: object) -> Any:
        """The number of a task."""
        return 0

    def update(self, *_: object, **__: object) -> None:
        """As `Progress` has it."""

    start = stop = advance = update


def bar(wanted: bool = True) -> Progress | Unseen:
    """A bar for standard error that is seen on a terminal alone, and leaves standard output to the results.

    Without a terminal `rich` is not imported, whose import takes longer than an error should.
    """
    if not wanted or not (sys.stderr.isatty() or "FORCE_COLOR" in os.environ):
        return Unseen()
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, redirect_stdout=False, redirect_stderr=False,
        disable=not console.is_terminal,
    )  # fmt: skip


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say on a terminal what is being done, until it is done."""
    with bar() as progress:
        progress.add_task(what, total=None)
        yield


@contextmanager
def emulating(what: str, wanted: bool = True, quicker: str = "") -> Iterator[Callable[[int, int], None]]:
    """Report the progress of long emulation on standard error: blocks, an estimate of the time, a bar on a terminal.

    Yields a function that takes the number of finished blocks, and of all blocks. `wanted`: no other bar is shown.
    `quicker` says what takes less time.
    """
    hint = f"; {quicker}" if quicker else ""
    first: list[tuple[float, int]] = []
    estimated = False

    def line(text: str) -> None:
        progress.stop()
        complain(text)
        progress.start()

    with bar(wanted) as progress:
        task = progress.add_task(what, total=None)

        def told(done: int, total: int) -> None:
            nonlocal estimated
            progress.update(task, completed=done, total=total)
            if not done:
                if total >= MANY:
                    line(f"{what}: {total} blocks{hint}")
            elif done == total:
                if estimated:
                    line(f"{what}: all blocks are done, now the reference is computed")
            elif not first:
                first.append((time.monotonic(), done))
            elif not estimated and done > first[0][1]:
                seconds = (time.monotonic() - first[0][0]) / (done - first[0][1]) * (total - done)
                if estimated := seconds > LONG:
                    line(f"{what}: about {duration(seconds)} for its blocks{hint if total < MANY else ''}")

        yield told


def duration(seconds: float) -> str:
    """A time to wait, in a unit that suits it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"
