"""The differences between two builds, or between a build and the report.json of an earlier one.

>>> change = diff(tkgen.load("specs/single_buffer.tk").build(), tkgen.load("specs/double_buffer.tk").build())
>>> render_diff(change, Console())

Texts (spec, schedule, C++, machine code) are compared line by line where both sides have them. A report.json holds
figures only; C++ and machine code are read from the files that the build wrote beside it. Sequences are compared kernel
by kernel.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from pathlib import Path
from typing import Any, TypeAlias

from markupsafe import Markup
from rich.console import Console

from tkgen.diagnostics.text import count_text
from tkgen.notebooks import Shown
from tkgen.report.canvas import Canvas
from tkgen.report.figures import Figure, MixEntry, figures, mix
from tkgen.report.terminal import bar, plain_table, shown
from tkgen.toolchain.isa import Function, parse_asm

CONTEXT = 2  # unchanged lines shown around a change
TEXTS = ("spec", "schedule", "C++", "machine code")
TOGETHER = ("spec", "C++")  # texts that the kernels of a sequence have in one
SHOWN = 80  # lines of a changed text that a terminal shows


@dataclass(frozen=True)
class Change:
    """A figure on both sides: None where a side lacks it. `judgement` is `better`, `worse`, `changed` or `same`."""

    key: str
    label: str
    group: str
    before: str | None
    after: str | None
    difference: str
    judgement: str


@dataclass(frozen=True)
class MixChange:
    """Instructions of one sort on both sides: in an iteration of the main loop, per K-step, or in all of a kernel of
    rows."""

    label: str
    before: float
    after: float


@dataclass(frozen=True)
class TextChange:
    """A text on both sides: `lines` are (mark, line) with mark `+`, `-`, ` ` or `@` for a gap; empty where the same.

    `known` is False where a side has no such text (a report.json without the files beside it).
    """

    name: str
    known: bool
    lines: tuple[tuple[str, str], ...]

    @property
    def counts(self) -> tuple[int, int]:
        """Lines removed and lines added."""
        marks = [mark for mark, _ in self.lines]
        return marks.count("-"), marks.count("+")


@dataclass(frozen=True)
class Diff(Shown):
    """Everything that differs between `before` and `after`.

    Of sequences, the texts are those of the whole, and `kernels` has what differs in each: kernels of one name are
    compared, then those that are left, in order. A section without a counterpart is compared with nothing, called
    `-`.
    """

    before: str
    after: str
    figures: tuple[Change, ...]
    mix: tuple[MixChange, ...]
    texts: tuple[TextChange, ...]
    kernels: tuple[Diff, ...] = ()

    @property
    def counted(self) -> str:
        """The unit of instruction counts: empty for a whole kernel, where neither side has products."""
        rows = any(c.key == "instructions.total" for c in self.figures)
        return "" if rows else " per K-step of the main loop"

    @property
    def same(self) -> bool:
        """Return True if nothing that both sides know differs."""
        changed = any(c.judgement != "same" for c in self.figures) or any(m.before != m.after for m in self.mix)
        return not changed and not any(t.lines for t in self.texts) and all(k.same for k in self.kernels)


@dataclass(frozen=True)
class _Side:
    name: str
    figures: tuple[Figure, ...] = ()
    mix: tuple[MixEntry, ...] = ()
    steps_per_pass: int = 1
    texts: Mapping[str, str] = field(default_factory=dict)
    kernels: tuple[_Side, ...] = ()


Subject: TypeAlias = Any
"""A build or a spec, of one kernel or of several, a report as data, or the path of its file."""


def diff(a: Subject, b: Subject) -> Diff:
    """Compare `a` with `b`: builds, specs that were not compiled, reports as data, or paths of their files.

    Raises OSError for a file that cannot be read, ValueError for one that is no report.
    """
    before, after = _side(a), _side(b)
    if before.kernels or after.kernels:
        sides = _whole(before), _whole(after)
        return replace(_compared(*sides), kernels=tuple(starmap(_compared, _pairs(*(side.kernels for side in sides)))))
    return _compared(before, after)


def _whole(side: _Side) -> _Side:
    """A side as a sequence: one kernel is one of a single kernel."""
    if side.kernels:
        return side
    together = {name: text for name, text in side.texts.items() if name in TOGETHER}
    own = {name: text for name, text in side.texts.items() if name not in TOGETHER}
    return _Side(side.name, texts=together, kernels=(replace(side, texts=own),))


def _pairs(old: Sequence[_Side], new: Sequence[_Side]) -> list[tuple[_Side, _Side]]:
    """Kernels to compare: those of one name, then those that are left, in the order of the new ones."""
    names = {side.name for side in old} & {side.name for side in new}
    known = {side.name: side for side in old}
    left = [side for side in old if side.name not in names]
    pairs = []
    for side in new:
        other = known[side.name] if side.name in names else left.pop(0) if left else _Side("-")
        pairs.append((other, side))
    return [*pairs, *((side, _Side("-")) for side in left)]


def _compared(before: _Side, after: _Side) -> Diff:
    return Diff(
        before=before.name,
        after=after.name if after.name != before.name else f"{after.name} (new)",
        figures=tuple(_figures(before, after)),
        mix=tuple(_mix(before, after)),
        texts=tuple(
            TextChange(name, name in before.texts and name in after.texts,
                       tuple(_lines(before.texts.get(name, ""), after.texts.get(name, "")))
                       if name in before.texts and name in after.texts else ())
            for name in TEXTS
        ),
    )  # fmt: skip


def _side(subject: Subject) -> _Side:
    if isinstance(subject, Path):
        return _with_files(_side(read_report(subject)), subject)
    if isinstance(subject, Mapping) and "sequence" in subject:
        return _Side(str(subject["sequence"]), kernels=tuple(map(_side, subject["kernels"])))
    if isinstance(subject, Mapping):
        return _Side(str(subject["kernel"]), figures(subject), mix(subject), int(subject.get("steps_per_pass", 1)))
    spec: Any = getattr(subject, "spec", subject)
    written = spec.kernels[0].program
    texts = {"spec": written.spans["kernel"].file.text, "C++": spec.text}
    kernels = subject.kernels
    if kernels[0] is not subject:
        sides = map(_side, kernels)
        own = (replace(k, texts={n: t for n, t in k.texts.items() if n not in TOGETHER}) for k in sides)
        return _Side(spec.name, texts=texts, kernels=tuple(own))
    report = {} if spec is subject else subject.report()
    texts["schedule"] = spec.scheduled
    if spec is not subject and subject.function is not None:
        texts["machine code"] = _code(subject.function)
    steps = spec.plan.shape.unroll if spec.plan else 1
    return _Side(spec.name, figures(report), mix(report), steps, texts)


def _with_files(side: _Side, report: Path) -> _Side:
    """A side with the texts that its build wrote beside its report.json; those that cannot be read are left out."""
    if not side.kernels:
        return replace(side, texts=_beside(report, (".cpp", ".s")))
    own = (replace(k, texts=_beside(report.with_suffix(f".{k.name}.json"), (".s",))) for k in side.kernels)
    return replace(side, texts=_beside(report, (".cpp",)), kernels=tuple(own))


def _beside(report: Path, suffixes: Sequence[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for suffix in suffixes:
        try:
            text = report.with_suffix(suffix).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if suffix == ".cpp":
            texts["C++"] = text
        elif functions := parse_asm(text):
            texts["machine code"] = _code(max(functions.values(), key=lambda f: len(f.instructions)))
    return texts


def _code(function: Function) -> str:
    """A function's instructions, a line each, with registers named by kind and count: which ones they are is chance."""
    lines = []
    for x in function.instructions:
        operands = (re.sub(r"\b([vsa])(?:\d+\b|\[(\d+):(\d+)\])", _register, o) for o in x.operands)
        lines.append(f"{x.mnemonic} {', '.join(operands)}".rstrip())
    return "\n".join(lines)


