"""The pages of the documentation as the blocks a test runs, in their order: files, commands with output, Python.

A page's blocks share one folder, in which `specs/` lies as it does in the repository.

    ```tk title="gemm.tk"      the block is written to gemm.tk
    ```diff title="gemm.tk"    the file is changed
    ```console                 `$ tkgen ...` is run, what stands below is compared with what it prints
    ```python with `>>> `      is run as a doctest

In expected output a line `...` stands for any number of lines, and `...` in a line for any text. In a block marked
`console about` numbers may differ: they depend on the compiler, or on the order of torch's sums.
"""

from __future__ import annotations

import doctest
import re
import shlex
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from typer.testing import CliRunner

from tkgen.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(?P<language>\w*)(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
ANYTHING = "..."
NUMBER = re.compile(r"\d+(\.\d+)?(e[-+]\d+)?")
DOCTEST_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, title and mark, and where its body lies in the page's text."""

    language: str
    title: str
    about: bool
    body: str
    start: int
    line: int

    @property
    def runs(self) -> bool:
        """Whether a test does something with it."""
        return bool(self.title) or self.language == "console" or (self.language == "python" and ">>> " in self.body)


@dataclass(frozen=True)
class Command:
    """A line after `$ ` (with its continuations) and the output stated below it."""

    text: str
    expected: list[str]


def blocks(text: str) -> list[Block]:
    """All fenced blocks of a page."""
    found = []
    for match in FENCE.finditer(text):
        title = re.search(r'title="([^"]+)"', match["info"])
        line = text.count("\n", 0, match.start()) + 1
        about = match["info"].split() == ["about"]
        start = match.start("body")
        found.append(Block(match["language"], title[1] if title else "", about, match["body"], start, line))
    return found


def commands(body: str) -> list[Command]:
    """The commands of a console block."""
    found: list[Command] = []
    continued = False
    for line in body.splitlines():
        if continued:
            found[-1] = Command(f"{found[-1].text}\n{line}", [])
        elif line.startswith("$ "):
            found.append(Command(line.removeprefix("$ "), []))
        else:
            assert found, f"a console block starts with `$ `, not with {line!r}"
            found[-1].expected.append(line)
            continue
        continued = line.endswith("\\")
    return found


def changed(text: str, diff: str) -> str:
    """`text` after a change: the lines of `diff` that are not added occur once in it."""
    lines = diff.splitlines(keepends=True)
    old = "".join(line[1:] or "\n" for line in lines if line[0] != "+")
    new = "".join(line[1:] or "\n" for line in lines if line[0] != "-")
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
    return text.replace(old, new)


def output_of(command: str) -> list[str]:
    """What a `tkgen` command prints, to both streams in their order."""
    program, *arguments = shlex.split(command.replace("\\\n", " "))
    assert program == "tkgen", f"`{program}` is not run by the tests: show it in another kind of block"
    result = CliRunner().invoke(app, arguments)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return [line.rstrip() for line in result.output.rstrip("\n").splitlines()]


def matches(expected: list[str], actual: list[str]) -> bool:
    """Whether `actual` is what `expected` describes."""
    parts = [r"(?:.*\n)*?" if line.strip() == ANYTHING else _line(line) + r"\n" for line in expected]
    return re.fullmatch("".join(parts), "".join(line + "\n" for line in actual)) is not None


def roughly(lines: list[str]) -> list[str]:
    """`lines` without what may differ in a block marked `about`: numbers, and the spaces that align them."""
    return [" ".join(NUMBER.sub("0", line).split()) for line in lines]


def _line(expected: str) -> str:
    return ".*".join(re.escape(part) for part in expected.rstrip().split(ANYTHING))


def elided(expected: list[str], actual: list[str]) -> list[str]:
    """`actual` with what `expected` leaves out left out again, where the lines around it are still there."""
    places = [i for i, line in enumerate(expected) if line.strip() != ANYTHING]
    known = [expected[i].rstrip() for i in places]
    kept = list(actual)
    for at, line in enumerate(actual):
        kept[at] = next((k for k in known if ANYTHING in k and re.fullmatch(_line(k), line)), line)
    pairs = {-1: -1, len(expected): len(actual)}
    for i, j, size in SequenceMatcher(a=known, b=kept, autojunk=False).get_matching_blocks():
        pairs.update({places[i + n]: j + n for n in range(size)})
    for i in sorted((i for i, line in enumerate(expected) if line.strip() == ANYTHING), reverse=True):
        if i - 1 in pairs and i + 1 in pairs:
            kept[pairs[i - 1] + 1 : pairs[i + 1]] = [expected[i]]
    return kept


def run(page: Path, text: str, exact: bool = False) -> tuple[str, list[str]]:
    """Run the blocks of `text` in the current folder: the text as it should read, and what differs.

    `exact` compares numbers everywhere.
    """
    wrong: list[str] = []
    replaced: list[tuple[Block, str]] = []
    names: dict[str, object] = {}
    for block in blocks(text):
        place = f"{page.name}:{block.line}"
        if block.title:
            file = Path(block.title)
            file.write_text(changed(file.read_text(), block.body) if block.language == "diff" else block.body)
        elif block.language == "console":
            body = ""
            for command in commands(block.body):
                actual = output_of(command.text)
                loose = roughly if block.about and not exact else list
                right = matches(loose(command.expected), loose(actual))
                shown = command.expected if right else elided(command.expected, actual)
                body += "\n".join([f"$ {command.text}", *shown]) + "\n"
                if not right:
                    wrong.append("\n".join([f"{place}: $ {command.text}", *actual]))
            replaced.append((block, body))
        elif block.runs:
            wrong += _doctest(block, place, names)
    for block, body in reversed(replaced):
        text = text[: block.start] + body + text[block.start + len(block.body) :]
    return text, wrong


def _doctest(block: Block, place: str, names: dict[str, object]) -> list[str]:
    example = doctest.DocTestParser().get_doctest(block.body, names, place, place, block.line)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=DOCTEST_FLAGS).run(example, out=said.append, clear_globs=False)
    names.update(example.globs)
    return said
