"""The page of opcodes, `docs/opcodes.md`."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from instructions import matrix
from instructions.checks import Record
from instructions.table import readings

PROBES = Path(__file__).parent.parent.parent / "tkgen/emulate/undecided.toml"
HEAD = """# Opcodes

The emulator executes these opcodes on gfx90a, gfx942 and gfx950. Each is compared with AMD's own
pseudo-code, which tinygrad publishes in machine-readable form. An interpreter of that pseudo-code
(`benchmarks/pcode`) is independent of the emulator, as is the encoder of the instructions.
`python benchmarks/opcodes.py --write` makes this page.

Every opcode runs in each form that it has: in 32 and 64 bits, with a DPP, with an SDWA. Operands
are random and edge values: NaNs of both kinds, infinities, subnormal numbers, extremes, scalar
registers, inline and literal constants. Negation, absolute values, `clamp`, `omod`, `op_sel`,
`op_sel_hi`, masks in EXEC, SCC, VCC and M0, and the modes of subnormal numbers, of IEEE and of
clamping vary with them. The emulator rounds to nearest even only.

Accesses of LDS, scratch, buffers, global and flat memory run with offsets, scalar bases, results of
atomics or without, and buffers whose range ends within the lanes.

Branches and jumps run in small programs with places to land before and after them. Scalar loads
have offsets of each kind, and buffers whose range ends within the result.

All registers and the memory of each lane are compared afterwards, NaNs as NaNs. Approximations
(`exp`, `log`, `rcp`, `rsq`, `sqrt`, `sin`, `cos`) may differ by their error.

Matrix instructions are compared with a formula and not with the text, which says `D = A * B + C`
and leaves the rounding open (below).

"""


def probes() -> list[dict[str, Any]]:
    """The probes: results that only a GPU can decide."""
    found: list[dict[str, Any]] = tomllib.loads(PROBES.read_text())["probe"]
    return found


def row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(f'{c:,}' if isinstance(c, int) else str(c) for c in cells)} |\n"


def head(*cells: str, numbers: int = 0) -> str:
    """The first two lines of a table, its last columns for numbers."""
    rules = ["---"] * (len(cells) - numbers) + ["---:"] * numbers
    return row(cells) + row(rules)


def table(records: Sequence[Record]) -> str:
    """A row for each encoding."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[record.opcode.encoding.name].append(record)
    text = head(
        "encoding", "opcodes", "agree", "of them by a reading", "by a formula", "differ", "by hand", "cases", numbers=7
    )
    total = [0] * 7
    for encoding, some in groups.items():
        compared = [r for r in some if not r.reason]
        agree = [r for r in compared if not r.samples]
        read = sum(any(x.opcodes.match(r.opcode.name) for x in readings()) for r in agree)
        cases = sum(sum(r.cases.values()) for r in some)
        formula = len(agree) if encoding == "MFMA" else 0
        cells = [len(some), len(agree), read, formula, len(compared) - len(agree), len(some) - len(compared), cases]
        total = [a + b for a, b in zip(total, cells, strict=True)]
        text += row([encoding, *cells])
    return text + row(["all", *total])


def names(pattern: str) -> str:
    """An expression of mnemonics, as a page shows it."""
    return f"`{pattern}`".replace("|", "\\|")


READINGS = """
## Readings

These texts are not what hardware does, by the named source, or leave a choice to a probe (below).
The emulator is compared with the reading instead.

"""
_MEASURED = matrix.SOURCES["measured"]
FORMULAS = f"""
## Formulas

Each matrix instruction runs on each target that has it, with values of many magnitudes, subnormal
numbers, infinities and NaNs, and with `cbsz`, `abid`, `blgp` and `neg`. Sampled elements of D are
compared bit by bit with `benchmarks/instructions/matrix.py`: the layouts of AMD's CDNA3 ISA
document and matrix instruction calculator, and the arithmetic below in exact rationals.

| operands | arithmetic | source |
| --- | --- | --- |
| f64, f32 | a fused multiply-add for each k, ascending | {matrix.SOURCES["fused"]} |
| i8 | exact, wrapping | the text |
| f16, bf16 on gfx90a | sums of four products, or two, each step rounded and flushed | {_MEASURED} |
| f16, bf16, xf32 on gfx942 | groups of 8 (xf32: 4) cut at 24 bits, added exactly, rounded once | {_MEASURED} |
| fp8, bf8 on gfx942 | groups of 16, even and odd k apart | {_MEASURED} |
| all of these on gfx950, and `f8f6f4` | as on gfx942 | {matrix.SOURCES["unmeasured"]} |
"""
UNDECIDED = """
## Probes

Only a GPU can decide these: `tkgen hardware-check --only instructions` says which reading it has.
`tkgen/emulate/undecided.toml` has an instruction, operands and both results for each.

"""
BY_HAND = """
## By hand

These have no text that can be run. The named tests compare them with arithmetic of their own.

"""


def page(records: Sequence[Record]) -> str:
    """The whole page."""
    text = HEAD + table(records) + "\n## Differences\n\n"
    wrong = [f"- `{r.opcode.name}` ({r.opcode.encoding.name}): {r.samples[0]}\n" for r in records if r.samples]
    text += "".join(wrong) or "No opcode differs from its text or its reading.\n"
    text += READINGS + head("opcodes", "the text", "the emulator", "decided by")
    for r in readings():
        text += row([names(r.opcodes.pattern.removesuffix("$")), r.text, r.emulator, r.source or f"a probe: {r.probe}"])
    text += FORMULAS + UNDECIDED + head("what", "opcodes", "the emulator", "the other reading", "source")
    for p in probes():
        does = (p["emulator_does"], p["other_does"])
        text += row([p["name"], names(p["opcodes"]), *does, p["source"].replace("|", "\\|")])
    text += BY_HAND + head("encoding", "opcodes", "why")
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for record in records:
        if record.reason:
            groups[record.opcode.encoding.name, record.reason].append(record.opcode.name)
    return text + "".join(row([encoding, shortened(some), reason]) for (encoding, reason), some in groups.items())


def shortened(some: Sequence[str]) -> str:
    """Mnemonics, those with a common beginning as a group where there are many."""
    if len(some) <= 12:
        return ", ".join(f"`{n}`" for n in some)
    groups: dict[str, int] = defaultdict(int)
    for n in some:
        groups[re.sub(r"^((?:[a-z]+_){1,2}).*", r"\1*", n)] += 1
    return ", ".join(f"`{n}` ({count})" for n, count in groups.items())
