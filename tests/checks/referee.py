"""The emulator as the referee of mutants: a plan is compiled, run on a small problem and compared with torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import tkgen.api
from tkgen.api import Spec
from tkgen.build import Build
from tkgen.checks import check
from tkgen.diagnostics import Severity
from tkgen.emulate import EmulateError, Outcome
from tkgen.kittens import include_dir
from tkgen.lower import lower
from tkgen.run import Interleaving, run
from tkgen.schedule import Plan, plan
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.compiler import Compiler, ToolchainError
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.metadata import read_resources

STEPS = 5  # K-steps: odd, and enough for every prologue, a loop and every epilogue


def small(path: Path) -> Spec:
    """The spec for a problem of one block (two for a persistent one, which then takes both) and a few K-steps."""
    program = tkgen.api.load(path).program
    rows, cols, step = program.block
    persistent = program.grid.name == "persistent"
    steps = STEPS + STEPS % (program.unroll or 1) if program.unroll else STEPS
    sizes = {program.m.name: rows * (2 if persistent else 1), program.n.name: cols, program.k.name: step * steps}
    spec = tkgen.api.load(path, {name: size for name, size in sizes.items() if name is not None})
    if not persistent:
        return spec
    single = replace(spec.program, grid=replace(spec.program.grid, count=1))
    return replace(spec, program=single, plan=plan(single))


def rejected(spec: Spec, mutant: Plan) -> tuple[str, ...]:
    """The codes of the errors that the checks find, none where they accept it."""
    found = check(mutant, spec.target)
    return tuple(sorted({d.code for d in found if d.severity is Severity.ERROR}))


class Referee:
    """Says what is wrong with plans of one spec; equal sources are run once."""

    def __init__(self, spec: Spec, orders: Iterable[Interleaving]):
        self.spec = spec
        self.orders = tuple(orders)
        self.compiler = find_compiler(spec.target)
        # Registers that nothing set are undefined, and may happen to hold zero. With this they hold NaN.
        self.strict = replace(self.compiler, command=(*self.compiler.command, "-ftrivial-auto-var-init=pattern"))
        self.verdicts: dict[str, str] = {}
        self.stored = self._stored()  # bytes that the unchanged kernel stores

    def source(self, mutant: Plan) -> str:
        """The C++ of a plan."""
        return lower(mutant, self.spec.target.name, str(self.spec.path)).text

    def changes(self, mutant: Plan) -> bool:
        """Whether the kernel is another one: with one buffer, say, a read of the next step is the same code."""
        return self.source(mutant) != self.spec.source.text

    def fault(self, mutant: Plan) -> str:
        """What goes wrong when the plan runs, empty where every order of the waves gives the right numbers."""
        source = self.source(mutant)
        if source not in self.verdicts:
            self.verdicts[source] = self._run(mutant, source)
        return self.verdicts[source]

    def _run(self, mutant: Plan, source: str) -> str:
        try:
            build = self._build(mutant, source, self.compiler)
            return self._tried(build, self.orders) or self._tried(
                self._build(mutant, source, self.strict), self.orders[:1]
            )
        except ToolchainError as error:
            return f"does not compile: {error.message}"

    def _build(self, mutant: Plan, source: str, compiler: Compiler) -> Build:
        spec = replace(self.spec, plan=mutant, program=mutant.program)
        made = compile_device(source, spec.target, compiler, include_dirs=[include_dir()])
        assert made.asm is not None and made.hsaco is not None
        resources = next(iter(read_resources(made.hsaco).values()))
        return Build(spec, compiler, made.asm, made.hsaco, resources, None, made.seconds, False)

    def _tried(self, build: Build, orders: Iterable[Interleaving]) -> str:
        for order in orders:
            try:
                result = run(build, order=order)
            except EmulateError as error:
                return f"{order}: {error}"
            if result.outcome.findings:
                return f"{order}: {result.outcome.findings[0].kind.name.lower()}"
            if not result.comparison.right:
                return f"{order}: {result.comparison.wrong} of {result.comparison.elements} elements are wrong"
            if (stored := stored_bytes(result.outcome)) > self.stored:
                return f"{order}: {stored} bytes are stored, the output has {self.stored}"
        return ""

    def _stored(self) -> int:
        spec = self.spec
        return stored_bytes(run(self._build(spec.plan, spec.source.text, self.compiler), order=self.orders[0]).outcome)


WIDTHS = {"byte": 1, "short": 2, "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16}


def stored_bytes(outcome: Outcome) -> int:
    """Bytes that plain stores to global memory write, with every lane counted."""
    total = 0
    for name, count in outcome.opcodes.items():
        match name.split("_"):
            case ["global" | "buffer" | "flat", "store", width, *_]:
                total += 64 * count * WIDTHS[width]
    return total
