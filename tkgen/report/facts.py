"""Everything that a report shows, as plain data: `facts(build)`; terminal, HTML and SVG only draw it.

>>> found = facts(tkgen.load("specs/eight_wave.tk").check().build())
>>> found.ownership.fragments[0].wave, found.pipeline.barriers_per_step
(0, 2)

A Spec will do where there is no compiler: then there are no instructions and no measured figures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkgen import __version__
from tkgen.backends.cdna.lower import Performed, Source
from tkgen.backends.cdna.spec import Spec
from tkgen.build import Build
from tkgen.checks.registers import estimate
from tkgen.diagnostics.model import Diagnostic
from tkgen.ir.equations import Map, Reduce
from tkgen.report.figures import Figure, MixEntry, figures, mix
from tkgen.report.flow import Flow, flow
from tkgen.report.lanes import Cycles, Pipeline, pipeline
from tkgen.report.lds import LdsMap, lds_map
from tkgen.report.order import BlockOrder, block_order
from tkgen.report.ownership import Ownership, ownership
from tkgen.report.places import Places
from tkgen.report.prediction import Prediction
from tkgen.report.pressure import Pressure, pressure
from tkgen.report.texts import Rows, Texts, texts, with_code
from tkgen.targets.model import Product
from tkgen.tile.ops import Barrier
from tkgen.tile.program import Op
from tkgen.toolchain.isa import Function, main_loop

if TYPE_CHECKING:
    from tkgen.report.rows import RowFacts


@dataclass(frozen=True)
class Finding:
    """A diagnostic: code, severity, sentence, row and place in the spec (0 and "": none), notes, the fix in words."""

    code: str
    severity: str
    message: str
    line: int
    place: str
    notes: tuple[str, ...]
    fix: str


@dataclass(frozen=True)
class Problem:
    """The product a kernel computes: `sizes` by dimension (None: known at run time), element types, the block."""

    product: str
    sizes: tuple[tuple[str, int | None], ...]
    types: tuple[tuple[str, str], ...]
    block: tuple[int, int, int]
    waves: int
    epilogue: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """One kernel. `previous` are the figures of an earlier build of it, empty where there is none."""

    tkgen: str
    kernel: str
    header: str
    target: str
    architecture: str
    product: str
    compiler: str
    compiled: bool
    schedule: str  # which schedule, and why it was chosen
    problem: Problem
    texts: Texts
    ownership: Ownership
    pipeline: Pipeline
    flow: Flow
    pressure: Pressure
    lds: LdsMap
    order: BlockOrder
    figures: tuple[Figure, ...]
    mix: tuple[MixEntry, ...]
    previous: tuple[Figure, ...]
    findings: tuple[Finding, ...]
    prediction: Prediction | None
    machine_check: str  # what watching the machine code showed, in words; empty where nothing was compiled


def facts(
    subject: Build | Spec,
    prediction: Prediction | None = None,
    previous: Mapping[str, Any] | None = None,
    alone: Facts | None = None,
    product: str | None = None,
) -> Facts:
    """The facts of a build, or of a spec that was not compiled.

    `prediction` adds predicted cycles, where there are instructions to spend them; `previous` is the report.json of an
    earlier build of the same kernel. `alone` are the facts of the build's spec, where they are known already. The order
    of the blocks is that on `product`, by default the first of the target.

    Raises:
        UnknownTargetError: the target has no such product.
    """
    if isinstance(subject, Spec):
        return _of_spec(subject)
    spec, alone = subject.spec, alone or _of_spec(subject.spec)
    plan, target, r = spec.plan, spec.target, subject.resources
    function, rows, report = subject.function, Rows(spec.program.origins.files), subject.report()
    waves = prediction.waves if prediction else ()
    places = Places(function, plan, spec.source, f"{spec.name}.cpp")
    cycles = _cycles(spec.source, function, places.lines, waves) if waves else None
    device = target.product_named(product) if product else target.product
    return replace(
        alone,
        compiler=f"{subject.compiler.kind.value} {subject.compiler.version}",
        compiled=True,
        texts=with_code(alone.texts, function, main_loop(function), places.lines, _mean(waves)),
        pipeline=pipeline(plan, rows.of, cycles) if cycles else alone.pipeline,
        product=device.name,
        pressure=pressure(plan, target, max(r.total_vgpr, r.vgpr + r.agpr), places),
        lds=lds_map(spec.program, target, places),
        order=_order(spec, alone, device, subject.occupancy.blocks_per_cu),
        figures=figures(report),
        mix=mix(report),
        previous=figures(previous) if previous else (),
        findings=tuple(finding(d, rows) for d in subject.diagnostics),
        prediction=prediction,
        machine_check=subject.machine_check.summary,
    )


def _of_spec(spec: Spec) -> Facts:
    """What is known before anything is compiled."""
    program, target, plan, rows = spec.program, spec.target, spec.plan, Rows(spec.program.origins.files)
    return Facts(
        tkgen=__version__,
        kernel=spec.name,
        header=program.header,
        target=target.name,
        architecture=target.architecture,
        product=target.product.name,
        compiler="",
        compiled=False,
        schedule=plan.chosen,
        problem=_problem(spec),
        texts=texts(program.origins, rows, spec.source, plan, spec.name),
        ownership=ownership(program),
        pipeline=pipeline(plan, rows.of),
        flow=flow(plan, rows.of),
        pressure=pressure(plan, target, None),
        lds=lds_map(program, target),
        order=block_order(program, target.product, estimate(plan, target).blocks_per_cu),
        figures=(),
        mix=(),
        previous=(),
        findings=tuple(finding(d, rows) for d in spec.diagnostics),
        prediction=None,
        machine_check="",
    )


def _order(spec: Spec, alone: Facts, device: Product, blocks_per_cu: int) -> BlockOrder:
    """The order of the blocks, worked out again where it differs from that of the spec alone."""
    estimated = estimate(spec.plan, spec.target).blocks_per_cu
    if blocks_per_cu == estimated and device.name == alone.order.product:
        return alone.order
    return block_order(spec.program, device, blocks_per_cu)


def previous_report(path: Path, kernel: str = "") -> dict[str, Any] | None:
    """The report.json of an earlier build, where there is a readable one; of a sequence that of a `kernel`."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if kernel and isinstance(found, dict) and isinstance(found.get("kernels"), list):
        found = next((k for k in found["kernels"] if isinstance(k, dict) and k.get("kernel") == kernel), None)
    return found if isinstance(found, dict) and "resources" in found else None


