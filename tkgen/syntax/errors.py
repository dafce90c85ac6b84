"""Every syntax error of a file that the grammar refused, found line by line.

Each statement is parsed on its own, so one bad line hides nothing on the others. A misspelt header still opens its
body. Messages speak of the language's words, never of token types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lark import Token, Tree, UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.indenter import DedentError
from lark.parsers.lalr_interactive_parser import InteractiveParser

from tkgen.diagnostics import Diagnostic, Edit, Fix, Label
from tkgen.diagnostics.text import nearest
from tkgen.source import SourceFile, Span
from tkgen.syntax import habits
from tkgen.syntax.foreign import Translation, changed, translated
from tkgen.syntax.foreign_context import completed
from tkgen.syntax.grammar import FILE_WORDS, LINES, MAX_STATEMENT, OPERATIONS, STATEMENTS, describe, keywords, parser
from tkgen.syntax.layout import OPENERS, Levels, PhysicalLine, code_lines
from tkgen.syntax.tree import TreeBuilder

# Nobody reads more errors, and a megabyte of noise must not take long.
MAX_ERRORS = 50
MAX_CHECKED = 2000
MAX_FOREIGN, MAX_SHOWN = 1000, 100  # characters of a statement that is rewritten, and of a fix that is shown

# What follows the first word of an equation: `x = ...` or `O[q] = ...`.
_EQUATION = re.compile(r"[ \t]*(=(?!=)|\[)")
_START = {"kernel": "any_line", "role": "any_line", "schedule": "cluster_line"}


@dataclass
class Statement:
    """A statement's characters in the file, its first word, and the kind of body it stands in.

    `opens` is the kind of body that follows it, if it is a header.
    """

    start: int
    end: int
    word: str
    inside: str
    opens: str | None
    has_body: bool = False
    continued: tuple[int, ...] = ()  # where the continuation lines' code starts


def statements(file: SourceFile, found: list[Diagnostic]) -> Iterator[Statement]:
    """The file's statements, headers and lines apart; wrong indentation (E102) is appended to `found`."""
    levels, kinds = Levels(), ["file"]
    current: Statement | None = None
    tabs = False
    for line in code_lines(file.text):
        if not tabs and "\t" in file.text[line.start : line.code]:
            tabs = True
            found.append(_tab_error(file, line))
        if current is None and line.width:
            text = "the first statement must start at the beginning of its line"
            found.append(_indentation(file, line, "the file starts with an indented line", text))
            levels.widths[0] = line.width
        try:
            change = levels.enter(line.width, current is not None and current.opens is not None)
        except DedentError:
            if not tabs:
                known = " or ".join(str(width + 1) for width in levels.widths)
                text = f"it starts in column {line.width + 1}, the enclosing bodies in column {known}"
                found.append(_indentation(file, line, "the indentation of this line matches no enclosing body", text))
            change = min(0, len(levels.widths) - len(kinds))
        if change is None:
            assert current is not None
            current.end = line.end
            current.continued += (line.code,)
            continue
        if current is not None:
            if change > 0:
                current.has_body = True
                kinds.append(current.opens or "file")
            yield current
        del kinds[len(levels.widths) :]
        current = Statement(line.code, line.end, line.word, kinds[-1], _opens(line.word))
    if current is not None:
        yield current


def statements_of(file: SourceFile, offsets: Sequence[int]) -> list[Statement]:
    """The statements and headers to which these characters belong."""
    return [s for s in statements(file, []) if any(s.start <= at <= s.end for at in offsets)]


def line_errors(file: SourceFile) -> list[Diagnostic]:
    """The syntax errors of the file in the order of the text; in absurdly long files those of the first lines."""
    found: list[Diagnostic] = []
    for checked, statement in enumerate(statements(file, found)):
        if checked < MAX_CHECKED:
            found += _misplaced(file, statement) or _statement_errors(file, statement)
        if len(found) >= MAX_ERRORS:
            break
    return sorted(found, key=lambda d: d.primary.span.start if d.primary else 0)


