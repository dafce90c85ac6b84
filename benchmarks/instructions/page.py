"""The page of opcodes, `docs/opcodes.md`."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from instructions import lds, matrix, order, registers
from instructions.checks import FORMULA, ORDER, Record
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
have offsets of each kind, and buffers whose range ends within the result. So do indexed registers,
before each of which come instructions that set an index, and hardware registers.

All registers and the memory of each lane are compared afterwards, NaNs as NaNs. Approximations
(`exp`, `log`, `rcp`, `rsq`, `sqrt`, `sin`, `cos`) may differ by their error.

Where there is no text that can be run, the comparison is with a formula (below). That of a matrix
instruction says `D = A * B + C` and leaves the rounding open. Instructions without a result are
shown to change no register; most have an order to keep instead (below).

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
    columns = ("opcodes", "agree", "of them by a reading", "by a formula", "differ", "no result", "cases")
    text = head("encoding", *columns, numbers=len(columns))
    total = [0] * 7
    for encoding, some in groups.items():
        compared = [r for r in some if r.by != ORDER]
        agree = [r for r in compared if not r.samples]
        read = sum(any(x.opcodes.match(r.opcode.name) for x in readings()) for r in agree)
        cases = sum(sum(r.cases.values()) for r in some)
        formula = sum(r.by == FORMULA for r in agree)
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

Other instructions without a text that runs have a model in `benchmarks/instructions/lds.py` and
`registers.py`. LDS is compared with all registers afterwards.

"""
# Of each model: what it says, and where that is from.
MODELS = (
    (
        lds.SWIZZLES,
        "the lane that each lane reads: bit masks, four lanes, rotation, the order of a Fourier transform",
        "CDNA3 ISA, DS_SWIZZLE_B32; the pseudo-code of RDNA 3",
    ),
    (
        lds.COUNTERS,
        "a dword at M0 + offset moves by the number of active lanes, which get the old value",
        "CDNA3 ISA, DS_APPEND; LLVM, selectDSAppendConsume (a probe asks for the address)",
    ),
    (
        lds.TRANSPOSES,
        "sixteen lanes hold a matrix of 16 columns, row after row; lane i receives column i",
        'rocRoller\'s test on a gfx950, TransposeLoadsTest; CDNA4 ISA, "MFMA Transpose Load from LDS"',
    ),
    (
        lds.TO_LDS,
        "lane i's data at M0[17:2] * 4 + offset + i * 4, or i * 16 of three and four dwords; bytes extended",
        'CDNA3 and CDNA4 ISA, "Flat memory, Addressing"',
    ),
    (
        lds.BUFFER_TO_LDS,
        "with `lds`: the same, at M0[15:0], on gfx950 M0[17:0]; zeros beyond the range",
        'CDNA3 and CDNA4 ISA, "Memory Buffer Load to LDS"',
    ),
    (registers.ACCUMULATORS, "the bits of the active lanes", 'CDNA3 ISA, "Matrix core"'),
    (registers.CLOCKS, "later by what was issued between", "CDNA3 ISA, S_MEMTIME; nothing is said of its rate"),
)
UNDECIDED = """
## Probes

Only a GPU can decide these: `tkgen hardware-check --only instructions` says which reading it has.
`tkgen/emulate/undecided.toml` has an instruction, operands and both results for each.

"""
ORDERED = f"""
## No result

These order other instructions. `{order.TEST}` has code that needs each of them,
and runs it once more on an emulator that ignores the instruction, which must be found out.

"""
TIMED = """
These act on time, counters or caches that the emulator has no model of.

"""


def page(records: Sequence[Record]) -> str:
    """The whole page."""
    text = HEAD + table(records) + "\n## Differences\n\n"
    wrong = [f"- `{r.opcode.name}` ({r.opcode.encoding.name}): {r.samples[0]}\n" for r in records if r.samples]
    text += "".join(wrong) or "No opcode differs from its text or its reading.\n"
    text += READINGS + head("opcodes", "the text", "the emulator", "decided by")
    for r in readings():
        text += row([names(r.opcodes.pattern.removesuffix("$")), r.text, r.emulator, r.source or f"a probe: {r.probe}"])
    text += FORMULAS + head("opcodes", "model", "source")
    text += "".join(row([names(pattern.pattern.removesuffix("$")), says, source]) for pattern, says, source in MODELS)
    text += UNDECIDED + head("what", "opcodes", "the emulator", "the other reading", "source")
    for p in probes():
        does = (p["emulator_does"], p["other_does"])
        text += row([p["name"], names(p["opcodes"]), *does, p["source"].replace("|", "\\|")])
    for seen, title, heads in ((True, ORDERED, "order"), (False, TIMED, "effect")):
        text += title + head("opcodes", heads)
        text += "".join(
            row([", ".join(f"`{n}`" for n in some), p.does]) for p, some in silent(records) if p.seen == seen
        )
    return text


def silent(records: Sequence[Record]) -> list[tuple[order.Purpose, list[str]]]:
    """The instructions without a result, by their purpose."""
    found = [(p, {r.opcode.name: None for r in records if order.purpose(r.opcode.name) is p}) for p in order.purposes()]
    return [(p, list(some)) for p, some in found if some]
