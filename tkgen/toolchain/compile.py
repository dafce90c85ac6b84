"""Compile HIP C++ to assembly and a linked code object, without ROCm, without a GPU and without a shell.

    >>> result = compile_device(source, load_target("gfx942"), compiler, include_dirs=[headers])
    >>> result.asm, result.hsaco

The front end and the optimiser run once, to assembly; the code object is assembled and linked from that text, which
takes a few hundredths of a second and makes sure that both are the same program.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tkgen.targets import Target
from tkgen.toolchain.cache import Cache, cache_key, hash_headers
from tkgen.toolchain.compiler import Compiler, CompilerMessage, Location, ToolchainError
from tkgen.toolchain.files import write_atomic
from tkgen.toolchain.hip import HIP_INSTALL, HipRuntime, hip_flags, knows_hip, python_flags
from tkgen.toolchain.metadata import read_resources
from tkgen.toolchain.process import TIMEOUT_EXIT, Completed, run_tool

Output = Literal["asm", "hsaco"]
"""What a compilation can leave: the assembly text, the linked code object."""


@dataclass(frozen=True)
class CompileResult:
    """The outputs that were asked for (the others None), the commands that made them, and any warnings.

    `cached` results ran no command and took no seconds.
    """

    asm: str | None
    hsaco: bytes | None
    warnings: str = ""
    commands: tuple[tuple[str, ...], ...] = ()
    seconds: float = 0.0
    cached: bool = False


@dataclass(frozen=True)
class Options:
    """Everything but the source that decides what a compilation gives.

    `include_dirs` are searched in order. `defines` maps names to values, "" for none. With `kittens`, the root of a
    real ThunderKittens checkout, its headers replace the embedded ones; they need `hip`, an installed HIP. `rest` is
    then searched last: it has what generated kernels need beside those headers.
    """

    include_dirs: tuple[Path, ...] = ()
    defines: tuple[tuple[str, str], ...] = ()
    kittens: Path | None = None
    rest: Path | None = None
    hip: HipRuntime | None = None
    debug_lines: bool = True


def device_flags(target: Target, options: Options) -> tuple[str, ...]:
    """The arguments that decide the generated code, in the order given to the compiler."""
    flags = ["-x", "hip", "--cuda-device-only", f"--offload-arch={target.name}", "-std=c++20", "-O3"]
    flags += ["--no-gpu-bundle-output", "-fno-color-diagnostics"]
    # Same source, same output, wherever the build runs: no random unit id, no absolute folders in the line tables.
    flags += ["-fuse-cuid=none", "-fdebug-compilation-dir=."]
    # LDS is the kernel's: no array that is indexed at run time is put there beside its tiles, uncounted.
    flags += ["-mllvm", "-disable-promote-alloca-to-lds"]
    if options.debug_lines:
        # Without the second one an instruction that has no line takes that of the one before it.
        flags += ["-gline-tables-only", "-mllvm", "-use-unknown-locations=Enable"]
    if options.kittens is None:
        flags += ["-nogpuinc", "-nogpulib", "-nostdinc", "-nostdinc++", "-DKITTENS_DEVICE_ONLY"]
        flags.append(f"-D{target.kittens_define}")
    else:
        flags += kittens_flags(options.kittens, target)
    flags += [f"-I{directory}" for directory in options.include_dirs]
    flags += [f"-ffile-prefix-map={directory}=include" for directory in options.include_dirs]
    flags += ["-idirafter", str(options.rest)] if options.rest is not None else []
    flags += [f"-D{name}={value}" if value else f"-D{name}" for name, value in options.defines]
    return tuple(flags)


def kittens_flags(kittens: Path, target: Target) -> tuple[str, ...]:
    """Arguments that put a real ThunderKittens checkout in front; its own warnings are none of ours."""
    return (f"-D{target.kittens_define}", "-isystem", str(kittens / "include"))


def compile_device(
    source: Path | str,
    target: Target,
    compiler: Compiler,
    *,
    include_dirs: Sequence[Path] = (),
    outputs: Collection[Output] = ("asm", "hsaco"),
    defines: Mapping[str, str] | None = None,
    kittens: Path | None = None,
    rest: Path | None = None,
    hip: HipRuntime | None = None,
    debug_lines: bool = True,
    source_name: str = "kernel.cpp",
    timeout: float = 300.0,
    log: Path | None = None,
    cache: Cache | None = None,
) -> CompileResult:
    """Compile the device side of `source`, a file or its text, for `target`.

    Headers are looked for in `include_dirs` alone, not beside the source. `timeout` is in seconds for each command.
    With `cache`, a result of the same source, headers, options and compiler is taken from there.
    Raises ToolchainError where the compiler or linker fails, with the first error's place in the source; all they
    printed is then also written to `log`, if given. Nothing else is written.
    """
    options = Options(
        tuple(path.resolve() for path in include_dirs),
        tuple((defines or {}).items()),
        kittens.resolve() if kittens else None,
        rest.resolve() if rest else None,
        hip,
        debug_lines,
    )
    _check(options, compiler)
    if isinstance(source, Path):
        source_name, text = source.name, _read_source(source)
    else:
        text = source.encode("utf-8")
    key = ""
    if cache is not None:
        key = cache_key(text, source_name, *sorted(outputs), *_key_parts(target, compiler, options))
        entry = cache.get(key)
        if entry is not None and (kept := _kept(entry, outputs)) is not None:
            return kept
    result = _compile(text, source_name, target, compiler, options, outputs, timeout, log)
    if cache is not None:
        entry = {"warnings": result.warnings.encode("utf-8")}
        if result.asm is not None:
            entry["asm"] = result.asm.encode("utf-8")
        if result.hsaco is not None:
            entry["hsaco"] = result.hsaco
        cache.put(key, entry)
    return result


def _kept(entry: Mapping[str, bytes], outputs: Collection[Output]) -> CompileResult | None:
    """The result that a cache entry holds; None where it holds something else."""
    if entry.keys() != {"warnings", *outputs}:
        return None
    try:
        if "hsaco" in entry:
            read_resources(entry["hsaco"])
        asm = entry["asm"].decode("utf-8") if "asm" in entry else None
        return CompileResult(asm, entry.get("hsaco"), entry["warnings"].decode("utf-8"), cached=True)
    except (ToolchainError, UnicodeDecodeError):
        return None


def _compile(
    text: bytes,
    name: str,
    target: Target,
    compiler: Compiler,
    options: Options,
    outputs: Collection[Output],
    timeout: float,
    log: Path | None,
) -> CompileResult:
    with tempfile.TemporaryDirectory(prefix="tkgen-") as folder:
        work = Path(folder)
        # A source under a name of our own: nothing in the user's file names can look like an option or a folder.
        (work / "in.cpp").write_bytes(text)
        flags = (*device_flags(target, options), f"-ffile-prefix-map=in.cpp={name}")
        if options.kittens is not None and options.hip is not None:
            flags += (*hip_flags(options.hip, compiler, target), *python_flags())
        commands = [(*compiler.command, *flags, "-S", "-o", "out.s", "in.cpp")]
        if "hsaco" in outputs:
            commands += assemble_commands(compiler, target)
        done = [run_step(command, work, timeout, name, log) for command in commands]
        asm = read_output(work / "out.s", done[0].command).decode("utf-8", errors="replace")
        hsaco = read_output(work / "out.hsaco", done[-1].command) if "hsaco" in outputs else None
    return CompileResult(
        asm if "asm" in outputs else None,
        hsaco,
        "".join(step.stderr for step in done).replace("in.cpp", name),
        tuple(step.command for step in done),
        sum(step.seconds for step in done),
    )


def _key_parts(target: Target, compiler: Compiler, options: Options) -> tuple[str, ...]:
    """Return everything beside the source that decides a result. Folders count by content:
    their names do not matter.
    """
    folders = (*options.include_dirs, *([options.kittens / "include"] if options.kittens else ()))
    folders += (options.rest,) if options.rest else ()
    elsewhere = replace(options, include_dirs=(), kittens=Path() if options.kittens else None, rest=None)
    hip = options.hip.identity if options.hip else ""
    commands = (device_flags(target, elsewhere), *assemble_commands(compiler, target))
    return (compiler.identity, *("\0".join(command) for command in commands), hash_headers(folders), hip)


def assemble_commands(compiler: Compiler, target: Target) -> tuple[tuple[str, ...], ...]:
    """The commands that make out.hsaco of out.s in the current folder."""
    assemble = (*compiler.assembler, "--target=amdgcn-amd-amdhsa", f"-mcpu={target.name}", "-x", "assembler", "out.s")
    if compiler.linker is None:
        return ((*assemble, "-o", "out.hsaco"),)
    return (
        (*assemble, "-c", "-o", "out.o"),
        (*compiler.linker, "-shared", "--no-undefined", "-o", "out.hsaco", "out.o"),
    )


def parse_messages(output: str, source_name: str) -> tuple[CompilerMessage, ...]:
    """The errors in what clang or lld printed; `source_name` is the generated file that origins are looked for in."""
    groups: list[list[str]] = []
    for line in output.splitlines():
        if _ERROR.match(line) or _TOOL_ERROR.match(line):
            groups.append([line])
        elif groups:
            groups[-1].append(line)
    return tuple(_message(group, source_name) for group in groups)


_ERROR = re.compile(r"(?P<file>[^\s:][^:]*):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<text>.*)")
_TOOL_ERROR = re.compile(r"(?:[\w./+-]+: )?(?:fatal )?error: (?P<text>.*)")
_PLACE = re.compile(r"(?:>>> referenced by )?(?P<file>[^\s:>][^:]*):(?P<line>\d+)(?::(?P<column>\d+))?\b")


def _message(lines: list[str], source_name: str) -> CompilerMessage:
    first = _ERROR.match(lines[0])
    location = None
    if first:
        location = Location(first["file"], int(first["line"]), int(first["column"]))
        text = first["text"]
    else:
        match = _TOOL_ERROR.match(lines[0])
        text = match["text"] if match else lines[0]
    places = (_PLACE.match(line) for line in lines)
    found = (Location(p["file"], int(p["line"]), int(p["column"] or 0)) for p in places if p)
    origin = next((place for place in found if Path(place.file).name == source_name), None)
    return CompilerMessage(text, location, origin)


def run_step(command: tuple[str, ...], work: Path, timeout: float, name: str, log: Path | None) -> Completed:
    """Run one compiler command in `work` on in.cpp, which messages call `name`. ToolchainError where it fails."""
    step = run_tool(command, cwd=work, timeout=timeout)
    if step.ok:
        return step
    # clang prints the name it was given, not the mapped one.
    output = re.sub(r"(?<![\w./-])(?:\./)?in\.cpp(?=:\d)", lambda _: name, step.stderr + step.stdout)
    errors = parse_messages(output, name)
    if log is not None:
        write_atomic(log, f"$ {shlex.join(command)}\n{output}\nexit status {step.status}\n")
    if errors:
        where = f"{errors[0].origin or errors[0].location}: " if errors[0].origin or errors[0].location else ""
        message = f"{where}{errors[0].text}"
    elif step.status == TIMEOUT_EXIT:
        message = f"{command[0]} did not end within {timeout:g} s"
    else:
        message = next((line for line in output.splitlines() if line.strip()), f"{command[0]} failed")
        message = f"{command[0]} ended with status {step.status}: {message.strip()}"
    raise ToolchainError(message, errors=errors, output=output, command=command, log=log)


def read_output(path: Path, command: tuple[str, ...]) -> bytes:
    """Return the output of a command. Raises ToolchainError if it ended well and wrote nothing."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ToolchainError(f"{command[0]} ended well but left no {path.suffix} file", command=command) from error


def _read_source(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ToolchainError(f"cannot read {path}: {error.strerror}") from error


def _check(options: Options, compiler: Compiler) -> None:
    for directory in options.include_dirs:
        if not directory.is_dir():
            raise ToolchainError(f"no folder of headers: {directory}")
    if options.kittens is not None and not (options.kittens / "include/kittens.cuh").is_file():
        raise ToolchainError(f"not a ThunderKittens checkout, include/kittens.cuh is missing: {options.kittens}")
    if options.kittens is not None and options.hip is None and not knows_hip(compiler):
        raise ToolchainError(f"a real ThunderKittens checkout needs an installed HIP: {HIP_INSTALL}")
    for name, value in options.defines:
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or "\n" in value or "\0" in value:
            raise ToolchainError(f"not a macro that can be defined: {name}={value}")