def to_json(found: Facts | RowFacts) -> dict[str, Any]:
    """The facts as plain data, ready for `json.dumps`."""
    return asdict(found)


def _problem(spec: Spec) -> Problem:
    program = spec.program
    tensors = (*(o.tensor for o in program.operands), program.accumulator.tensor)
    return Problem(
        product=", ".join(
            f"{p.name} = {p.left.name}{'ᵀ' if p.left.contraction_first else ''} "
            f"{p.right.name}{'' if p.right.contraction_first else 'ᵀ'}"
            for p in program.products
        ),
        sizes=tuple((d.name, d.size) for d in program.dims),
        types=tuple((t.name, t.dtype.spelling) for t in tensors),
        block=program.block,
        waves=program.waves,
        epilogue=tuple(op.function for op in program.equations.epilogue if isinstance(op, Map | Reduce)),
    )


def _mean(waves: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Cycles by instruction, on average over the waves that execute it."""
    found: dict[int, list[float]] = {}
    for wave in waves:
        for index, cycles in wave.items():
            found.setdefault(index, []).append(cycles)
    return {index: sum(values) / len(values) for index, values in found.items()}


def _cycles(
    source: Source, function: Function, carried: Sequence[tuple[int, ...]], waves: Sequence[Mapping[int, float]]
) -> Cycles:
    """The cycles that an operation's instructions keep some waves, on average. A barrier is only its `s_barrier`."""
    by_line: list[dict[tuple[int, bool], float]] = []
    for wave in waves:
        spent: dict[tuple[int, bool], float] = {}
        for index, cycles in wave.items():
            meets = function.instructions[index].mnemonic == "s_barrier"
            for line in carried[index]:
                spent[line, meets] = spent.get((line, meets), 0.0) + cycles / len(carried[index])
        by_line.append(spent)

    def cycles_of(members: tuple[int, ...], done: Performed, kind: type[Op]) -> float | None:
        lines = source.operations.get(done, ())
        meets = kind is Barrier
        sums = [sum(by_line[w].get((line, meets), 0.0) for line in lines) for w in members]
        return sum(sums) / len(sums) if lines else None

    return cycles_of


def finding(diagnostic: Diagnostic, rows: Rows) -> Finding:
    """A diagnostic as a report shows it."""
    row = rows.of(diagnostic.primary.span) if diagnostic.primary else 0
    return Finding(
        code=diagnostic.code,
        severity=diagnostic.severity.value,
        message=diagnostic.message,
        line=row,
        place=rows.place(row),
        notes=diagnostic.notes,
        fix=diagnostic.fix.text if diagnostic.fix else "",
    )
