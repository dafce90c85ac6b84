"""The emulator as the referee of mutants: a plan is compiled, run on a small problem and compared with torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import tkgen.api
from tkgen.api import Spec
from tkgen.backends.cdna.kittens import include_dir
from tkgen.backends.cdna.lower.render import lower
from tkgen.build import Build
from tkgen.checks.families import check
from tkgen.diagnostics import Severity
from tkgen.emulate import EmulateError, Interleaving, Outcome
from tkgen.execute.launch import run
from tkgen.ir.verifier import Broken
from tkgen.schedule.plan import Plan, plan
from tkgen.schedule.verifier import verify
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.compiler import Compiler, ToolchainError
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.metadata import read_resources

STEPS = 5  # K-steps: odd, and enough for every prologue, a loop and every epilogue


def small(path: Path) -> Spec:
    """The spec for a problem of one output tile and the fewest K-steps from `STEPS` a block that its schedule takes.

    A persistent kernel gets two tiles and one block, which then takes both; a stream-K kernel two tiles and three
    blocks, of which the second then takes a part of each.
    """
    program = tkgen.api.load(path).program
    blocks = {"persistent": 1, "stream_k": 3, "split_k": program.grid.count}
    grid = replace(program.grid, count=blocks.get(program.grid.name, program.grid.count))
    tiles = 2 if grid.name in ("persistent", "stream_k") else 1
    shared = grid.count if program.added else 1
    for steps in range(STEPS, 2 * STEPS):
        extents = {program.m: program.block[0] * tiles, program.n: program.block[1], program.k: shared * steps}
        extents[program.k] *= program.block[2]
        spec = tkgen.api.load(path, {dim.name: extent for dim, extent in extents.items() if dim.name is not None})
        resized = replace(spec.program, grid=grid)
        spec = replace(spec, program=resized, fixed_plan=plan(resized, spec.target))
        if not rejected(spec, spec.plan):
            return spec
    raise ValueError(f"{path.name}: the checks accept no small size of it")


def rejected(spec: Spec, mutant: Plan) -> tuple[str, ...]:
    """The codes of the errors that the checks find, or the rule that a plan breaks; none where they accept it."""
    try:
        verify(mutant.program, spec.target, mutant.waves, mutant.automatic)
    except Broken as broken:
        return (broken.rule,)
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
        """Return True if the kernel is another one: with one buffer, say, a read of the next step is the same code."""
        return self.source(mutant) != self.spec.source.text

    def fault(self, mutant: Plan) -> str:
        """The fault when the plan runs; empty if every order of the waves gives the right values."""
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
        spec = replace(self.spec, fixed_plan=mutant, program=mutant.program)
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
            if result.findings:
                kinds = [finding.kind for outcome in result.outcomes for finding in outcome.findings]
                return f"{order}: {kinds[0].name.lower()}"
            if not result.comparison.right:
                return f"{order}: {result.comparison.wrong} of {result.comparison.elements} elements are wrong"
            if (stored := stored_bytes(result.outcomes[0])) > self.stored:
                return f"{order}: {stored} bytes are stored, the output has {self.stored}"
        return ""

    def _stored(self) -> int:
        spec = self.spec
        return stored_bytes(
            run(self._build(spec.plan, spec.source.text, self.compiler), order=self.orders[0]).outcomes[0]
        )


WIDTHS = {"byte": 1, "short": 2, "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16}


def stored_bytes(outcome: Outcome) -> int:
    """Bytes that plain stores to global memory write, with every lane counted."""
    total = 0
    for name, count in outcome.opcodes.items():
        match name.split("_"):
            case ["global" | "buffer" | "flat", "store", width, *_]:
                total += 64 * count * WIDTHS[width]
    return total
