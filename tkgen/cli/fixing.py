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
    """How far a spec gets: the more the better."""

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
        """Whether one text gets as far as another; `before` passes the checks. Nothing is known without a compiler."""
        from tkgen.backends.registry import backend_of
        from tkgen.targets import load_target
        from tkgen.toolchain.compiler import ToolchainError
        from tkgen.toolchain.discover import find_compiler

        target = self.load(before).target.name
        if not backend_of(target).emulated:
            self.unwatched = f"not built: nothing here runs machine code for {target}"
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
    path: Path, define: Sequence[str] | None, target: str | None, roots: Sequence[Path] | None
) -> list[Diagnostic]:
    """Make the certain fixes in a file that do no harm; what is found in it then."""
    builder = Builder(lambda text: load_spec(path, define, target, roots, text))
    found = findings(path, define, target, roots)
    for _ in range(PASSES):
        if not _pass(path, found, lambda text: findings(path, define, target, roots, text), builder):
            break
        found = findings(path, define, target, roots)
    for reason in dict.fromkeys(builder.refused):
        complain(f"note: {path}: a fix is left out, as the build fails with it: {reason}")
    return found


def _pass(
    path: Path, found: Sequence[Diagnostic], judge: Callable[[str], Sequence[Diagnostic]], builder: Builder
) -> bool:
    """Make fixes of `found` once; whether that changed the file. A spec with errors is none that builds."""
    from tkgen.diagnostics import Severity
    from tkgen.diagnostics.fixes import harmless_fixes
    from tkgen.toolchain.files import write_atomic

    if not any(d.fix and d.fix.edits and d.fix.certain for d in found):
        return False
    text = path.read_text(encoding="utf-8")
    builds = not any(d.severity is Severity.ERROR for d in found)
    mended = harmless_fixes(text, found, judge, lambda after: not builds or builder.no_worse(text, after))
    if mended == text:
        return False
    write_atomic(path, mended)
    complain(f"{path}: fixed" + (f" ({builder.unwatched})" if builds and builder.unwatched else ""))
    return True
