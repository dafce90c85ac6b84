"""Everything that a report shows, as plain data: `facts(build)`; terminal, HTML and SVG only draw it.

>>> found = facts(tkgen.load("specs/eight_wave.tk").check().build())
>>> found.ownership.fragments[0].wave, found.pipeline.barriers_per_step
(0, 2)

A Spec will do where there is no compiler: then there are no instructions and no measured figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tkgen import __version__
from tkgen.api import Spec
from tkgen.build import Build
from tkgen.checks.registers import estimate
from tkgen.diagnostics.machine import to_json as diagnostic_json
from tkgen.diagnostics.model import Diagnostic
from tkgen.report.figures import Figure, MixEntry, figures, mix
from tkgen.report.flow import Flow, flow
from tkgen.report.lanes import Pipeline, pipeline
from tkgen.report.lds import LdsMap, lds_map
from tkgen.report.order import BlockOrder, block_order
from tkgen.report.ownership import Ownership, ownership
from tkgen.report.pressure import Pressure, pressure
from tkgen.report.texts import Texts, texts
from tkgen.toolchain.isa import main_loop


@dataclass(frozen=True)
class Prediction:
    """What a timing model says: `figures` for a table, `cycles` by operation as the graph prints it.

    Such as `multiply [k](0, 0..1; 0)`. `by` names the model and its assumptions in a sentence.
    """

    by: str
    figures: tuple[Figure, ...]
    cycles: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """A diagnostic: its code, severity, sentence, spec line (0: none), notes and the fix in words."""

    code: str
    severity: str
    message: str
    line: int
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


def facts(
    subject: Build | Spec, prediction: Prediction | None = None, previous: Mapping[str, Any] | None = None
) -> Facts:
    """The facts of a build, or of a spec that was not compiled.

    `prediction` adds predicted cycles; `previous` is the report.json of an earlier build of the same kernel.
    """
    build = subject if isinstance(subject, Build) else None
    spec = subject.spec if isinstance(subject, Build) else subject
    program, target, plan = spec.program, spec.target, spec.plan
    report = build.report() if build else {}
    allotted = None
    blocks_per_cu = estimate(plan, target).blocks_per_cu
    if build:
        r = build.resources
        allotted, blocks_per_cu = max(r.total_vgpr, r.vgpr + r.agpr), build.occupancy.blocks_per_cu
    function = build.function if build else None
    return Facts(
        tkgen=__version__,
        kernel=spec.name,
        header=program.header,
        target=target.name,
        architecture=target.architecture,
        product=target.product.name,
        compiler=f"{build.compiler.kind.value} {build.compiler.version}" if build else "",
        compiled=build is not None,
        schedule=plan.chosen,
        problem=_problem(spec),
        texts=texts(spec.kernel, spec.source, spec.name, function, main_loop(function) if function else None),
        ownership=ownership(program),
        pipeline=pipeline(plan, prediction.cycles if prediction else None),
        flow=flow(plan),
        pressure=pressure(plan, target, allotted),
        lds=lds_map(program, target),
        order=block_order(program, target, blocks_per_cu),
        figures=figures(report),
        mix=mix(report),
        previous=figures(previous) if previous else (),
        findings=tuple(_finding(d) for d in (build or spec).diagnostics),
        prediction=prediction,
    )


def to_json(found: Facts) -> dict[str, Any]:
    """The facts as plain data, ready for `json.dumps`."""
    return asdict(found)


def _problem(spec: Spec) -> Problem:
    program = spec.program
    tensors = (program.a.tensor, program.b.tensor, program.accumulator.tensor)
    return Problem(
        product=f"{program.accumulator.tensor.name} = {program.a.name}"
        f"{'ᵀ' if program.a.contraction_first else ''} {program.b.name}{'' if program.b.contraction_first else 'ᵀ'}",
        sizes=tuple((d.name, d.size) for d in program.dims),
        types=tuple((t.name, t.dtype.spelling) for t in tensors),
        block=program.block,
        waves=program.waves,
        epilogue=tuple(s.function for s in program.epilogue),
    )


def _finding(diagnostic: Diagnostic) -> Finding:
    data = diagnostic_json(diagnostic)
    return Finding(
        code=diagnostic.code,
        severity=diagnostic.severity.value,
        message=diagnostic.message,
        line=data["primary"]["line"] if data["primary"] else 0,
        notes=diagnostic.notes,
        fix=diagnostic.fix.text if diagnostic.fix else "",
    )
