"""Mutants of a layout of rows over lanes, and the emulator as their referee.

    for mutant in mutants(layout):
        mutant.kind, mutant.what, mutant.layout

Steps of an iteration, operations of its sweeps, numbers of the layout are changed, one at a time, as a slip of the pen
would.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from tkgen.api import load
from tkgen.backends.cdna.kittens import include_dir
from tkgen.backends.cdna.lower.rows import RowLowering
from tkgen.backends.cdna.spec import Spec
from tkgen.build import Build
from tkgen.diagnostics import SpecError
from tkgen.emulate import EmulateError, Interleaving
from tkgen.execute.launch import run
from tkgen.schedule.row_verifier import wrong
from tkgen.schedule.rows import RowMap
from tkgen.schedule.sweeps import Sweep
from tkgen.tile.ops import Barrier, ElementLoop, SharedLoad, SharedStore
from tkgen.tile.program import Advance, Loop, Node
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.compiler import Compiler, ToolchainError
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.metadata import read_resources

NUMBERS = ("lanes", "chunk", "chunks", "across", "held", "passes")
# Lengths of rows that lead to lanes, waves or the whole block sharing one, with as many waves; None: as the spec is.
SIZES: dict[str, tuple[dict[str, int | None], ...]] = {
    "softmax": ({"D": 60}, {"D": 1000}, {"D": 8192}, {"D": 16384}),
    "layernorm": ({"D": 63}, {"D": 1024}, {"D": 4096}, {"D": 16384}),
    "rmsnorm": ({"D": 129}, {"D": 2048}, {"D": 8192}),
    "rotary": ({}, {"HALF": 30}),
    "elementwise": ({},),
    "transpose": ({}, {"COLS": 65}),
    "long_softmax": ({"D": 5000},),
    "norm_gradient": ({"TOKENS": 600},),
    "quantise_int8": ({"D": 1000}, {"D": 8192}),
    "quantise_rmsnorm": ({"D": 1024},),
    "quantise_rows": ({"D": 65}, {"D": 4096}),
    "quantise_swiglu": ({"BLOCKS": 3},),
    "mxfp8_rows": ({"BLOCKS": 5},),
    "mxfp4_rows": ({"BLOCKS": 5},),
    "mxfp6_rows": ({"BLOCKS": 5},),
}


@dataclass(frozen=True)
class Changed(RowMap):
    """A layout with steps and sweeps of its own."""

    own_steps: tuple[Node, ...] = ()
    own_sweeps: tuple[Sweep, ...] = ()

    @property
    def steps(self) -> tuple[Node, ...]:  # type: ignore[override]
        """Those that it was given."""
        return self.own_steps

    @property
    def sweeps(self) -> tuple[Sweep, ...]:  # type: ignore[override]
        """Those that it was given."""
        return self.own_sweeps


@dataclass(frozen=True)
class RowMutant:
    """`kind` as the benchmark counts them, `what` in words; `layout` is the mutated one."""

    kind: str
    what: str
    layout: RowMap


def mutants(m: RowMap) -> Iterator[RowMutant]:
    """All mutants of a layout, in a fixed order."""
    own: dict[str, Any] = {f.name: getattr(m, f.name) for f in fields(m)}
    base = Changed(**own, own_steps=m.steps, own_sweeps=m.sweeps)
    for kind, what, steps in _steps(m.steps):
        yield RowMutant(kind, what, replace(base, own_steps=steps))
    for kind, what, sweeps in _sweeps(m.sweeps):
        yield RowMutant(kind, what, replace(base, own_sweeps=sweeps))
    for name in NUMBERS:
        value = getattr(m, name)
        near = {value + 1, value - 1} if name != "lanes" else set()  # lanes are powers of two
        for other in sorted(({value * 2, value // 2} | near) - {value, 0, -1}):
            yield RowMutant(f"change {name}", f"{value} to {other}", replace(m, **{name: other}))


WORDS = {
    ElementLoop: "element loop",
    SharedStore: "shared store",
    Barrier: "barrier",
    SharedLoad: "shared load",
    Loop: "loop",
}


def _steps(steps: tuple[Node, ...]) -> Iterator[tuple[str, str, tuple[Node, ...]]]:
    """Mutants of steps, except of the ops by which exchanges are counted."""
    places = [n for n, step in enumerate(steps) if not isinstance(step, Advance)]
    for n, behind in zip(places, [*places[1:], None], strict=True):
        step = steps[n]
        where, word = f"{_named(step)} at {n - sum(isinstance(s, Advance) for s in steps[:n])}", WORDS[type(step)]
        if isinstance(step, Loop):
            for kind, what, inner in _steps(step.body):
                yield kind, f"{what} of the {where}", (*steps[:n], replace(step, body=inner), *steps[n + 1 :])
        yield f"drop {word}", where, (*steps[:n], *steps[n + 1 :])
        yield f"duplicate {word}", where, (*steps[:n], step, *steps[n:])
        if behind is not None:
            yield "swap steps", where, _with(_with(steps, n, steps[behind]), behind, step)
        if isinstance(step, SharedStore | SharedLoad):
            yield "other half", where, _with(steps, n, _other_half(step))
            both = tuple(_other_half(s) if isinstance(s, SharedStore | SharedLoad) and s.number == step.number else s
                         for s in steps)  # fmt: skip
            if isinstance(step, SharedStore):
                yield "other half", f"{where} and its load", both


def _with(steps: tuple[Node, ...], at: int, step: Node) -> tuple[Node, ...]:
    return (*steps[:at], step, *steps[at + 1 :])


def _other_half(step: SharedStore | SharedLoad) -> Node:
    if isinstance(step, SharedStore):
        return replace(step, to=replace(step.to, ahead=step.to.ahead + 1))
    return replace(step, source=replace(step.source, ahead=step.source.ahead + 1))


def _named(step: Node) -> str:
    """A step in a word, with what tells it from others."""
    match step:
        case ElementLoop(number=number):
            return f"{WORDS[type(step)]} {number}"
        case SharedStore(number=number, to=region) | SharedLoad(number=number, source=region):
            return f"{WORDS[type(step)]} {number}, half {region.ahead},"
    return WORDS[type(step)]


def _sweeps(sweeps: tuple[Sweep, ...]) -> Iterator[tuple[str, str, tuple[Sweep, ...]]]:
    for n, sweep in enumerate(sweeps):
        for part in ("rows", "elements", "reduces", "parts", "whole"):
            ops = getattr(sweep, part)
            for at, op in enumerate(ops):
                where = f"{type(op).__name__.lower()} {at} of the {part} of sweep {n}"
                fewer = replace(sweep, **{part: (*ops[:at], *ops[at + 1 :])})
                yield "drop operation", where, (*sweeps[:n], fewer, *sweeps[n + 1 :])
                if at + 1 < len(ops):
                    turned = replace(sweep, **{part: (*ops[:at], ops[at + 1], op, *ops[at + 2 :])})
                    yield "swap operations", where, (*sweeps[:n], turned, *sweeps[n + 1 :])
                for to in (n - 1, n + 1):
                    if 0 <= to < len(sweeps):
                        moved = list(sweeps)
                        moved[n] = fewer
                        there = getattr(sweeps[to], part)
                        moved[to] = replace(sweeps[to], **{part: (*there, op)})
                        yield "move operation", f"{where} to {to}", tuple(moved)


# ---------------------------------------------------------------- referee


def small(path: Path) -> Iterator[tuple[str, Spec]]:
    """The spec at several row lengths, with two tiles along each axis, the second of which hangs over the end."""
    for given in SIZES[path.stem]:
        whole = load(path)
        assert isinstance(whole, Spec)
        tiles = {a.dim.name: a.tile or 1 for a in whole.program.parallel if a.dim.name not in given}
        spec = load(path, {name: tile + (tile + 1) // 2 for name, tile in tiles.items()} | given)
        assert isinstance(spec, Spec)
        yield f"{path.stem} {' '.join(f'{n}={v}' for n, v in given.items())}".strip(), spec.check()


class RowReferee:
    """Says what is wrong with layouts of one spec; equal sources are run once."""

    def __init__(self, spec: Spec, orders: Iterable[Interleaving]):
        self.spec, self.orders = spec, tuple(orders)
        self.compiler = find_compiler(spec.target)
        # Registers that nothing set are undefined, and may happen to hold zero. With this they hold NaN.
        self.strict = replace(self.compiler, command=(*self.compiler.command, "-ftrivial-auto-var-init=pattern"))
        self.verdicts: dict[str, str] = {}

    @property
    def original(self) -> RowMap:
        """The layout of the spec."""
        return self.spec.layout

    def written(self, m: RowMap) -> str:
        """The C++ of a layout."""
        return RowLowering(m).source(self.spec.target, occupancy=self.spec.program.occupancy).text

    def patched(self, m: RowMap) -> Spec:
        """The spec with another layout."""
        spec = replace(self.spec)
        spec.__dict__.update(layout=m, schedule=m)
        return spec

    def source(self, m: RowMap) -> str:
        """The same as `written`; empty where it cannot be written."""
        try:
            return self.written(m)
        except (KeyError, IndexError, ValueError, ZeroDivisionError):
            return ""

    def changes(self, m: RowMap) -> bool:
        """Return True if the kernel is another one."""
        return self.source(m) != self.source(self.original)

    def rejected(self, m: RowMap) -> tuple[str, ...]:
        """The rules that do not hold, none where the layout is accepted."""
        return tuple(sorted({rule for rule, _ in wrong(m, self.spec.target)}))

    def fault(self, m: RowMap) -> str:
        """The fault when it runs; empty if every order of the waves gives the right values."""
        source = self.source(m)
        if not source:
            return "cannot be written"
        if source not in self.verdicts:
            self.verdicts[source] = self._run(m, source)
        return self.verdicts[source]

    def _run(self, m: RowMap, source: str) -> str:
        try:
            return self._tried(m, source, self.compiler, self.orders) or self._tried(
                m, source, self.strict, self.orders[:1]
            )
        except ToolchainError as error:
            return f"does not compile: {error.message}"
        except (EmulateError, SpecError) as error:
            return f"does not run: {error}"

    def _tried(self, m: RowMap, source: str, compiler: Compiler, orders: Iterable[Interleaving]) -> str:
        spec = self.patched(m)
        made = compile_device(source, spec.target, compiler, include_dirs=[include_dir()])
        assert made.asm is not None and made.hsaco is not None
        resources = next(iter(read_resources(made.hsaco).values()))
        build = Build(spec, compiler, made.asm, made.hsaco, resources, None, made.seconds, False)
        for order in orders:
            if failure := run(build, order=order).failure:
                return f"{order}: {failure}"
        return ""
