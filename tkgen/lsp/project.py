"""The files an editor knows: the text of open buffers first, then what is on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Self

from tkgen.diagnostics import SpecError
from tkgen.lsp.outline import Outline, outline
from tkgen.source import SourceFile
from tkgen.syntax import ast
from tkgen.syntax.loader import IncludeError, Loader, identity, read_source

MAX_FILES = 1000  # spec files looked at below the editor's folders
MAX_FOLDERS = 5000
_SKIPPED = frozenset({"node_modules", "__pycache__"})


@dataclass(frozen=True)
class BufferLoader(Loader):
    """A loader that prefers the text of open buffers, by real path, to what is on disk."""

    texts: Mapping[Path, str] = field(default_factory=dict)

    @classmethod
    def around(cls, file: SourceFile, roots: Sequence[str], texts: Mapping[Path, str]) -> Self | None:
        """The loader for the includes of `file`: its own folder and `roots`; None for a text that is no file."""
        if not os.path.isabs(file.name):
            return None
        return cls(Loader.of([os.path.dirname(file.name), *roots]).roots, texts)

    def load(self, path: str, including: SourceFile) -> SourceFile:
        """As `Loader.load`; a buffer needs no file on disk yet."""
        name = os.path.join(os.path.dirname(including.name), path)
        if path and "\0" not in path and not os.path.isabs(path):
            real = identity(name)
            if real in self.texts and any(real.is_relative_to(root) for root in self.roots):
                return SourceFile(name, self.texts[real])
        return super().load(path, including)


@dataclass(frozen=True)
class Project:
    """Open buffers by real path, the editor's folders, and the folders that includes may reach."""

    buffers: Mapping[Path, SourceFile]
    folders: tuple[str, ...] = ()
    include_roots: tuple[str, ...] = ()

    @cached_property
    def texts(self) -> dict[Path, str]:
        """The text of the open buffers."""
        return {path: file.text for path, file in self.buffers.items()}

    def with_texts(self, texts: Mapping[Path, str]) -> Project:
        """This project with other texts in some files."""
        changed = {path: SourceFile(str(path), text) for path, text in texts.items()}
        return Project({**self.buffers, **changed}, self.folders, self.include_roots)

    def closure(self, file: SourceFile) -> list[Outline]:
        """The outline of `file`, then of everything it includes, each file once."""
        loader = BufferLoader.around(file, self.include_roots, self.texts)
        found: dict[Path, Outline] = {}

        def visit(source: SourceFile) -> None:
            seen = outline(source)
            if found.setdefault(identity(source.name), seen) is not seen or loader is None:
                return
            for statement in seen.statements:
                if isinstance(statement.node, ast.Include):
                    try:
                        included = loader.load(statement.node.path, source)
                    except (IncludeError, SpecError):
                        continue
                    if identity(included.name) not in found:
                        visit(included)

        visit(file)
        return list(found.values())

    @cached_property
    def specs(self) -> list[list[Outline]]:
        """The closure of every spec with a kernel: open ones first, then those on disk."""
        on_disk = [path for path in self._paths() if path not in self.buffers]
        closures = [self.closure(file) for file in self.buffers.values()]
        for path in on_disk:
            try:
                closures.append(self.closure(read_source(path)))
            except SpecError:
                continue
        return [c for c in closures if c[0].has_kernel]

    def owners(self, file: SourceFile) -> list[list[Outline]]:
        """The closures of the other specs that include `file`."""
        me = identity(file.name)
        return [c for c in self.specs if any(identity(o.file.name) == me for o in c[1:])]

    def _paths(self) -> Iterator[Path]:
        """Spec files below the folders, real paths."""
        count = visited = 0
        for top in self.folders:
            for folder, subfolders, names in os.walk(top):
                subfolders[:] = sorted(s for s in subfolders if not s.startswith(".") and s not in _SKIPPED)
                visited += 1
                for name in sorted(names):
                    if name.endswith(".tk"):
                        count += 1
                        yield identity(os.path.join(folder, name))
                if count >= MAX_FILES or visited >= MAX_FOLDERS:
                    return
