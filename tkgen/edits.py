"""Edits of a spec that may make it faster: one number or one word at a time, each a whole new text.

    for change in changes(tkgen.load("specs/single_buffer.tk")):
        print(change.name)  # `buffers 2`, `step 32`, `group(rows = 16)`, `schedule ping_pong`, ...

Nothing here says whether an edit is right or fast: the checks and `tkgen predict --edits` do. The text that a spec was
read from is parsed once more; `roots` are the folders that its includes may reach beside its own. An edit of a sequence
is one of a kernel of it, `sums: waves 4`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tkgen.api import load
from tkgen.backends.cdna.spec import Spec
from tkgen.backends.spec import AnySpec
from tkgen.diagnostics import SpecError
from tkgen.diagnostics.text import suggestion
from tkgen.ir.products import has_products
from tkgen.ir.schedules import SCHEDULES
from tkgen.ir.types import Via
from tkgen.source import Span
from tkgen.syntax import ast
from tkgen.syntax.parser import parse_spec
from tkgen.syntax.statements import flatten

MOST_BUFFERS = 4
NEW = "\n\n  "  # before a statement that becomes the last one
REMAP = "remap xcd(8, chunk = 32) | group(rows = 8)"  # what pays for large products: docs/remaps.md


@dataclass(frozen=True)
class Knob:
    """A number of a spec: its place, the name of a value, and other values worth trying.

    `shown` is the name of a value with `{}` in its place. `parameter` is the parameter whose default it is, where it is
    `declared`, else what it would be called as one.
    """

    span: Span
    value: int
    others: tuple[int, ...]
    shown: str
    parameter: str
    declared: bool


@dataclass(frozen=True)
class Change:
    """One edit: what to call it, and the whole text of the spec with it."""

    name: str
    text: str


def changes(spec: AnySpec, roots: Sequence[Path] = ()) -> tuple[Change, ...]:
    """The edits worth trying; some of them the checks will refuse."""
    parsed = _parsed(spec, roots)
    text = parsed.span.file.text
    found = [
        Change(knob.shown.format(value), _replaced(text, knob.span, str(value)))
        for knob in _knobs(parsed, _inner(spec))
        for value in knob.others
    ]
    for kernel, called in _kernels(parsed):
        found += [replace(c, name=f"{called}{c.name}") for c in _words(kernel, text, parsed is kernel)]
    return tuple({change.name: change for change in found}.values())


def named(spec: AnySpec, name: str, roots: Sequence[Path] = ()) -> Change:
    """The edit of that name. Raises ValueError where there is none."""
    known = {" ".join(change.name.split()): change.text for change in changes(spec, roots)}
    wanted = " ".join(name.split())
    if wanted not in known:
        near = suggestion(wanted, list(known)) or f"; there are {', '.join(known)}"
        raise ValueError(f"`{name}` is no edit of {spec.path}{near}")
    return Change(wanted, known[wanted])


def _parsed(spec: AnySpec, roots: Sequence[Path]) -> ast.Kernel | ast.Sequence:
    """Parse the text that `spec` was read from."""
    return parse_spec(spec.path, roots, spec.kernels[0].program.spans["kernel"].file.text)


def _kernels(parsed: ast.Kernel | ast.Sequence) -> list[tuple[ast.Kernel, str]]:
    """The kernels of a file, and what the names of their edits begin with."""
    if isinstance(parsed, ast.Kernel):
        return [(parsed, "")]
    return [(kernel, f"{kernel.name.id}: ") for kernel in parsed.kernels]


def _inner(spec: AnySpec) -> set[str]:
    """The dimensions of a sequence that only memory between its kernels has: they say how the work is split."""
    program = spec.program
    if spec.kernels == (spec,):
        return set()
    return {d.name for d in program.dims} - {d.name for t in (*program.reads, *program.outputs) for d in t.dims}


def _knobs(parsed: ast.Kernel | ast.Sequence, inner: Collection[str]) -> tuple[Knob, ...]:
    """The numbers of a spec that are worth another value, where they are literals, or parameters with a literal."""
    found: dict[tuple[int, int], Knob] = {}
    for kernel, called in _kernels(parsed):
        given = {b.name.id: b.value for s in _own(kernel) if isinstance(s, ast.Param) for b in s.bindings}
        for statement in _own(kernel):
            for expression, shown, parameter, others in _numbers(statement, inner):
                declared = isinstance(expression, ast.Name)
                literal = given.get(expression.id) if isinstance(expression, ast.Name) else expression
                if isinstance(literal, ast.Number) and isinstance(literal.value, int):
                    value = literal.value
                    tried = tuple(n for n in others(value) if n > 0 and n != value)
                    name = expression.id if isinstance(expression, ast.Name) else parameter
                    shared = isinstance(statement, ast.Dims)
                    knob = Knob(literal.span, value, tried, shown if shared else f"{called}{shown}", name, declared)
                    found.setdefault((literal.span.start, literal.span.end), knob)
    return tuple(found.values())


def tunable(spec: AnySpec, roots: Sequence[Path] = ()) -> str:
    """The text of a spec with its numbers as parameters to tune, each over the values that pass the checks alone.

    Empty where no other value of any number passes.
    """
    parsed = _parsed(spec, roots)
    text, lines = parsed.span.file.text, list[str]()
    names = {d.name for d in spec.program.dims} | {t.name for t in spec.program.arguments}
    edits: list[tuple[Span, str]] = []
    for knob in _knobs(parsed, _inner(spec)):
        passing = [n for n in knob.others if passes(spec, _replaced(text, knob.span, str(n)), roots)]
        parameter = knob.parameter
        if parameter in names and ":" in knob.shown:  # another kernel of the sequence has one of that name
            parameter = f"{knob.shown.partition(':')[0]}_{parameter}".upper()
        if not passing or parameter in names:
            continue
        names.add(parameter)
        values = sorted({knob.value, *passing})
        if not knob.declared:
            lines.append(f"param {parameter} = {knob.value}")
            edits.append((knob.span, parameter))
        lines.append(f"tune {parameter} in {', '.join(map(str, values))}")
    if not lines:
        return ""
    for span, new in sorted(edits, key=lambda e: -e[0].start):
        text = _replaced(text, span, new)
    indent = "  " if isinstance(parsed, ast.Kernel) else ""
    head = text.index("\n", parsed.name.span.end) + 1
    return text[:head] + "".join(f"{indent}{line}\n" for line in lines) + "\n" + text[head:]


def worded(spec: AnySpec, roots: Sequence[Path] = ()) -> dict[str, Spec[Any]]:
    """A fused matmul with each schedule and way to LDS that passes the checks, by their words: `interleave_direct`.

    Its own schedule and way are not among them. Of other kernels there are none: the checks choose their schedule.
    """
    found: dict[str, Spec[Any]] = {}
    if not isinstance(spec, Spec) or spec.plan or not has_products(spec.program.kernel):
        return found
    scheduled = {"": spec} | _with_words(spec, "schedule", roots)
    for name, one in scheduled.items():
        for way, other in ({"": one} | _with_words(one, "via", roots)).items():
            found["_".join(filter(None, (name, way)))] = other
    return {name: other for name, other in found.items() if name}


def _with_words(spec: Spec[Any], kind: str, roots: Sequence[Path]) -> dict[str, Spec[Any]]:
    """The spec with each other word of a kind that passes the checks and makes another kernel of it, by that word."""
    found: dict[str, Spec[Any]] = {}
    for change in changes(spec, roots):
        if change.name.split()[0] == kind and passes(spec, change.text, roots):
            other = load(spec.path, spec.defines, spec.target.name, roots, change.text)
            if isinstance(other, Spec) and other.source.text != spec.source.text:
                found[change.name.split()[1]] = other
    return found


def passes(spec: AnySpec, text: str, roots: Sequence[Path] = ()) -> bool:
    """Return True if `text` in the place of `spec` passes all checks."""
    try:
        load(spec.path, spec.defines, spec.target.name, roots, text).check()
    except SpecError:
        return False
    return True


def _own(kernel: ast.Kernel) -> Iterator[ast.Statement]:
    """The statements of the spec's own file, those of roles included."""
    for statement in flatten(kernel.body):
        if statement.span.file is kernel.span.file:
            yield statement
            if isinstance(statement, ast.Role):
                yield from (s for s in statement.body if s.span.file is kernel.span.file)


