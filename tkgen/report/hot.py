"""Instructions, cycles and registers of a build by line of its spec: which equation is hot.

>>> build = tkgen.load("specs/rows/softmax.tk").build()
>>> (found,) = hot_kernels(build, models(build))
>>> found.lines[0].text, found.lines[0].vector_share
("e = exp(x - rowmax(x))", 0.41)

The line tables of the compiler lead from an instruction to lines of the generated C++, and these belong to equations
(`Source.equations`). Waits, barriers and branches belong to no line, nor do addresses that were moved out of a loop.
Everything is counted once: the rows add up to the totals.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tkgen.backends.cdna.lower.origins import Source
from tkgen.ir.equations import Store, walk, writes
from tkgen.ir.functions import CDNA, FUNCTIONS, HOPPER
from tkgen.report.texts import Rows
from tkgen.toolchain.compiler import Location
from tkgen.toolchain.isa import classify, main_loop
from tkgen.toolchain.liveness import fullest, relatives

if TYPE_CHECKING:
    from tkgen.backends import protocol
    from tkgen.predict.events import Recording
    from tkgen.predict.prediction import Model, Prediction

WAITS, BRANCHES, OTHER, UNUSED = "waits", "branches", "other", "unused"
OUTSIDE = {  # rows for what belongs to no line, and what each is
    WAITS: "waits and barriers", BRANCHES: "jumps of loops and masks", OTHER: "addresses, moved code",
    UNUSED: "registers without a value",
}  # fmt: skip
LITTLE, SHOWN = 0.05, 0.005  # shares below which a line is not hot, and not named
_HEAD = re.compile(r"__device__ [^;={]*?(\w+)\(")


@dataclass(frozen=True)
class HotLine:
    """A line of the spec, or a row of `OUTSIDE`: then `line` is 0 and `name` that row.

    `row` is its number in the lines of all files (`texts.Rows`). `equation`: the line computes something.
    `instructions` are those of the machine code, `looped` those of the main loop. `vector` and `matrix` instructions
    are those that the waves of a block execute. `time` is the share of a block's waves' time, and `cycles` are those of
    an iteration, where there is a loop, else of a wave; None where no model follows the machine code. `registers` have
    a result of the line where most registers hold a value. `functions` counts vector instructions by function, of
    functions that the generated code calls.
    """

    name: str
    file: str
    line: int
    row: int
    text: str
    equation: bool
    instructions: int
    looped: int
    vector: float
    vector_share: float
    matrix: float
    matrix_share: float
    time: float | None
    cycles: float | None
    registers: int
    functions: Mapping[str, float] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """`line 21`, `line 3 of tensors.tk`; the name of a row outside of lines."""
        return f"line {self.line}{f' of {self.file}' if self.file else ''}" if self.line else self.name


@dataclass(frozen=True)
class Cheaper:
    """A cheaper form of what a line computes, predicted: the edit, and how many times as fast the kernel is with it."""

    kernel: str
    change: str
    line: int
    seconds: float
    speedup: float


@dataclass(frozen=True)
class Hot:
    """The lines of a kernel, the hottest first, then the rows of `OUTSIDE`.

    `total` has the sums. `step` names what `cycles` are of; None where there are none. `cheaper` is what was predicted
    of another form of an equation.
    """

    kernel: str
    lines: tuple[HotLine, ...]
    total: HotLine
    step: str | None
    cheaper: Cheaper | None = None

    @property
    def hottest(self) -> HotLine | None:
        """The equation that takes most time, or most vector instructions where no time is known."""
        return max((x for x in self.lines if x.equation), key=_heat, default=None)

    @property
    def vector_line(self) -> HotLine | None:
        """The equation with most of the vector instructions that are executed."""
        found = [x for x in self.lines if x.equation and x.vector]
        return max(found, key=lambda x: x.vector, default=None)

    @property
    def sentence(self) -> str:
        """The hottest equation in a sentence, with the prediction of a cheaper form; empty where there is none."""
        first, second = self.hottest, self.vector_line
        if first is None:
            return ""
        parts = [f"{_subject(first)} is {_shares(first)}"]
        if second is not None and second != first:
            parts.append(f"{_subject(second)} is {_shares(second)}")
        if self.cheaper is not None:
            change = self.cheaper
            where = "" if second and change.line == second.line else f" in line {change.line}"
            gain = f"{change.speedup:.2f} times as fast" if abs(change.speedup - 1) >= 0.005 else "no faster"
            form, _, of = change.change.partition(" for ")
            named = second is not None and not where and _subject(second).startswith(f"{of} in ")
            how = f"as {form}" if named else f"with {change.change}{where}"
            parts.append(f"{how} the kernel is predicted {gain}")
        return "; ".join(parts)


def _heat(line: HotLine) -> tuple[float, float]:
    if line.time is not None:
        return line.time, line.vector
    return (line.vector_share if line.vector_share >= LITTLE else 0.0), line.matrix


def _subject(line: HotLine) -> str:
    name = max(line.functions, key=lambda f: line.functions[f], default="")
    if name and line.functions[name] >= line.vector / 2:
        return f"`{name}` in {line.place}"
    return f"{line.place}, `{line.text}`,"


def _shares(line: HotLine) -> str:
    shares = ((line.matrix_share, "matrix instructions"), (line.vector_share, "vector instructions"),
              (line.time or 0.0, "time"))  # fmt: skip
    said = [f"{share:.0%} of the {what}" for share, what in shares if share >= SHOWN]
    *others, last = said or ["less than 1% of everything"]
    return f"{', '.join(others)} and {last}" if others else last


def to_json(found: Hot) -> dict[str, Any]:
    """The lines as plain data, with the sentence."""
    return asdict(found) | {"sentence": found.sentence}


def hot_kernels(build: protocol.Build, known: Sequence[Model], predictions: Sequence[Prediction]) -> tuple[Hot, ...]:
    """The lines of each kernel of a build, of its models and predictions (`predict.models`, `predict.predicted`).

    Raises ToolchainError where the machine code has no lines.
    """
    kernels = zip(build.kernels, known, predictions, strict=True)
    return tuple(hot_lines(kernel, model, prediction) for kernel, model, prediction in kernels)


def hot_lines(build: Any, model: Any, prediction: Prediction, recording: Recording | None = None) -> Hot:
    """The lines of a build of one kernel, of its model's `recording`, where that is known. See `hot_kernels`."""
    if build.function is None:
        code, cpp, back_end = _of_hopper(build, model), f"{build.spec.name}.cu", HOPPER
        allotted, waves = max(build.figures.registers, *(build.spec.moved_registers or (0,))), 1
    else:
        code, cpp, back_end = _followed(build, model, recording or model.recording()), f"{build.spec.name}.cpp", CDNA
        allotted, waves = build.resources.vgpr + build.resources.agpr, len(model.streams)
    rows = _Attribution(build.spec.source, cpp, back_end, build.spec.program.origins.files[0].name)
    return _summed(build, code, rows, prediction, allotted, waves)


