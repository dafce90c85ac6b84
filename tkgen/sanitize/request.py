"""The options of `tkgen sanitize` as a subject and its launch: what the kind of file needs, and what is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tkgen.emulate import Arg, Kernel
from tkgen.sanitize import triton
from tkgen.sanitize.arguments import ArgumentError, Arguments, from_file, lines_of, parse
from tkgen.sanitize.subject import (
    SOURCES,
    Dim,
    Launch,
    Subject,
    from_code_object,
    from_source,
    from_spec,
    is_code_object,
)

_UNITS = {"--grid": "the blocks to launch", "--block": "the threads of a block"}


@dataclass(frozen=True)
class Request:
    """The user's options; empty where an option was not given."""

    path: Path
    grid: str = ""
    block: str = ""
    lds_bytes: int | None = None
    kernel: str | None = None
    arguments: Sequence[str] = ()
    arguments_from: str = ""
    target: str | None = None
    defines: Mapping[str, str] | None = None
    include_dirs: Sequence[Path] = ()
    kittens: Path | None = None
    cxx: str | None = None
    seed: int = 0
    arguments_file: Path | None = None  # the first of the arguments, line by line


def prepare(request: Request) -> tuple[tuple[Subject, Launch], ...]:
    """Read or compile the file and make its launch; of a spec that is a sequence the launch of each kernel.

    Raises ArgumentError for options that are missing or wrong, SpecError, ToolchainError, EmulateError and OSError for
    files that are.
    """
    path = request.path
    if path.suffix == ".tk":
        return _spec(request)
    code = is_code_object(path)
    if not code and path.suffix not in SOURCES:
        raise ArgumentError(f"{path} is not an ELF file, and its name does not end in .tk, {', '.join(SOURCES)}")
    given = _arguments(request)  # before the compiler is called
    grid = _extents("--grid", request.grid)
    compiled = triton.beside(path) if code else None
    block = _block(request, compiled)
    lds = request.lds_bytes or 0
    if code:
        subject = from_code_object(path)
        if compiled:
            subject = replace(subject, code=triton.named(subject.code, compiled))
        if request.target is not None and request.target != subject.code.target:
            raise ArgumentError(f"{path} is compiled for {subject.code.target}, not for {request.target}")
    else:
        subject = from_source(
            path,
            request.target or "gfx942",
            kittens=request.kittens,
            include_dirs=request.include_dirs,
            defines=request.defines,
            cxx=request.cxx,
        )
    kernel = subject.code.kernel(request.kernel)
    if compiled and request.lds_bytes is None:
        lds = max(compiled.lds_bytes - kernel.descriptor.group_bytes, 0)
    wanted = kernel.explicit_arguments
    if given is None and wanted:
        listed = ", ".join(f"{a.name} ({a.size} bytes{' by value' if a.kind == 'by_value' else ''})" for a in wanted)
        how = "give each with --arg, or all with --args or --args-from"
        raise ArgumentError(f"{kernel.name} takes arguments: {listed}; {how}")
    fitting = _fitting(given or Arguments(list), kernel, compiled)
    return ((subject, Launch(grid, block, fitting, lds, kernel.name)),)


def _spec(request: Request) -> tuple[tuple[Subject, Launch], ...]:
    if request.arguments or request.arguments_from or request.arguments_file or request.kernel:
        raise ArgumentError("tkgen chooses the arguments of a spec: remove --arg, --args, --args-from and --kernel")
    from tkgen.api import define_value

    numbers: dict[str, float | None] = {}
    for name, value in (request.defines or {}).items():
        try:
            numbers[name] = define_value(value)
        except ValueError:
            message = "a spec's dimensions and parameters are integers or `dynamic`, its scalars numbers"
            raise ArgumentError(f"-D {name}={value}: {message}") from None
    try:
        found = from_spec(
            request.path,
            request.target,
            kittens=request.kittens,
            include_roots=request.include_dirs,
            defines=numbers,
            cxx=request.cxx,
            seed=request.seed,
        )
    except ValueError as error:
        raise ArgumentError(str(error)) from error
    return tuple((subject, _changed(launch, request)) for subject, launch in found)


def _changed(launch: Launch, request: Request) -> Launch:
    """A spec's launch with what the options say in its place."""
    if request.grid:
        launch = replace(launch, grid=_extents("--grid", request.grid))
    if request.block:
        launch = replace(launch, block=_extents("--block", request.block))
    if request.lds_bytes is not None:
        launch = replace(launch, lds_bytes=request.lds_bytes)
    return launch


def _arguments(request: Request) -> Arguments | None:
    if (request.arguments or request.arguments_file) and request.arguments_from:
        raise ArgumentError("use either --arg and --args, or --args-from")
    if request.arguments_from:
        return from_file(request.arguments_from)
    texts = [*(lines_of(request.arguments_file) if request.arguments_file else ()), *request.arguments]
    return parse(texts, request.seed) if texts else None


def _fitting(given: Arguments, kernel: Kernel, compiled: triton.Compiled | None) -> Arguments:
    """The arguments as the kernel takes them. Raises ArgumentError where it cannot."""

    def fit(args: Sequence[Arg]) -> Sequence[Arg]:
        return triton.fitted(args, kernel, compiled)

    fit(given.make())
    drawn = given.drawn
    return replace(given, make=lambda: fit(given.make()), drawn=(lambda seed: fit(drawn(seed))) if drawn else None)


def _block(request: Request, compiled: triton.Compiled | None) -> Dim:
    """The threads of a block, as Triton compiled for them where nothing is said."""
    if compiled is None:
        return _extents("--block", request.block)
    if not request.block:
        return compiled.threads, 1, 1
    said = _extents("--block", request.block)
    if said[0] * said[1] * said[2] != compiled.threads:
        raise ArgumentError(f"--block {request.block}: Triton compiled this code for {compiled.threads} threads")
    return said


def _extents(option: str, text: str) -> Dim:
    """`X`, `X,Y` or `X,Y,Z`, also with x between."""
    if not text:
        raise ArgumentError(f"{option} is missing, {_UNITS[option]}: X, X,Y or X,Y,Z")
    if not re.fullmatch(r"\d{1,10}([,x]\d{1,10}){0,2}", text):
        raise ArgumentError(f"{option} {text}: it is X, X,Y or X,Y,Z")
    numbers = [int(n) for n in re.split("[,x]", text)]
    x, y, z = numbers + [1] * (3 - len(numbers))
    return x, y, z


def block_ids(text: str) -> list[int] | None:
    """Linear block ids: `0,3,8..11`; None for all. Raises ArgumentError."""
    if not text:
        return None
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:\.\.(\d{1,9}))?", part)
        if match is None or int(match[2] or match[1]) - int(match[1]) not in range(1 << 20):
            raise ArgumentError(f"--blocks {text}: it is a list of linear block ids, such as 0,3,8..11")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return list(dict.fromkeys(found))
