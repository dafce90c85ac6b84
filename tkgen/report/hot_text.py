"""The hot lines of a kernel as cells of a table, for terminals and pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tkgen.diagnostics.text import escape
from tkgen.report.hot import Hot, HotLine

LEAST = 0.005  # lines below this share of everything are left out of a short table


def headings(hot: Hot) -> tuple[str, ...]:
    """The headings of the table, the first of the column of places, the last of the lines' text."""
    loop = ["in loop"] if hot.total.looped else []
    time = ["time", "cycles"] if hot.step else []
    return ("line", "code", *loop, "vector", *time, "regs", "")


def cells(hot: Hot, line: HotLine) -> tuple[str, ...]:
    """The cells of a line under the `headings`."""
    loop = [f"{line.looped:,}"] if hot.total.looped else []
    time = [f"{line.time or 0.0:.1%}", f"{line.cycles or 0.0:,.0f}"] if hot.step else []
    return (line.place, f"{line.instructions:,}", *loop, f"{line.vector_share:.1%}", *time, f"{line.registers:,}",
            line.text)  # fmt: skip


def legend(hot: Hot) -> str:
    """The headings of numbers in words."""
    loop = ", those in the main loop" if hot.total.looped else ""
    time = f"; share of the time, cycles of a {hot.step}" if hot.step else ""
    return (
        f"instructions in the code{loop}; share of the vector instructions that are executed{time}; "
        "registers at the peak"
    )


def table_of(hot: Hot, table: Table, lines: Iterable[HotLine]) -> Table:
    """`table`, which has no columns, with those of the lines; the text of a line gives way where it is narrow."""
    for number, name in enumerate(names := headings(hot)):
        last = number == len(names) - 1
        table.add_column(name, justify="right" if number > 0 and not last else "left", no_wrap=not last)
    for line in lines:
        *numbers, text = cells(hot, line)
        table.add_row(*map(_text, numbers), Text(escape(text), no_wrap=True, overflow="ellipsis"))
    return table


def said(hot: Hot) -> str:
    """The sentence of a kernel, as one."""
    return f"{hot.sentence[:1].upper()}{hot.sentence[1:]}." if hot.sentence else ""


def render_hot(found: Sequence[Hot], console: Console) -> None:
    """Print a table for each kernel, without lines that matter little, and its sentence."""
    for hot in found:
        of = f"{escape(hot.kernel)} by line" if len(found) > 1 else "by line of the spec"
        table = Table(title=of, box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
        console.print(table_of(hot, table, _mattering(hot)))
        console.print(_text(legend(hot)), soft_wrap=True)
        if hot.sentence:
            console.print(_text(said(hot)), soft_wrap=True)


def _mattering(hot: Hot) -> Iterator[HotLine]:
    for line in (*hot.lines, hot.total):
        shares = (line.vector_share, line.time or 0.0, line.instructions / hot.total.instructions)
        if max(shares) >= LEAST or line.registers:
            yield line


def _text(text: str) -> Text:
    return Text(escape(text))
