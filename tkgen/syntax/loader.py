"""Spec files from disk: reading them as text, and finding what `include` names without leaving the given roots."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tkgen.diagnostics import Diagnostic, Label, SpecError
from tkgen.source import SourceFile, Span

MAX_BYTES = 1 << 20


class IncludeError(Exception):
    """An include that cannot be followed; the message says why."""


def read_source(path: Path, name: str | None = None) -> SourceFile:
    """The file at `path` as text, called `name` (by default the path) in diagnostics.

    Raises SpecError (E100) where it cannot be read, is larger than 1 MiB, or is not UTF-8 text.
    """
    name = str(path) if name is None else name
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SpecError(Diagnostic("E100", f"cannot read `{name}`: it is not a file"))
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SpecError(Diagnostic("E100", f"cannot read `{name}`: {reason}")) from None
    return decode(data, name)


def decode(data: bytes, name: str) -> SourceFile:
    """Bytes as a source file. Raises SpecError (E100) where they are too many or not UTF-8 text."""
    if len(data) > MAX_BYTES:
        raise SpecError(Diagnostic("E100", f"`{name}` is larger than 1 MiB, the limit for a spec"))
    try:
        file = SourceFile(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        start = len(error.object[: error.start].decode("utf-8"))
        file = SourceFile(name, error.object.decode("utf-8", errors="replace"))
        offset = error.start + len(data) - len(error.object)
        message = f"`{name}` is not UTF-8 text: byte {data[offset]:#04x} at offset {offset}"
        raise SpecError(Diagnostic("E100", message, Label(Span(file, start, start + 1), error.reason))) from None
    check_text(file)
    return file


def check_text(file: SourceFile) -> None:
    """Raises SpecError (E100) where a text cannot be a spec: too long, or with NUL bytes."""
    if len(file.text) > MAX_BYTES:
        raise SpecError(Diagnostic("E100", f"`{file.name}` is larger than 1 MiB, the limit for a spec"))
    nul = file.text.find("\0")
    if nul >= 0:
        label = Label(Span(file, nul, nul + 1), "a NUL byte")
        raise SpecError(Diagnostic("E100", f"`{file.name}` is not text: it contains NUL bytes", label))


@dataclass(frozen=True)
class Loader:
    """Finds included files. They must lie, symbolic links resolved, under one of `roots`."""

    roots: tuple[Path, ...]

    @classmethod
    def of(cls, roots: Sequence[str | os.PathLike[str]]) -> Loader:
        """A loader for these folders, themselves resolved."""
        return cls(tuple(Path(os.path.realpath(root)) for root in roots))

    def load(self, path: str, including: SourceFile) -> SourceFile:
        """The file that `include "path"` in `including` means, named by its path as written.

        Raises IncludeError where it is missing or outside the roots, SpecError (E100) where it is not text.
        """
        if "\0" in path or not path:
            raise IncludeError("this is not a path")
        if os.path.isabs(path):
            raise IncludeError("an include path is relative to the file that contains it")
        name = os.path.join(os.path.dirname(including.name), path)
        real = identity(name)
        if not any(real.is_relative_to(root) for root in self.roots):
            raise IncludeError("this path is outside of the folders from which specs may include")
        if not os.path.lexists(real):
            raise IncludeError("there is no such file")
        return read_source(real, name)


def identity(name: str) -> Path:
    """The real path behind a source file's name: equal for equal files, whatever links lead there."""
    return Path(os.path.realpath(name))
