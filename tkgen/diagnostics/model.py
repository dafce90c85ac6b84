"""A diagnostic as a value: checks return these, only the CLI renders them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from tkgen.source import Span


class Severity(Enum):
    """The severity of a diagnostic: an error refuses the spec, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Label:
    """A span underlined in the user's own lines, with what it has to do with the problem."""

    span: Span
    text: str = ""


@dataclass(frozen=True)
class Edit:
    """Replace the characters of `span` by `text` (an empty span inserts)."""

    span: Span
    text: str


@dataclass(frozen=True)
class Fix:
    """A remedy in one sentence, and the edits that make it.

    Edits that are not `certain` are a guess, such as the nearest known word: an editor offers them, and nothing makes
    them unasked.
    """

    text: str
    edits: tuple[Edit, ...] = ()
    certain: bool = True


@dataclass(frozen=True)
class InterleavedStep:
    """A step of an interleaving that goes wrong: what `agent`, such as `wave 1`, does after it passed `barriers`.

    `span` is the place of what it does, None where it has none; `barriers` is None where they are not counted.
    """

    agent: str
    action: str
    barriers: int | None = None
    span: Span | None = None


@dataclass(frozen=True)
class Diagnostic:
    """One finding.

    `code` is stable (`E301`; the letter is E for errors, W for warnings) and has a page in `explain/`.
    `message` is one sentence in the user's terms. `primary` is where; it is None only for findings that
    have no place in a spec (a missing file). `secondary` shows the other parties, `notes` the concrete
    interleaving and the numbers, `fix` what to do. `interleaving` has the steps of two agents as data, in the order in
    which they go wrong.
    """

    code: str
    message: str
    primary: Label | None = None
    secondary: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    fix: Fix | None = None
    interleaving: tuple[InterleavedStep, ...] = ()

    @property
    def severity(self) -> Severity:
        """From the code's letter."""
        return Severity.ERROR if self.code.startswith("E") else Severity.WARNING


def errors_first(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Errors, then the rest; each in the order they were found."""
    return tuple(sorted(found, key=lambda d: d.severity is not Severity.ERROR))


def distinct(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Each once, the first of those that say the same of the same place."""
    kept: dict[tuple[object, ...], Diagnostic] = {}
    for d in found:
        at = d.primary.span if d.primary else None
        kept.setdefault((d.code, d.message, at and (at.file.name, at.start, at.end)), d)
    return list(kept.values())
