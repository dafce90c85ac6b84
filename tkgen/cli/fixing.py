"""`tkgen check --fix`: what a fix leaves is proven and built, as what it changes is, before it is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tkgen.cli.common import complain, findings, load_spec

if TYPE_CHECKING:
    from tkgen.backends.protocol import Spec
    from tkgen.diagnostics import Diagnostic

PASSES = 10  # over a file: one fix may bring up another


class Built(IntEnum):
    """The furthest stage that a spec reaches: the more the better."""

    FAILS = 0
    UNWATCHED = 1  # it compiles, and the emulator cannot tell, or is not here
    RIGHT = 2


@dataclass
class Builder:
    """Builds texts of a spec, each once. `refused`: why some fail; `unwatched`: why more is not known of them."""

    load: Callable[[str], Spec]
    refused: list[str] = field(default_factory=list)
    unwatched: str = ""

    def __post_init__(self) -> None:
        self.tried = cache(self._tried)

    def no_worse(self, before: str, after: str) -> bool:
        """True if one text gets as far as another; `before` passes the checks. Nothing is known without a compiler."""
        from tkgen.backends.registry import backend_of
        from tkgen.targets import load_target
        from tkgen.toolchain.compiler import ToolchainError
        from tkgen.toolchain.discover import find_compiler

        target = self.load(before).target.name
        if not backend_of(target).emulated:
            self.unwatched = f"not built: this machine cannot run machine code for {target}"
            return True
        try:
            find_compiler(load_target(target))
        except ToolchainError as error:
            self.unwatched = f"not built: {error.message}"
            return True
        wanted, _ = self.tried(before)
        reached, reason = self.tried(after)
        if reached < wanted:
            self.refused.append(reason)
        return reached >= wanted

    def _tried(self, text: str) -> tuple[Built, str]:
        from tkgen.diagnostics import SpecError
        from tkgen.toolchain.compiler import ToolchainError

        try:
            built = self.load(text).build().check()
        except SpecError as error:
            return Built.FAILS, "; ".join(f"{d.code} {d.message}" for d in error.diagnostics)
        except ToolchainError as error:
            return Built.FAILS, error.message
        if built.unwatched:
            self.unwatched = built.unwatched
            return Built.UNWATCHED, built.unwatched
        return Built.RIGHT, ""


def fixed(
    path: Path, define: Sequence[str] | None, target: str | None, roots: Sequence[Path] | None, guesses: bool = False
) -> list[Diagnostic]:
    """Make the certain fixes in a file that do no harm, with `guesses` the others, too; what is found in it then.

    Those for a target that is asked for may make it one that others no longer take: it then names those that do.
    """
    before = path.read_text(encoding="utf-8")
    builder = Builder(lambda text: load_spec(path, define, target, roots, text))
    found = findings(path, define, target, roots)
    for _ in range(PASSES):
        if not _pass(path, found, lambda text: findings(path, define, target, roots, text), builder, guesses):
            break
        found = findings(path, define, target, roots)
    _uncertain(path, found, guesses)
    for reason in dict.fromkeys(builder.refused):
        complain(f"note: {path}: a fix was not applied, because the build fails with it: {reason}")
    if target and not _errors(found) and path.read_text(encoding="utf-8") != before:
        _named(path, before, target, lambda text, name: _errors(findings(path, define, name, roots, text)), roots)
    return found


def _uncertain(path: Path, found: Sequence[Diagnostic], guesses: bool) -> None:
    """Say which fixes of `found` are edits that were not applied because a reader must judge them."""
    left = [d for d in found if d.fix and d.fix.edits and not d.fix.certain]
    if not left or guesses:
        return
    lines = ", ".join(str(d.primary.span.line) for d in left if d.primary)
    if len(left) == 1:
        said = f"the fix of line {lines} is uncertain and was not applied: `--unsafe-fixes` applies it, too"
    else:
        said = f"the fixes of lines {lines} are uncertain and were not applied: `--unsafe-fixes` applies them, too"
    complain(f"note: {path}: {said}")


def _errors(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    from tkgen.diagnostics import Severity

    return [d for d in found if d.severity is Severity.ERROR]


def _named(
    path: Path,
    before: str,
    target: str,
    errors: Callable[[str, str], list[Diagnostic]],
    roots: Sequence[Path] | None,
) -> None:
    """Have a file name the target that it was fixed for, and leave those out that took the text `before` alone."""
    from tkgen.diagnostics import Edit
    from tkgen.diagnostics.fixes import edited
    from tkgen.source import Span
    from tkgen.syntax import ast, statements
    from tkgen.syntax.parser import parse_spec
    from tkgen.targets import known_names
    from tkgen.toolchain.files import write_atomic

    text = path.read_text(encoding="utf-8")
    parsed = parse_spec(path, roots or (), text)
    clause = next((s for s in statements.flatten(statements.together(parsed).body) if isinstance(s, ast.Targets)), None)
    names = [n.id for n in clause.names] if clause else list(known_names())
    took = [n for n in names if n != target and not errors(before, n)]
    lost = {n: found for n in took if (found := errors(text, n))}
    if not lost and (clause is None or target in names):
        return
    left = [n for n in names if n in took and n not in lost] if lost else names
    kept = ", ".join(dict.fromkeys([*left, target]))
    file, end = parsed.name.span.file, parsed.name.span.end
    edit = Edit(clause.span, f"target {kept}") if clause else Edit(Span(file, end, end), f"\n  target {kept}")
    write_atomic(path, edited(text, [edit]))
    for name, found in lost.items():
        complain(f"note: {path}: written for {kept}; {name} no longer accepts it: {found[0].code} {found[0].message}")


def _pass(
    path: Path,
    found: Sequence[Diagnostic],
    judge: Callable[[str], Sequence[Diagnostic]],
    builder: Builder,
    guesses: bool,
) -> bool:
    """Make fixes of `found` once; whether that changed the file. A spec with errors is none that builds."""
    from tkgen.diagnostics import Severity
    from tkgen.diagnostics.fixes import harmless_fixes
    from tkgen.toolchain.files import write_atomic

    if not any(d.fix and d.fix.edits and (d.fix.certain or guesses) for d in found):
        return False
    text = path.read_text(encoding="utf-8")
    builds = not any(d.severity is Severity.ERROR for d in found)
    fixed = harmless_fixes(text, found, judge, lambda after: not builds or builder.no_worse(text, after), guesses)
    if fixed == text:
        return False
    write_atomic(path, fixed)
    complain(f"{path}: fixed" + (f" ({builder.unwatched})" if builds and builder.unwatched else ""))
    return True