def _register(found: re.Match[str]) -> str:
    return found[1] if found[2] is None else f"{found[1]}[{int(found[3]) - int(found[2]) + 1}]"


def read_report(path: Path) -> dict[str, Any]:
    """A report.json as data. Raises OSError, or ValueError where the file is no report of a build."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is no report: {error}") from None
    if not isinstance(data, dict) or not {"kernel", "sequence"} & data.keys():
        raise ValueError(f"{path} is no report of a build: it names no kernel")
    return data


def _figures(before: _Side, after: _Side) -> list[Change]:
    old, new = ({f.key: f for f in side.figures} for side in (before, after))
    changes = []
    for key in dict.fromkeys([*old, *new]):
        x, y = old.get(key), new.get(key)
        known = x or y
        assert known is not None
        delta = y.value - x.value if x and y else 0.0
        sign = "+" if delta > 0 else "-"
        changes.append(
            Change(
                key,
                known.label,
                known.group,
                x.show() if x else None,
                y.show() if y else None,
                f"{sign}{known.show(abs(delta))}" if delta else "",
                _judge(delta, known.better) if x and y else "changed",
            )
        )
    return changes


def _judge(delta: float, better: int) -> str:
    if not delta:
        return "same"
    if not better:
        return "changed"
    return "better" if delta * better > 0 else "worse"


def _mix(before: _Side, after: _Side) -> list[MixChange]:
    old, new = ({m.label: m.count / side.steps_per_pass for m in side.mix} for side in (before, after))
    if not old and not new:
        return []
    return [MixChange(label, old.get(label, 0), new.get(label, 0)) for label in dict.fromkeys([*old, *new])]


def _lines(a: str, b: str) -> list[tuple[str, str]]:
    """The changed lines with their surroundings; a `spec:N` that moved does not count."""
    old, new = a.splitlines(), b.splitlines()
    matcher = difflib.SequenceMatcher(None, [_bare(x) for x in old], [_bare(x) for x in new], autojunk=False)
    result: list[tuple[str, str]] = []
    for group in matcher.get_grouped_opcodes(CONTEXT):
        result.append(("@", f"line {group[0][3] + 1}"))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                result += [(" ", line) for line in new[j1:j2]]
            else:
                result += [("-", line) for line in old[i1:i2]]
                result += [("+", line) for line in new[j1:j2]]
    return result


def _bare(line: str) -> str:
    return re.sub(r"(\s*//|,) spec:\S+$", "", line).rstrip()


# ---------------------------------------------------------------- rendering

STYLES = {"better": "green", "worse": "red", "changed": "yellow", "same": "dim"}
MARKS = {"+": "green", "-": "red", " ": "dim", "@": "cyan"}


def render_diff(change: Diff, console: Console) -> None:
    """Print a comparison: figures, instruction mix, then the texts that changed; the same of each kernel."""
    plain = not console.is_terminal
    console.print(shown(f"{change.before} -> {change.after}", "bold"))
    if change.same:
        console.print(shown("nothing changed"))
        return
    _render_one(change, console, plain)
    for kernel in change.kernels:
        render_diff(kernel, console)


def _render_one(change: Diff, console: Console, plain: bool) -> None:
    if change.figures:
        table = plain_table(plain, "figure", ">before", ">after", ">change", "")
        for c in change.figures:
            style = STYLES[c.judgement]
            said = "" if c.judgement == "same" else c.judgement
            table.add_row(*(shown(x, style) for x in (c.label, c.before or "-", c.after or "-", c.difference, said)))
        console.print(table)
    if change.mix:
        console.print(shown(f"Instructions{change.counted}", "bold"))
        table = plain_table(plain, "sort", ">before", ">after", "")
        most = max(max(m.before, m.after) for m in change.mix)
        for m in change.mix:
            table.add_row(
                shown(m.label), shown(f"{m.before:g}"), shown(f"{m.after:g}"), shown(bar(m.after, most, plain), "cyan")
            )
        console.print(table)
    for text in change.texts:
        removed, added = text.counts
        if text.lines:
            console.print(shown(f"{text.name}: {count_text(removed, 'line')} removed, {added} added", "bold"))
            for mark, line in text.lines[:SHOWN]:
                console.print(shown(f"{mark} {line.expandtabs(4)}", MARKS[mark]), soft_wrap=True)
            if len(text.lines) > SHOWN:
                console.print(shown(f"... {len(text.lines) - SHOWN} more lines; --html shows them all", "dim"))


def render_diff_html(change: Diff) -> str:
    """The comparison as one HTML file with the report's looks, without scripts."""
    from tkgen.report.html import environment, style_sheet

    return (
        environment()
        .get_template("diff.html.jinja")
        .render(change=change, css=Markup(style_sheet()), picture=lambda found: Markup(mix_picture(found)))
    )


def mix_picture(change: Diff) -> str:
    """Both sides' instructions as pairs of bars."""
    rows = change.mix
    c = Canvas(640, 16 + max(len(rows), 1) * 34, f"Instructions{change.counted}, {change.before} and {change.after}")
    most = max((max(m.before, m.after) for m in rows), default=1) or 1
    for i, m in enumerate(rows):
        y = 8 + i * 34
        c.text(112, y + 17, m.label, "end small")
        for j, value in enumerate((m.before, m.after)):
            length = 400 * value / most
            c.rect(120, y + j * 13, length, 12, ("w7", "w0")[j], rx=2, style="stroke-width:.6")
            c.text(
                126 + length, y + j * 13 + 10, f"{value:g}", "tiny" if j == 0 or value == m.before else "tiny strong"
            )
    return c.svg()