def unexpected(file: SourceFile, error: UnexpectedInput, offset: int = 0) -> Diagnostic:
    """E101 for what Lark raised on the text that starts at `offset`."""
    accepted: set[str] = set()
    machine = getattr(error, "interactive_parser", None)
    if isinstance(machine, InteractiveParser):
        accepted = machine.accepts()  # type: ignore[no-untyped-call]
    expected = describe(accepted) if accepted else "something else"
    start = offset + (error.pos_in_stream or 0)
    if isinstance(error, UnexpectedCharacters):
        character = file.text[start]
        span = Span(file, start, start + 1)
        what = f"expected {expected}, found {_shown(character)}"
        return Diagnostic("E101", what, Label(span, f"expected {expected}"), fix=_advised(file, start))
    token = error.token if isinstance(error, UnexpectedToken) else Token("$END", "")
    if token.type in ("_NL", "_INDENT", "_DEDENT", "$END"):
        end = len(file.text[: start or len(file.text)].rstrip())
        at, line = Span(file, end, end), file.text[file.text.rfind("\n", 0, end) + 1 : end]
        open_ = {")": ("RPAR", "("), "]": ("RSQB", "[")}
        lacks = (b for b, (name, a) in open_.items() if name in accepted and line.count(b) < line.count(a))
        missing = next(lacks, None)
        fix = Fix(f"write `{missing}`", (Edit(at, missing),), certain=False) if missing else None
        fix = fix or (_advised(file, end) if end < len(file.text) else None)
        message = f"expected {expected}, found the end of the line"
        return Diagnostic("E101", message, Label(at, f"expected {expected}"), fix=fix)
    span = Span(file, start, start + len(token))
    message = f"expected {expected}, found `{token}`"
    fix = _repair(token, span, accepted) or _advised(file, start)
    return Diagnostic("E101", message, Label(span, f"expected {expected}"), fix=fix)


def _advised(file: SourceFile, start: int) -> Fix | None:
    """Advice where a word of another language is unexpected: what a spec has in its place."""
    advice = habits.advice(file, start)
    return Fix("; ".join(advice)) if advice else None


def _repair(token: Token, span: Span, accepted: set[str]) -> Fix | None:
    """The remedy for an unexpected token, where one is likely."""
    by = re.fullmatch(r"x([0-9]+)", token)
    if by and "X" in accepted:
        return Fix("write `x` between spaces to separate the sizes", (Edit(span, f" x {by[1]}"),))
    if token == "(" and {"LSQB", "READ"} <= accepted:
        return Fix("only `read` selects fragments and slices: remove the parentheses")
    meant = nearest(token, keywords(accepted)) if token.type == "NAME" else None
    return Fix(f"write `{meant}`", (Edit(span, meant),)) if meant else None


def _statement_errors(file: SourceFile, statement: Statement) -> list[Diagnostic]:
    """Report the errors within one statement that is allowed at its place."""
    if statement.end - statement.start > MAX_STATEMENT:
        span = Span(file, statement.start, statement.start + max(1, len(statement.word)))
        return [Diagnostic("E110", f"this statement is longer than {MAX_STATEMENT} characters", Label(span))]
    file_word = statement.word in FILE_WORDS
    start = f"{statement.word}_line" if file_word else _START.get(statement.inside, "any_line")
    try:
        tree = parser().parse(file.text[statement.start : statement.end].rstrip() + "\n", start=start)
    except UnexpectedInput as error:
        wrong = _continuation_error(file, statement, error) or _foreign(file, statement, "E101")
        return [wrong or unexpected(file, error, statement.start)]
    builder = TreeBuilder(file, lambda path, span: (), statement.start)
    assert isinstance(tree, Tree)
    if tree.data == "cluster":
        builder.cluster(tree)
    elif tree.data == "kernel_head":
        builder.kernel(Tree("kernel", [tree]), "")
    elif tree.data == "schedule_head":
        builder.schedule(Tree("schedule", [tree]), statement.has_body)
    elif tree.data != "sequence":
        builder.statement(tree)
    if statement.opens in ("kernel", "role", "each", "when") and not statement.has_body:
        text = "a body must follow, indented further"
        builder.error("E102", f"`{statement.word}` has no body", builder.span(tree), text)
    return builder.diagnostics