def _double(value: int) -> Sequence[int]:
    return value // 2, value * 2


def _numbers(
    statement: ast.Statement, inner: Collection[str]
) -> Iterator[tuple[ast.Expr, str, str, Callable[[int], Sequence[int]]]]:
    """(expression, name of a value, parameter, other values) of a statement's numbers; of dimensions, those `inner`."""
    match statement:
        case ast.Dims():
            for binding in statement.bindings:
                if binding.name.id in inner and binding.value is not None:
                    yield binding.value, f"{binding.name.id} = {{}}", f"{binding.name.id}_SIZE", _double
        case ast.Block():
            rows, cols, step = (e.span.text for e in (statement.rows, statement.cols, statement.step))
            yield statement.rows, f"block {{}} x {cols} step {step}", "ROWS", _double
            yield statement.cols, f"block {rows} x {{}} step {step}", "COLS", _double
            yield statement.step, f"block {rows} x {cols} step {{}}", "STEP", _double
        case ast.Over():
            for axis in statement.axes:
                if axis.tile is not None:
                    yield axis.tile, f"{axis.name.id} by {{}}", f"{axis.name.id}_tile".upper(), _double
        case ast.Each() if statement.tile is not None:
            yield statement.tile, f"{statement.name.id} by {{}}", f"{statement.name.id}_step".upper(), _double
        case ast.Grid(call=ast.Call(args=(count,)) as call):
            yield count, f"grid {call.name.id}({{}})", "GRID", _double
        case ast.Waves(cols=None):
            yield statement.rows, "waves {}", "WAVES", _double
        case ast.Waves(cols=ast.Number() | ast.Name() as cols):
            yield statement.rows, f"waves {{}} x {cols.span.text}", "WAVE_ROWS", _double
            yield cols, f"waves {statement.rows.span.text} x {{}}", "WAVE_COLS", _double
        case ast.Shared(buffers=ast.Number() | ast.Name() as buffers):
            yield buffers, "buffers {}", "BUFFERS", lambda n: range(max(n - 1, 1), min(n + 1, MOST_BUFFERS) + 1)
        case ast.Registers():
            if statement.buffers is not None:
                yield statement.buffers, "registers ... buffers {}", "REGISTER_BUFFERS", lambda n: (1, 2)
            if statement.slice is not None:
                yield statement.slice, "registers ... slice {}", "SLICE", _double
        case ast.Remap():
            for call in statement.calls:
                for key, value in call.keywords:
                    name = f"{call.name.id}({key.id} = {{}})"
                    yield value, name, f"{call.name.id}_{key.id}".upper(), _double
        case ast.Unroll():
            yield statement.count, "unroll {}", "UNROLL", _double