# ---------------------------------------------------------------- instructions


@dataclass(frozen=True)
class Coded:
    """An instruction: its `kind` as `HotLine` counts it, where it comes from, how often a block's waves execute it.

    `cycles` are those of all of them, `step_cycles` of one iteration, None where no model follows the machine code. An
    instruction without a line has that of the first of its `relatives` with one.
    """

    kind: str
    sources: tuple[Location, ...]
    looped: bool
    executed: float
    holds: int
    cycles: float | None = None
    step_cycles: float | None = None
    relatives: tuple[int, ...] = ()


_KINDS = {"mfma": "matrix", "valu": "vector", "barrier": "wait", "wait": "wait", "branch": "branch"}


def _followed(build: Any, model: Any, recording: Recording) -> list[Coded]:
    """The instructions of a kernel whose waves the model follows."""
    from tkgen.report.timeline import positions

    position = positions(build)
    executed, cycles, step = (defaultdict[int, float](float) for _ in range(3))
    for stream, spent in zip(model.streams, recording.spent, strict=True):
        body = {x.address for x in stream.body}
        for part, times in ((stream.prologue, 1), (stream.body, stream.passes), (stream.epilogue, 1)):
            for x in part:
                executed[position[x.address]] += times
        for address, taken in spent.items():
            inside = address in body
            cycles[position[address]] += taken * (stream.passes if inside else 1)
            step[position[address]] += taken if inside or not body else 0.0
    function, peak = build.function, Counter(fullest(build.function).made.values())
    loop = main_loop(function)
    looped, near = {x.line for x in loop.instructions} if loop else set(), relatives(function)
    return [
        Coded(
            _KINDS.get(classify(x)[0], "other"), x.sources, x.line in looped, executed[n], peak[n], cycles[n], step[n],
            near[n],
        )
        for n, x in enumerate(function.instructions)
    ]  # fmt: skip