def _foreign(file: SourceFile, statement: Statement, code: str) -> Diagnostic | None:
    """An error for a statement that other languages write otherwise, with the statement of a spec as its fix."""
    text = file.text[statement.start : statement.end].rstrip()
    if len(text) >= MAX_FOREIGN:
        return None

    def right(new: str) -> bool:
        return parses(new, statement.inside)

    found = translated(text, right)
    if found is None and "#" not in text and (whole := completed(text, file, right)) is not None:
        found = Translation(whole[0], whole[1:])
    if found is None:
        return None
    start, end, new = changed(text, found.text)
    line = file.text.rfind("\n", 0, statement.start) + 1
    new = new.replace("\n", "\n" + file.text[line : statement.start])
    span = Span(file, statement.start + start, statement.start + end)
    shown = found.text if len(found.text) <= MAX_SHOWN and "\n" not in found.text else new
    fix = Fix(f"write `{shown}`" if shown else "leave it out", (Edit(span, new),), certain=False)
    return Diagnostic(code, found.about[0], Label(span), notes=found.about[1:], fix=fix)


def parses(text: str, inside: str) -> bool:
    """Return True if a text is a statement of a body of kind `inside`, or none at all."""
    if not text or text.startswith("#"):
        return True
    word = next(iter(re.findall(r"^\w+", text)), "")
    start = f"{word}_line" if word in FILE_WORDS else _START.get(inside, "any_line")
    try:
        parser().parse(text.rstrip() + "\n", start=start)
    except (UnexpectedInput, DedentError):
        return False
    return True


def _continuation_error(file: SourceFile, statement: Statement, error: UnexpectedInput) -> Diagnostic | None:
    """E102 where a statement's second line is a statement itself, indented by mistake."""
    start = statement.start + (error.pos_in_stream or 0)
    word = re.match(r"\w*", file.text[start : start + 40])
    equation = re.match(r"\w+(\[[^\]]*\])?[ \t]*\+?=(?!=)", file.text[start : start + 200])
    if start not in statement.continued or word is None or not (equation or word[0] in (*STATEMENTS, *LINES)):
        return None
    first = Span(file, statement.start, statement.start + len(statement.word))
    return Diagnostic(
        "E102",
        f"this line is indented further than the `{statement.word}` above, so it continues that statement",
        Label(Span(file, start, start + len(word[0])), "if it is a separate statement"),
        (Label(first, "this statement goes on"),),
        fix=Fix(f"align `{word[0]}` with `{statement.word}`", _aligned(file, statement, start), certain=False),
    )


def _aligned(file: SourceFile, statement: Statement, start: int) -> tuple[Edit, ...]:
    """The line at `start` with the indentation of the statement that it continues."""
    text = file.text
    own, first = (text[text.rfind("\n", 0, at) + 1 : at] for at in (start, statement.start))
    return (Edit(Span(file, start - len(own), start), first),) if not (own + first).strip() else ()