def _words(kernel: ast.Kernel, text: str, alone: bool) -> Iterator[Change]:
    """Yield changes of words: schedules, ways to LDS, and a remap or register buffers where there are none."""
    body = list(_own(kernel))
    written = [s for s in body if isinstance(s, ast.Schedule)]
    presets = [s for s in written if s.preset is not None]
    for name in SCHEDULES:
        if presets and presets[0].preset is not None and presets[0].preset.id != name:
            yield Change(f"schedule {name}", _replaced(text, presets[0].preset.span, name))
        elif not written:
            at = len(text.rstrip()) if alone else _end(kernel, text)
            yield Change(f"schedule {name}", f"{_inserted(text, at, f'{NEW}schedule {name}').rstrip()}\n")
    for shared in (s for s in body if isinstance(s, ast.Shared)):
        for way in (w.value for w in Via):
            if (shared.via.id if shared.via else Via.COLLECTIVE.value) == way or len(written) > len(presets):
                continue
            if shared.via:
                yield Change(f"via {way}", _replaced(text, shared.via.span, way))
            else:
                yield Change(f"via {way}", _inserted(text, shared.span.end, f" via {way}"))
    for registers in (s for s in body if isinstance(s, ast.Registers) and s.buffers is None):
        yield Change("registers ... buffers 2", _inserted(text, registers.span.end, " buffers 2"))
    block = next((s for s in body if isinstance(s, ast.Block | ast.Over)), None)
    if block and not any(isinstance(s, ast.Remap) for s in body):
        yield Change(REMAP, _inserted(text, block.span.end, f"\n  {REMAP}"))


def _replaced(text: str, span: Span, new: str) -> str:
    return text[: span.start] + new + text[span.end :]


def _inserted(text: str, at: int, new: str) -> str:
    return text[:at] + new + text[at:]


def _end(kernel: ast.Kernel, text: str) -> int:
    """Return the offset at which the last line of a kernel ends."""
    last = max(s.span.end for s in (kernel.name, *_own(kernel)))
    end = text.find("\n", last)
    return len(text) if end < 0 else end
