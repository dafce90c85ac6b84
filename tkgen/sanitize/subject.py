"""The subject of the referee: a code object, a C++ source to compile, or a spec that knows its own launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tkgen.backends.cdna import kittens as headers
from tkgen.backends.cdna.lower.origins import Origin
from tkgen.emulate import Arg, Buffer, CodeObject, Outcome, Struct
from tkgen.emulate import load as load_code
from tkgen.emulate.guest import Resident
from tkgen.emulate.places import Places
from tkgen.sanitize.arguments import Arguments, Output
from tkgen.source import SourceFile
from tkgen.targets import load_target
from tkgen.toolchain.checkout import STAND_INS, compile_with_checkout, with_host
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.compiler import Compiler, Location, ToolchainError
from tkgen.toolchain.discover import find_compiler

if TYPE_CHECKING:
    from torch import Tensor

    from tkgen.build.model import Build
    from tkgen.execute.compare import Reference
    from tkgen.ir.launch import Launch as KernelLaunch

Dim = tuple[int, int, int]

SOURCES: Final = (".cpp", ".hip", ".cu", ".cc", ".cxx", ".c++")
_CODE: Final = (b"\x7fELF", b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB")
_MAX_SOURCE: Final = 1 << 24
# Past the driver, which offers these to few targets; the code generator needs nothing of a target but a trap.
_BOUNDED: Final = ("-Xclang", "-fsanitize=array-bounds", "-Xclang", "-fsanitize-trap=array-bounds")


@dataclass(frozen=True)
class Launch:
    """The launch of a kernel: blocks, threads, dynamic LDS in bytes, and arguments."""

    grid: Dim
    block: Dim
    arguments: Arguments
    lds_bytes: int = 0
    kernel: str | None = None
    resident: Callable[[], Resident] | None = None  # memory that is there already, after the arguments were made
    cooperative: bool = False  # blocks may wait for one another


@dataclass(frozen=True)
class Subject:
    """A code object and how to speak of it. `files` holds sources by the names that its debug information gives them.

    `origin` finds the line of the spec, or of a file it includes, behind a line of the generated source; it is None
    where there is no spec. `bounded` compiles a source once more, so that an index outside of an array traps.
    """

    name: str
    code: CodeObject
    files: Mapping[str, SourceFile] = field(repr=False, default_factory=dict)
    folder: Path = Path()
    origin: Callable[[int], Origin | None] | None = field(repr=False, default=None)
    bounded: Callable[[], CodeObject | None] | None = field(repr=False, default=None)

    @cached_property
    def places(self) -> Places:
        """Its debug information."""
        return Places(self.code)

    def source(self, place: Location) -> SourceFile:
        """The file that a place stands in; one of blank lines where it cannot be read."""
        found = self.files.get(place.file)
        if found is None:
            path = Path(place.file)
            tried = [path] if path.is_absolute() else [path, self.folder / path]
            text = next((t for t in map(_text, tried) if t), None)
            found = SourceFile(place.file, text if text is not None else "\n" * (place.line - 1))
        return found


def is_code_object(path: Path) -> bool:
    """Return True if the file at `path` begins as an ELF file or an offload bundle does. Raises OSError."""
    with path.open("rb") as file:
        return file.read(32).startswith(_CODE)


def from_code_object(path: Path) -> Subject:
    """The code object in a file. Raises EmulateError."""
    return Subject(str(path), load_code(path), folder=path.parent)


def from_source(
    path: Path,
    target: str,
    *,
    kittens: Path | None = None,
    include_dirs: Sequence[Path] = (),
    defines: Mapping[str, str] | None = None,
    cxx: str | None = None,
) -> Subject:
    """A C++ file compiled for its device side, with the embedded headers or those of a ThunderKittens checkout.

    A checkout gets what it needs of HIP and of the standard library from the stand-ins, and where it does not compile
    with these, from an installed HIP if there is one. Headers are also looked for beside the file. Raises
    ToolchainError, UnknownTargetError, OSError.
    """
    text = path.read_bytes().decode("utf-8", "replace")
    gpu = load_target(target)
    own = [path.parent.resolve(), *include_dirs]
    embedded = headers.include_dir()
    compiler = find_compiler(gpu, cxx)

    def compiled(with_options: Compiler) -> CodeObject:
        if kittens is None:
            result = compile_device(
                with_host(text, path.name), gpu, with_options, include_dirs=[*own, STAND_INS, embedded],
                defines=defines, source_name=path.name, outputs=["hsaco"],
            )  # fmt: skip
        else:
            result = compile_with_checkout(
                text, gpu, with_options, kittens=kittens, headers=embedded, own=own, defines=defines,
                source_name=path.name, outputs=["hsaco"],
            )  # fmt: skip
        assert result.hsaco is not None
        return load_code(result.hsaco)

    def bounded() -> CodeObject | None:
        try:
            return compiled(replace(compiler, command=(*compiler.command, *_BOUNDED)))
        except ToolchainError:
            return None  # a compiler that cannot: the kernel itself was compiled

    files = {path.name: SourceFile(str(path), text)}
    return Subject(str(path), compiled(compiler), files, path.parent, bounded=bounded)


def from_spec(
    path: Path,
    target: str | None,
    *,
    kittens: Path | None = None,
    include_roots: Sequence[Path] = (),
    defines: Mapping[str, float | None] | None = None,
    cxx: str | None = None,
    seed: int = 0,
) -> tuple[tuple[Subject, Launch], ...]:
    """A spec, built, and the launch of its kernel, or of each of a sequence, with random inputs at the spec's sizes.

    A later kernel of a sequence gets what those before it are to compute. `defines` also sizes dynamic dimensions and
    gives scalars values.

    Raises SpecError, ToolchainError, UnknownTargetError, OSError, and ValueError for sizes the kernel cannot do.
    """
    from tkgen.execute.arguments import SizeError
    from tkgen.execute.compare import random_inputs, references
    from tkgen.execute.given import Asked, emulated
    from tkgen.execute.launch import check_memory
    from tkgen.ir.rounding import rounded

    found = Asked(path, defines or {}, target, include_roots).chosen()
    emulated(found.spec)
    build = found.spec.build(cxx=cxx, kittens=kittens, machine_check=False)  # the referee runs it
    launches = found.launch.launches
    for launch in launches:
        if not launch.blocks:
            none = " ".join(f"{name}=0" for name, size in launch.extents.items() if not size)
            raise SizeError(f"{none}: {launch.program.name} launches no kernel, so there is nothing to check")
        check_memory(launch)
    inputs = random_inputs(found.launch, seed)
    memory, subjects = dict(inputs), []
    for number, (one, launch) in enumerate(zip(build.kernels, launches, strict=True), 1):
        meant = references(found.launch.first(number), inputs, found.scalars)
        expected = {t.name: meant[t.name] for t in launch.program.outputs}
        subjects.append(_launched(path, one, launch, memory, found.scalars, expected))
        memory |= {t.name: rounded(meant[t.name][0], t.dtype) for t in launch.program.outputs}
    return tuple(subjects)


def _launched(
    path: Path,
    build: Build,
    launch: KernelLaunch[Any],
    memory: Mapping[str, Tensor],
    scalars: Mapping[str, float],
    expected: Mapping[str, Reference],
) -> tuple[Subject, Launch]:
    """A kernel, and its launch on what is in memory; what it must write is `expected`."""
    from tkgen.execute.arguments import packed
    from tkgen.execute.compare import compared, worst
    from tkgen.execute.launch import outputs
    from tkgen.sequence.program import covered

    spec, program = build.spec, launch.program
    kept = [t for t in program.outputs if t.name not in program.added]  # what an earlier kernel has written a part of
    inputs = {t.name: memory[t.name] for t in (*program.reads, *kept) if t.name in memory}
    stores = program.kernel.stores
    whole = {t.name for t in program.outputs if covered(t, [s for s in stores if s.target.tensor == t])}
    if program.kernel.ragged:
        whole = set()  # rows that are in no group are left as they are
    whole -= program.kernel.added  # of a tile to which no block adds zeros stay

    def make() -> Sequence[Arg]:
        buffers = {name: Buffer(tensor, name=name) for name, tensor in inputs.items()}
        for name, tensor in outputs(launch, inputs).items():
            buffers[name] = (Output if name in whole else Buffer)(tensor, name)
        return [packed(launch, buffers, scalars)]

    def check(outcome: Outcome, args: Sequence[Arg]) -> str:
        (argument,) = args
        assert isinstance(argument, Struct)
        found = {f.name: f.data for f in argument.fields if isinstance(f, Buffer)}
        types = launch.program.outputs
        c = worst(compared({name: found[name] for name in expected}, expected, types).values())
        return "" if c.right else str(c)

    generated = SourceFile(f"{spec.name}.cpp", spec.source.text)
    subject = Subject(str(path), load_code(build.hsaco), {generated.name: generated}, path.parent, spec.source.origin)
    return subject, Launch(launch.grid, launch.block, Arguments(make, check), kernel=build.resources.kernel)


def _text(path: Path) -> str | None:
    try:
        if path.is_file() and path.stat().st_size <= _MAX_SOURCE:
            return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        pass
    return None