def _misplaced(file: SourceFile, statement: Statement) -> list[Diagnostic]:
    """E101, E103 or E109 for a first word that cannot start a statement here."""
    word, inside = statement.word, statement.inside
    span = Span(file, statement.start, statement.start + max(1, len(word)))
    allowed = LINES if inside == "schedule" else (*FILE_WORDS, *STATEMENTS) if inside == "file" else STATEMENTS
    equation = bool(word) and inside != "schedule" and _EQUATION.match(file.text, span.end, statement.end) is not None
    if equation and word in allowed:
        text = "a statement starts with this word"
        foreign = _foreign(file, statement, "E108")
        other = foreign.fix if foreign else Fix("use another name")
        return [Diagnostic("E108", f"`{word}` is a reserved word", Label(span, text), fix=other)]
    if equation or word in allowed:
        return []
    if not word:
        if (foreign := _foreign(file, statement, "E101")) is not None:
            return [foreign]
        message = f"expected a statement, found {_shown(file.text[span.start])}"
        return [Diagnostic("E101", message, Label(span, "expected a statement"))]
    if (wrong := habits.augmented(file, span, statement.end)) is not None:
        return [wrong]
    fix: Fix | None = None
    if word in FILE_WORDS:
        message, text = f"`{word}` is not allowed inside a body", f"a {word} starts at the beginning of its line"
    elif inside == "schedule" and word in OPERATIONS:
        message, text = (
            f"`{word}` must be in a line that starts with `cluster` or `group`",
            ("start the line with a cluster"),
        )
        fix = Fix("start the line with `cluster` or `group`", (Edit(Span(file, span.start, span.start), "cluster "),))
    elif inside == "schedule" and word in STATEMENTS:
        message, text = f"`{word}` is not a line of a schedule", "expected `cluster` or `group`"
        fix = Fix("indent it like `schedule`, and put it before or after")
    elif word in LINES or word in OPERATIONS:
        message, text = f"`{word}` is allowed only in a schedule", "expected a statement"
        fix = Fix("write `schedule` on a line above, and this line indented under it")
    else:
        kind = "schedule line" if inside == "schedule" else "statement"
        meant = nearest(word, allowed)
        fix = Fix(f"write `{meant}`", (Edit(span, meant),)) if meant else None
        text = f"did you mean `{meant}`?" if meant else ""
        notes = () if meant else (f"a {kind} starts with one of {', '.join(allowed)}",)
        called = re.match(r"(?:tl|triton|torch)\.(\w+)\(", file.text[span.start : statement.end])
        advice = habits.STATEMENTS.get(word) or (called and habits.ADVICE.get(called[1]))
        if advice is None and re.match(r"\w+(, *\w+)+ *=", file.text[span.start : statement.end]):
            advice = "a line defines one value: `x = ...`"
        if advice:
            text, fix, notes = "a word of another language", Fix(advice), ()
        if fix is None or not fix.edits:
            foreign = _foreign(file, statement, "E103")
            if foreign is not None and foreign.fix is not None:
                text = text or foreign.message
                notes, fix = (*((fix.text,) if fix else ()), *foreign.notes), foreign.fix
        return [Diagnostic("E103", f"unknown {kind} `{word}`", Label(span, text), notes=notes, fix=fix)]
    return [Diagnostic("E109", message, Label(span, text), fix=fix)]


def _opens(word: str) -> str | None:
    """The kind of body that a line starting with this word opens, misspellings included."""
    if word in OPENERS:
        return word
    if word in STATEMENTS or word in LINES or word in OPERATIONS:
        return None
    meant = habits.OPENERS.get(word) or nearest(word, (*FILE_WORDS, *STATEMENTS))
    return meant if meant in OPENERS else None


def _indentation(file: SourceFile, line: PhysicalLine, message: str, text: str) -> Diagnostic:
    span = Span(file, line.start, line.code) if line.width else Span(file, line.code, line.code + 1)
    return Diagnostic("E102", message, Label(span, text))


def _tab_error(file: SourceFile, line: PhysicalLine) -> Diagnostic:
    """E102; the fix is certain where the whole file is indented by tabs alone."""
    indents = [other for other in code_lines(file.text) if other.width]
    edits: tuple[Edit, ...] = ()
    if len(indents) < MAX_CHECKED and all(set(file.text[i.start : i.code]) == {"\t"} for i in indents):
        edits = tuple(Edit(Span(file, i.start, i.code), "  " * i.width) for i in indents)
    return Diagnostic(
        "E102",
        "a tab in the indentation",
        Label(Span(file, line.start, line.code), "use spaces for indentation"),
        fix=Fix("indent by two spaces per level", edits),
    )


def _shown(character: str) -> str:
    return f"`{character}`" if character.isprintable() else f"the character U+{ord(character):04X}"