_MATRIX = ("HGMMA", "QGMMA", "IGMMA")
_WAITS = ("SYNCS", "BAR", "WARPGROUP", "DEPBAR", "LDGDEPBAR", "WARPSYNC", "NANOSLEEP", "MEMBAR", "FENCE", "ERRBAR",
          "UTMACMDFLUSH", "ACQBULK", "NOP", "UCGABAR_ARV", "UCGABAR_WAIT", "YIELD")  # fmt: skip
_BRANCHES = ("BRA", "EXIT", "BSSY", "BSYNC", "CALL", "RET", "BREAK", "JMP", "BRX", "BMOV", "ELECT", "PLOP3")
_MOVES = ("LD", "ST", "UTMA", "ATOM", "RED", "CCTL", "S2", "R2UR", "CS2R", "USET", "SETMAX")


def _sass_kind(opcode: str) -> str:
    """The kind of an instruction of Hopper, by its opcode (CUDA Binary Utilities, instruction set of Hopper)."""
    name = opcode.partition(".")[0]
    if name in _MATRIX:
        return "matrix"
    if name in _WAITS:
        return "wait"
    if name in _BRANCHES:
        return "branch"
    return "other" if name.startswith((*_MOVES, "U")) else "vector"


def _of_hopper(build: Any, model: Any) -> list[Coded]:
    """The instructions of a kernel for Hopper; how often a loop is executed is the model's."""
    from tkgen.backends.hopper.line_tables import placed

    repeated = [
        ({x.address for x in loop.instructions}, times) for loop, times in model.repeated
    ]  # of nested loops the inner one first
    found = []
    for x in placed(build):
        times = next((times for addresses, times in repeated if x.address in addresses), None)
        found.append(Coded(_sass_kind(x.opcode), x.sources, times is not None, times or 1.0, x.holds))
    # ptxas moves products and leaves out lines: one that is not of the header with products has a neighbour's line.
    products = [n for n, x in enumerate(found) if x.kind == "matrix"]
    placed_ones = [n for n in products if any("wgmma" in at.file.rpartition("/")[2] for at in found[n].sources)]
    for n in set(products) - set(placed_ones) if placed_ones else ():
        found[n] = replace(found[n], sources=(), relatives=(min(placed_ones, key=lambda other: abs(other - n)),))
    return found


# ---------------------------------------------------------------- lines


class _Attribution:
    """From lines of a generated file called `cpp` to lines of the spec in `main`, and to functions of equations."""

    def __init__(self, source: Source, cpp: str, back_end: str, main: str):
        self.source, self.cpp, self.main = source, cpp, main
        text = source.text.split("\n")
        self.body = next(number for number, line in enumerate(text, 1) if line.startswith("__global__"))
        self.functions: dict[int, str] = {}  # by line of a helper
        called = ""
        for number, line in enumerate(text[: self.body - 1], 1):
            if match := _HEAD.search(line):
                called = match[1]
            calls = re.compile(rf"\b{called}\(")
            named = (f.name for f in FUNCTIONS.values() if called and calls.search(f.cpp.get(back_end, "")))
            self.functions[number] = next(named, "")

    def place(self, sources: Iterable[Location]) -> tuple[tuple[str, int] | None, str]:
        """File and line of the spec, None for neither; the function of equations whose code it is, or nothing."""
        inner, lines = "", list[int]()
        for at in sources:
            if at.file.rpartition("/")[2] == self.cpp:
                if at.line < self.body:
                    inner = self.functions.get(at.line, "") or inner
                else:
                    lines.append(at.line)
        equations = (self.source.equations[n - 1] for n in lines)
        found = next((e for e in equations if e), None)
        if found is None:
            origins = (o for n in lines for o in self.source.origins[n - 1])
            found = next(((o.file.name, o.line) for o in origins), None)
        return found, inner if found else ""


