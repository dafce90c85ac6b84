"""A compiler as a value, and the error that every stage of the toolchain raises."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class CompilerKind(Enum):
    """The origin of a compiler, which decides its command line. HIPCC is the clang that hipcc runs."""

    HIPCC = "hipcc"
    ROCM_CLANG = "ROCm clang"
    CLANG = "clang"
    ZIGLANG = "ziglang"


@dataclass(frozen=True)
class Compiler:
    """A compiler that was found, with all it takes to use it. Commands are argument lists, ready for arguments.

    `command` compiles HIP. `assembler` is the clang that turns assembly into an object and `linker` the ld.lld that
    links it; where that is None the assembler's driver links, which takes two processes more. `objdump` disassembles;
    None where the kind has none (the assembly it emits serves instead).
    `fingerprint` changes when the compiler on the disk does.
    """

    kind: CompilerKind
    command: tuple[str, ...]
    version: str
    assembler: tuple[str, ...]
    linker: tuple[str, ...] | None = None
    objdump: tuple[str, ...] | None = None
    fingerprint: str = ""

    @property
    def identity(self) -> str:
        """The part of a cache key that stands for the compiler: its kind, path, version and state on the disk."""
        return "\0".join((self.kind.value, *self.command, self.version, self.fingerprint))

    def __str__(self) -> str:
        return f"{' '.join(self.command)} ({self.version})"


@dataclass(frozen=True)
class Missing:
    """Something that is not installed, and the command that adds it."""

    what: str
    install: str


@dataclass(frozen=True)
class Location:
    """A place in a C++ file, 1-based; column 0 where only the line is known."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}:{self.line}"


@dataclass(frozen=True)
class CompilerMessage:
    """One error of a compiler or linker.

    `location` is where the compiler points. `origin` is the place in the generated source that led there (the same, or
    the line that used a header's template or an undefined function); None where the message names none.
    """

    text: str
    location: Location | None
    origin: Location | None


class ToolchainError(Exception):
    """A compiler, linker or code object did not do what was asked.

    `message` is one sentence. `errors` are the compiler's own, parsed; `output` is all it printed, also kept in the
    file `log` where the caller asked for that.
    """

    def __init__(
        self,
        message: str,
        *,
        errors: tuple[CompilerMessage, ...] = (),
        output: str = "",
        command: tuple[str, ...] = (),
        log: Path | None = None,
    ):
        super().__init__(message)
        self.message = message
        self.errors = errors
        self.output = output
        self.command = command
        self.log = log

    @property
    def origin(self) -> Location | None:
        """The line of the generated source where the first error comes from, to be mapped to the spec's line."""
        return next((e.origin for e in self.errors if e.origin), None)


class NoCompilerError(ToolchainError):
    """No compiler with an AMDGPU backend works here; the message says what was tried and what to install."""
