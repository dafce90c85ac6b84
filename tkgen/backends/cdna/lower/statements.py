"""Statements of a wave: lines of C++ in loops, with the spec lines they come from and the operations they execute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tkgen.backends.cdna.lower.origins import NOWHERE, Marks, Origins, Performed

# Kinds of instructions as `__builtin_amdgcn_sched_group_barrier` masks them (LLVM AMDGPUUsage), and their names.
MIXED = {"compute": ("0x2", "vector instructions"), "multiply": ("0x8", "MFMA"), "fetch": ("0x20", "global reads"),
         "read": ("0x100", "LDS reads"), "write": ("0x200", "LDS writes")}  # fmt: skip

How = Literal["whole", "masked", "add"]  # how a tile goes to memory


class Noted(NamedTuple):
    """A line of C++ that ends with a comment."""

    line: str
    comment: str


Code = Sequence[str | Noted]


@dataclass(frozen=True)
class Loop:
    """`for (int variable = first; variable < first + count; ++variable)`, unrolled."""

    variable: str
    count: int
    first: int = 0


@dataclass(frozen=True)
class Statement:
    """One operation of a wave as C++, inside of `loops`. `operations` are those of the schedule that it executes."""

    code: Code
    loops: tuple[Loop, ...] = ()
    origin: Origins = NOWHERE
    operations: tuple[Performed, ...] = ()

    def text(self, marks: Marks) -> str:
        """The statement in its loops; its first line comes from the spec lines, each executes the operations."""
        lines = [x if isinstance(x, str) else x.line + marks.remark(NOWHERE, x.comment) for x in self.code] or [""]
        lines[0] += marks.remark(self.origin)
        result: list[str] = []
        indent = ""
        for loop in self.loops:
            brace = " {" if loop is self.loops[-1] and len(lines) > 1 else ""
            name, end = loop.variable, loop.first + loop.count
            result.append(f"{indent}#pragma unroll")
            result.append(f"{indent}for (int {name} = {loop.first}; {name} < {end}; ++{name}){brace}")
            indent += "    "
        result += [indent + line for line in lines]
        if self.loops and len(lines) > 1:
            result.append(indent[4:] + "}")
        return "\n".join(line + marks.carries_out(self.operations) for line in result)


def indented(lines: Iterable[str]) -> list[str]:
    """Lines one level further in."""
    return [f"    {line}" if line else line for line in lines]


def lambda_call(
    call: str, parameters: Sequence[str] | None, lines: Sequence[str], behind: Sequence[str] = ()
) -> list[str]:
    """`call`, an open one, whose next argument is a lambda with a body of `lines`; `behind` are the arguments after it.

    Without `parameters` the lambda has no list of them.
    """
    head = "[&]" if parameters is None else f"[&]({', '.join(parameters)})"
    return [f"{call}{head} {{", *indented(lines), f"}}{''.join(f', {argument}' for argument in behind)});"]


def scoped(declared: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Lines after what is declared for them alone; without declarations they need no block."""
    return ["{", *indented([*declared, *lines]), "}"] if declared else list(lines)
