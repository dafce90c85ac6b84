"""Mistakes in specs, one edit each, and what comes of a spec when the help that is printed for one is taken."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

import tkgen
from tkgen.diagnostics import Diagnostic, Fix, Severity, SpecError

NUMBER, WORD = re.compile(r"(?<![\w.])\d+(?![\w.])"), re.compile(r"[A-Za-z_]\w*")
ADDED = (
    "waves 2 x 2", "schedule ping_pong", "schedule interleave", "grid persistent(9)", "tail masked", "occupancy 9",
    "block 128 x 128 x 32", "registers K", "role producer waves 0..0", "remap xcd(8)", "epilogue relu",
)  # fmt: skip
STATEMENTS = (
    "waves", "shared", "schedule", "grid", "tail", "registers", "target", "over", "carry", "dims", "global", "scalar",
    "remap", "occupancy", "unroll",
)  # fmt: skip
WRITTEN = re.compile(r"(?:write|add|use) `([^`]+)`")


def mistakes(text: str) -> Iterator[str]:
    """The spec with one line left out, twice there or new, a number, a name or a type exchanged, a word left out."""
    lines = text.splitlines()
    head = next(n for n, line in enumerate(lines) if line.strip().startswith("each"))
    names = sorted({*re.findall(r"global (\w+)|scalar (\w+)", text), *re.findall(r"^ +(\w+) =()", text, re.MULTILINE)})
    words = [a or b for a, b in names]
    for n, line in enumerate(lines[1:], 1):

        def put(*instead: str, at: int = n) -> str:
            return "\n".join([*lines[:at], *instead, *lines[at + 1 :]]) + "\n"

        yield put()
        yield put(line, line)
        for found in NUMBER.finditer(line):
            for number in (int(found[0]) * 2, int(found[0]) // 2, int(found[0]) + 1):
                yield put(line[: found.start()] + str(number) + line[found.end() :])
        for found in WORD.finditer(line):
            before, after = line[: found.start()], line[found.end() :]
            yield put(before.rstrip() + " " * (not before.strip()) * len(before) + after)
            yield put(before + found[0] + "x" + after)
            shared = line.strip().startswith("shared")  # another name there is two mistakes: one too many, one missing
            for other in words if found[0] in words and not shared else ():
                if other != found[0]:
                    yield put(before + other + after)
            if found[0] in ("bf16", "f32", "f16"):
                for kind in ("i8", "f16", "bf16", "f32", "i32"):
                    yield put(before + kind + after)
        others = (
            (".T", ""),
            (" buffers 2", ""),
            (" buffers 2", " buffers 9"),
            ("max(", "min("),
            (" by ", " from q by "),
        )
        for old, new in others:
            if old in line:
                yield put(line.replace(old, new, 1))
    for statement in ADDED:
        yield "\n".join([*lines[:head], f"  {statement}", *lines[head:]]) + "\n"


def found(text: str, target: str) -> tuple[Diagnostic, ...]:
    """Findings in a text."""
    try:
        return tkgen.load(text, target=target).diagnostics
    except SpecError as error:
        return tuple(error.diagnostics)


@dataclass(frozen=True)
class Help:
    """A text whose help was taken, and that help."""

    diagnostic: Diagnostic
    text: str

    @property
    def is_guess(self) -> bool:
        """Return True if it is only the nearest known word, or a `.T` that makes a product of the given tensors."""
        fix = self.diagnostic.fix
        return fix is not None and (not fix.certain or self.diagnostic.code == "E224")

    @property
    def said(self) -> str:
        """The printed text."""
        fix = self.diagnostic.fix
        return f"{self.diagnostic.code} {self.diagnostic.message} -> {fix.text if fix else ''}"


def taken(text: str, diagnostic: Diagnostic) -> str | None:
    """The text with the help of a diagnostic taken: its edits, or the statement that its sentence says."""
    fix, at = diagnostic.fix, diagnostic.primary
    if fix is None or at is None:
        return None
    if fix.edits:
        for edit in sorted(fix.edits, key=lambda e: e.span.start, reverse=True):
            text = text[: edit.span.start] + edit.text + text[edit.span.end :]
        return text
    return _statement(text, fix, text.count("\n", 0, at.span.start))


def _statement(text: str, fix: Fix, line: int) -> str | None:
    lines = text.splitlines()
    if re.match(r"(?:leave it out|remove it)(?:$|:)", fix.text):
        return "\n".join([*lines[:line], *lines[line + 1 :]]) + "\n" if line else None
    if (word := re.fullmatch(r"leave `([^`]+)` out", fix.text)) is not None:
        if lines[line].split()[:1] == word[1].split()[:1]:
            return "\n".join([*lines[:line], *lines[line + 1 :]]) + "\n"
        made = [re.sub(rf" +{re.escape(word[1])}\b", "", each) for each in lines]
        return "\n".join(made) + "\n" if made != lines else None
    said = [m for m in WRITTEN.findall(fix.text) if m.split()[0] in STATEMENTS and "..." not in m]
    if len(said) != 1 or len(said[0].split()) < 2:
        return None
    (statement,) = said
    if lines[line].split()[:1] == statement.split()[:1]:
        lines[line] = f"  {statement}"
    else:
        head = next((n for n, each in enumerate(lines) if each.strip().startswith(("carry", "each"))), len(lines))
        lines.insert(head, f"  {statement}")
    return "\n".join(lines) + "\n"


def helps(text: str, target: str) -> Iterator[tuple[Help, tuple[Diagnostic, ...]]]:
    """Each help that is printed for a text, as it is taken, and the errors that are new then."""
    before = found(text, target)
    known = {(d.code, d.message) for d in before}
    for diagnostic in before:
        if (made := taken(text, diagnostic)) is not None:
            after = found(made, target)
            same = (diagnostic.code, diagnostic.message)
            new = [d for d in after if d.severity is Severity.ERROR and (d.code, d.message) not in known]
            stays = [d for d in after if (d.code, d.message) == same]
            yield Help(diagnostic, made), (*new, *stays)


def sample(texts: list[str], count: int, seed: int) -> list[str]:
    """So many of them."""
    return random.Random(seed).sample(texts, min(count, len(texts)))
