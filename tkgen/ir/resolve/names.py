"""The names of a kernel while it is resolved, and what was found wrong with it.

Every problem of a spec is collected, then raised as one SpecError; what depends on a broken declaration is not
reported a second time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from tkgen.diagnostics import Diagnostic, Edit, Fix, Label
from tkgen.diagnostics.edits import line_above
from tkgen.diagnostics.text import nearest
from tkgen.ir.types import Dim, ScalarArg, Tensor
from tkgen.source import Span
from tkgen.syntax import ast
from tkgen.syntax.statements import flatten
from tkgen.targets import DEFAULT_TARGET, WaveGroups, known_names, most_threads, target_names, wave_groups

S = TypeVar("S")


class Stop(Exception):
    """A declaration is broken and already reported; what needs it is skipped."""


@dataclass
class Scope:
    """The declarations of a kernel so far, with `-D` values from `defines`.

    `target` is the one that the caller chose in place of those that the spec names.
    """

    kernel: ast.Kernel
    defines: dict[str, int | None]
    target: str | None = None
    errors: list[Diagnostic] = field(default_factory=list)
    values: dict[str, int | None] = field(default_factory=dict)
    declared: dict[str, Span] = field(default_factory=dict)
    dims: dict[str, Dim] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    scalars: dict[str, ScalarArg] = field(default_factory=dict)
    functions: dict[str, ast.Function] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)  # names whose declaration is wrong, which is already reported

    @cached_property
    def roles(self) -> list[ast.Role]:
        """The roles, wherever they stand."""
        return statements(ast.Role, self.kernel.body)

    @cached_property
    def everything(self) -> list[ast.Statement]:
        """All statements: the kernel's, then those of its roles."""
        own = [s for s in flatten(self.kernel.body) if not isinstance(s, ast.Role)]
        return own + [s for role in self.roles for s in flatten(role.body)]

    @cached_property
    def chosen(self) -> str:
        """The target that it is for: said, else the first one that the spec names, else the default."""
        named = [n.id for t in self.all(ast.Targets) for n in t.names]
        wanted = self.target or (named[0] if named else DEFAULT_TARGET)
        return wanted if wanted in known_names() else DEFAULT_TARGET

    @property
    def groups(self) -> WaveGroups | None:
        """The group of waves that multiply together on the target; None where each wave multiplies alone."""
        return wave_groups(self.chosen)

    @cached_property
    def largest_block(self) -> tuple[int, int]:
        """The threads of the largest block of the targets that the kernel is for, and how many of them are a wave."""
        said = [self.target] if self.target else [n.id for t in self.all(ast.Targets) for n in t.names]
        known = [name for name in said if name in known_names()] or target_names()
        return max((most_threads(name) for name in known), key=lambda block: block[0] // block[1])

    @property
    def most_waves(self) -> int:
        """The waves of that block."""
        threads, lanes = self.largest_block
        return threads // lanes

    def all(self, kind: type[S]) -> list[S]:
        """The statements of a kind, the kernel's first."""
        return [s for s in self.everything if isinstance(s, kind)]

    def one(self, kind: type[S], keyword: str, example: str) -> S:
        """The first statement of a kind, which every kernel has; `example` shows how to write it."""
        found = self.all(kind)
        if not found:
            name = self.kernel.name
            raise self.error(
                "E201",
                f"kernel `{name.id}` has no `{keyword}` statement",
                name.span,
                "declared here",
                fix=Fix(f"add a line such as `{example}`", self._line(example), certain=False),
            )
        return found[0]

    def _line(self, text: str) -> tuple[Edit, ...]:
        """Insert a line after the declarations of the kernel."""
        declaring = ast.Dims | ast.Param | ast.Global | ast.Scalar | ast.Targets | ast.Include | ast.Over
        own = [s for s in self.kernel.body if not isinstance(s, declaring)]
        return line_above(own[0].span, text) if own else ()

    def error(
        self,
        code: str,
        message: str,
        span: Span,
        label: str = "",
        *,
        secondary: tuple[Label, ...] = (),
        notes: tuple[str, ...] = (),
        fix: str | Fix | None = None,
        known: Iterable[str] = (),
    ) -> Stop:
        """Keep an error. `known`: names that may stand in the place of `span`, of which the nearest is offered."""
        remedy = Fix(fix) if isinstance(fix, str) else fix
        close = nearest(span.text, known)
        if close is not None:
            offered = Fix(f"write `{close}`", (Edit(span, close),), certain=False)
            notes = (*notes, remedy.text) if remedy and remedy.text != offered.text else notes
            message, remedy = f"{message}; did you mean `{close}`?", offered
        return self.refuse(Diagnostic(code, message, Label(span, label), secondary, notes, remedy))

    def refuse(self, error: Diagnostic) -> Stop:
        """Keep an error that is made."""
        self.errors.append(error)
        return Stop()

    def declare(self, name: ast.Name) -> None:
        """Give a name its place; a second one is E202."""
        if name.id in self.declared:
            raise self.error(
                "E202",
                f"`{name.id}` is declared twice",
                name.span,
                "declared again here",
                secondary=(Label(self.declared[name.id], "first declared here"),),
                fix="rename or remove one of them",
            )
        self.declared[name.id] = name.span

    def usable(self, name: ast.Name) -> None:
        """Stop at a name whose declaration is already reported as wrong."""
        if name.id in self.broken:
            raise Stop()

    def tensor_named(self, name: ast.Name, what: str, known: Iterable[str] | None = None) -> Tensor:
        """The tensor of that name; `what` names it in E200, which offers one of `known`, any where that is None."""
        self.usable(name)
        if name.id not in self.tensors:
            raise self.error(
                "E200",
                f"{what} names `{name.id}`, which is not a global tensor",
                name.span,
                "not declared",
                fix=self._instead(name) or f"declare it: `global {name.id} : bf16[...]`",
                known=self.tensors if known is None else known,
            )
        return self.tensors[name.id]

    def _instead(self, name: ast.Name) -> Fix | None:
        """The one factor of a product that no line loads, for a name in `shared` or `registers` that is no tensor."""
        clauses = [s for s in self.everything if isinstance(s, ast.Shared | ast.Registers)]
        if not any(name in s.names for s in clauses):
            return None
        loaded = {n.id for s in clauses for n in s.names}
        text = name.span.file.text
        factors = (t for t in self.tensors if re.search(rf"@ *{t}\b|\b{t}\[[^\]]*\](\.T)? *@", text))
        left = [t for t in factors if t not in loaded]
        left = [t for t in left if re.search(rf"@ *{t}\b", text)] if len(left) > 1 else left
        return Fix(f"write `{left[0]}`", (Edit(name.span, left[0]),), certain=False) if len(left) == 1 else None


def guarded(action: Callable[[], None]) -> None:
    """Do `action`, and go on where it stops."""
    with suppress(Stop):
        action()


def statements(kind: type[S], body: Iterable[ast.Statement]) -> list[S]:
    """The statements of a kind in a body and in the files that it includes."""
    return [s for s in flatten(body) if isinstance(s, kind)]