def _with_relatives(
    code: Sequence[Coded], known: Sequence[tuple[tuple[str, int] | None, str]]
) -> list[tuple[tuple[str, int] | None, str]]:
    """The places of instructions, `known` ones, and for others those of the first of their relatives that has one."""
    found = list(known)
    missing = [n for n, x in enumerate(code) if found[n][0] is None and x.relatives]
    while missing:
        for n in reversed(missing):
            if near := next((found[r][0] for r in code[n].relatives if found[r][0]), None):
                found[n] = (near, "")
        left = [n for n in missing if found[n][0] is None]
        if len(left) == len(missing):
            break
        missing = left
    return found


def _equations(program: Any) -> set[tuple[str, int]]:
    """File and line of each equation: of a product, of what is made of its sums."""
    if program.contraction is None:
        ops = list(walk(program.kernel.body))
    else:
        ops = [*program.equations.epilogue, *program.equations.stores]
    spans = [op.span if isinstance(op, Store) else next((v.span for v in writes(op)), None) for op in ops]
    return {(span.file.name, span.line) for span in spans if span is not None}


def _summed(build: Any, code: Sequence[Coded], attribution: _Attribution, prediction: Prediction,
            allotted: int, waves: int) -> Hot:  # fmt: skip
    """All instructions by line; `allotted` are the registers of a lane."""
    by_line = defaultdict[tuple[str, int] | str, list[Coded]](list)
    functions = defaultdict[tuple[str, int] | str, dict[str, float]](dict)
    places = _with_relatives(code, [attribution.place(x.sources) for x in code])
    for x, (place, function) in zip(code, places, strict=True):
        row = {"wait": WAITS, "branch": BRANCHES}.get(x.kind) or place or OTHER
        by_line[row].append(x)
        if function and x.kind == "vector":
            functions[row][function] = functions[row].get(function, 0.0) + x.executed
    vector = sum(x.executed for x in code if x.kind == "vector")
    multiplied = sum(x.executed for x in code if x.kind == "matrix")
    known = bool(code) and code[0].cycles is not None
    time = sum(x.cycles or 0.0 for x in code)
    step = sum(x.step_cycles or 0.0 for x in code)
    shown = prediction.loop.cycles if prediction.loop else step / waves
    equations = {place for place in attribution.source.equations if place} | _equations(build.spec.program)
    files = {file.name: file for file in build.spec.program.origins.files}
    rows = Rows(build.spec.program.origins.files)

    def made(row: tuple[str, int] | str, these: Sequence[Coded]) -> HotLine:
        own = sum(x.executed for x in these if x.kind == "vector")
        file, line = row if isinstance(row, tuple) else ("", 0)
        matrix = sum(x.executed for x in these if x.kind == "matrix")
        return HotLine(
            name="" if line else str(row),
            file=file.rpartition("/")[2] if file and file != attribution.main else "",
            line=line,
            row=rows.row(file, line) if line else 0,
            text=files[file].line(line).partition("#")[0].strip() if isinstance(row, tuple) else OUTSIDE.get(row, ""),
            equation=row in equations or bool(matrix and line),
            instructions=len(these),
            looped=sum(x.looped for x in these),
            vector=own,
            vector_share=own / vector if vector else 0.0,
            matrix=matrix,
            matrix_share=matrix / multiplied if multiplied else 0.0,
            time=sum(x.cycles or 0.0 for x in these) / time if known and time else None,
            cycles=sum(x.step_cycles or 0.0 for x in these) / step * shown if known and step else None,
            registers=sum(x.holds for x in these),
            functions=functions.get(row, {}),
        )

    total = made("total", code)
    if allotted > total.registers:
        by_line[UNUSED] = []
    lines = [made(row, these) for row, these in by_line.items() if isinstance(row, tuple)]
    lines.sort(key=lambda x: (*(-n for n in _heat(x)), x.file, x.line))
    outside = [made(row, by_line[row]) for row in OUTSIDE if row in by_line]
    if UNUSED in by_line:
        outside[-1] = replace(outside[-1], registers=allotted - total.registers)
        total = replace(total, registers=allotted)
    step_name = (prediction.loop.name if prediction.loop else "wave") if known else None
    return Hot(build.spec.name, (*lines, *outside), total, step_name)
