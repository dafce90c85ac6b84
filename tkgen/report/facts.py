"""Everything that a report shows, as plain data: `facts(build)`; terminal, HTML and SVG only draw it.

The sections come from the tile program of a kernel and from its footprint (`tkgen.tile.scheduled`), so every kernel on
every machine has them. A build of several kernels has the facts of each (`all_facts`).

>>> found = facts(tkgen.load("specs/eight_wave.tk").check().build())
>>> found.ownership.fragments[0].wave, found.pipeline.barriers_per_step
(0, 2)

A Spec will do where there is no compiler: then there are no instructions and no measured figures.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkgen import __version__
from tkgen.backends.cdna.lower.origins import Performed, Source
from tkgen.diagnostics.model import Diagnostic
from tkgen.diagnostics.text import count_text
from tkgen.ir.equations import Map, Reduce, Update
from tkgen.ir.kernel_program import KernelProgram
from tkgen.ir.types import WAVE_LANES
from tkgen.report.equation_flow import equation_flow
from tkgen.report.figures import Figure, MixEntry, figures, mix
from tkgen.report.flow import Flow, flow
from tkgen.report.hot import to_json as hot_json
from tkgen.report.lanes import Cycles, Pipeline, pipeline
from tkgen.report.lds import LdsMap, lds_map
from tkgen.report.order import BlockOrder, block_order
from tkgen.report.places import Places, known_lines
from tkgen.report.prediction import Prediction
from tkgen.report.pressure import Pressure, pressure
from tkgen.report.texts import Rows, Texts, assembled, listed, texts, with_code
from tkgen.tile.ops import Barrier
from tkgen.tile.program import Op
from tkgen.tile.scheduled import Ownership, Scheduled
from tkgen.toolchain.isa import Function, main_loop

if TYPE_CHECKING:
    from tkgen.backends import protocol


SYNCHRONISING = {"wait", "barrier", "signal", "priority", "mix", "fence", "catch up"}


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
    """The task of a kernel: `sizes` by dimension (None: known at run time), element types; of a product its block."""

    product: str
    sizes: tuple[tuple[str, int | None], ...]
    types: tuple[tuple[str, str], ...]
    block: tuple[int, int, int] | None
    waves: int
    epilogue: tuple[str, ...]


@dataclass(frozen=True)
class Role:
    """A role of the block: its name, its waves, and what they do in words."""

    name: str
    waves: tuple[int, ...]
    work: str


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
    agent: str  # the name of a wave on its machine
    roles: tuple[Role, ...]
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
    unordered: str  # the tensors whose f32 sums depend on the order of blocks, in words; empty where there are none


def facts(
    subject: Any,
    prediction: Prediction | None = None,
    previous: Mapping[str, Any] | None = None,
    product: str | None = None,
) -> Facts:
    """The facts of a build of one kernel, or of a spec that was not compiled.

    `prediction` adds predicted cycles, where there are instructions to spend them; `previous` is the report.json of an
    earlier build of the same kernel. The order of the blocks is that on `product`, by default the first of the target.

    Raises:
        UnknownTargetError: the target has no such product.
    """
    build = subject if hasattr(subject, "spec") else None
    spec: Any = subject if build is None else build.spec
    target, rows = spec.target, Rows(spec.program.origins.files)
    device = target.product_named(product) if product else target.product
    waves = prediction.waves if prediction else ()
    report = {} if build is None else build.report()
    cpp_name = f"{spec.name}.{spec.form.suffix}"
    known = texts(spec.program.origins, rows, spec.source, spec.plan, cpp_name)
    places: Places | None = None
    cycles = of_role = None
    if build is not None and build.function is not None:
        function = build.function
        if spec.plan is not None:
            places = Places(function, spec.plan, spec.source, known.cpp_name)
            of_role = places.registers
        lines = places.lines if places else [
            (n,) if n else () for n in known_lines(function, spec.source, known.cpp_name)
        ]  # fmt: skip
        loop = main_loop(function) if report.get("main_loop") else None
        known = with_code(known, tuple(assembled(function, loop, lines, _mean(waves))))
        cycles = _cycles(spec.source, function, lines, waves) if waves else None
    elif build is not None:
        known = with_code(known, tuple(listed(build, cpp_name)))
    compiler = report.get("compiler", {})
    return Facts(
        tkgen=__version__,
        kernel=spec.name,
        header=spec.program.header,
        target=target.name,
        architecture=target.architecture,
        product=device.name,
        compiler=f"{compiler['kind']} {compiler['version']}" if compiler else "",
        compiled=build is not None,
        schedule=spec.plan.chosen if spec.plan else "",
        problem=_problem(spec.program),
        texts=known,
        agent="wave" if spec.footprint.wave_size == WAVE_LANES else "warp",
        roles=tuple(_roles(spec.tiles)),
        ownership=spec.footprint.ownership,
        pipeline=pipeline(spec, rows.of, cycles),
        flow=flow(spec.plan, rows.of) if spec.plan else equation_flow(spec.program.kernel, rows.of),
        pressure=pressure(spec, build and build.registers, of_role),
        lds=lds_map(spec, places),
        order=block_order(spec.program, device, spec.footprint.resident if build is None else build.resident),
        figures=figures(report),
        mix=mix(report),
        previous=figures(previous) if previous and report else (),
        findings=tuple(finding(d, rows) for d in subject.diagnostics),
        prediction=prediction if report else None,
        machine_check="" if build is None else build.watched,
        unordered=_unordered(spec.program),
    )


def _unordered(program: KernelProgram) -> str:
    """A sentence about sums of f32 in memory, whose last bits differ between launches."""
    extremes = {s.target.tensor.name for s in program.kernel.stores if s.update in (Update.MAX, Update.MIN)}
    names = [t.name for t in program.outputs if t.name in program.added - extremes and not t.dtype.whole]
    if not names:
        return ""
    verb = "is" if len(names) == 1 else "are"
    return f"{' and '.join(names)} {verb} summed in memory in no fixed order: the last bits differ between launches"


def _roles(tiles: Scheduled) -> Iterator[Role]:
    """The roles, waves of all phases together, with what their ops do."""
    names = dict.fromkeys(role.name for role in tiles.block.roles)
    for name in names:
        mine = [role for role in tiles.block.roles if role.name == name]
        waves = sorted({wave for role in mine for wave in tiles.agents(role)})
        work = dict.fromkeys(step.action for step in tiles.steps(mine[0]) if step.action not in SYNCHRONISING)
        yield Role(name, tuple(waves), ", ".join(work))


def all_facts(
    build: protocol.Build,
    previous: Path,
    predictions: Sequence[Prediction | None] = (),
    product: str | None = None,
) -> list[Facts]:
    """The facts of each kernel of a build; `previous` is where the report.json of an earlier build may be.

    Of several kernels, each is said to be which of them, and which part of the predicted time it takes.

    Raises:
        UnknownTargetError: the target has no such product.
    """
    kernels = build.kernels
    known = [*predictions, *[None] * (len(kernels) - len(predictions))]
    if kernels[0] is build:
        return [facts(build, known[0], previous_report(previous), product=product)]
    total = None if None in known else sum(_time(p) for p in known if p)
    found = []
    for number, (kernel, prediction) in enumerate(zip(kernels, known, strict=True), 1):
        before, name = previous_report(previous, kernel.spec.name), f"{build.spec.name}/{kernel.spec.name}"
        says = f"Kernel {number} of {len(known)} of the sequence {build.spec.name}"
        if prediction is not None and total:
            share = round(100 * _time(prediction) / total, 1)
            says += f", {share:g} % of the {total:.3g} ms that all are predicted to take"
            figure = Figure("predict.share", "of the sequence", share, "%", 0, "Prediction")
            prediction = replace(prediction, figures=(*prediction.figures, figure))
        made = facts(kernel, prediction, before, product=product)
        found.append(replace(made, kernel=name, header="\n".join([f"{says}.", made.header]).rstrip("\n")))
    return found


def _time(prediction: Prediction) -> float:
    """The predicted time in ms."""
    return next(f.value for f in prediction.figures if f.key == "predict.time")


def previous_report(path: Path, kernel: str = "") -> dict[str, Any] | None:
    """The report.json of an earlier build, where there is a readable one; of a sequence that of a `kernel`."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if kernel and isinstance(found, dict) and isinstance(found.get("kernels"), list):
        found = next((k for k in found["kernels"] if isinstance(k, dict) and k.get("kernel") == kernel), None)
    return found if isinstance(found, dict) and {"resources", "figures"} & found.keys() else None


def to_json(found: Facts) -> dict[str, Any]:
    """The facts as plain data, ready for `json.dumps`."""
    data = asdict(found)
    if found.prediction and found.prediction.hot:
        data["prediction"]["hot"] = hot_json(found.prediction.hot)
    return data


def _problem(program: Any) -> Problem:
    sizes = tuple((d.name, d.size) for d in program.dims)
    if program.contraction is None:
        types = tuple((t.name, t.dtype.spelling) for t in dict.fromkeys((*program.reads, *program.outputs)))
        return Problem("", sizes, types, None, program.waves, ())
    tensors = (*(o.tensor for o in program.operands), program.accumulator.tensor)
    return Problem(
        product=", ".join(
            f"{p.name} = {p.left.name}{'ᵀ' if p.left.contraction_first else ''} "
            f"{p.right.name}{'' if p.right.contraction_first else 'ᵀ'}"
            for p in program.products
        ),
        sizes=sizes,
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


def headline(found: Facts) -> list[tuple[str, str, str]]:
    """Each with its name, value and a remark, as far as they are known."""
    return list(_numbers(found))


def _numbers(found: Facts) -> Iterator[tuple[str, str, str]]:
    own, press = found.ownership, found.pressure
    step = f"{found.pipeline.step} {found.problem.block[2]}, " if found.problem.block else ""
    yield "Block", f"{own.block[0]} x {own.block[1]}", f"{step}{count_text(found.problem.waves, 'wave')}"
    kind = "used by a lane" if press.measured else "estimated"
    yield "Registers", str(press.used), f"{kind}, {press.allotted} with whole granules, budget {press.budget}"
    used = f"{found.lds.used / 1024:g} KiB" if found.lds.used % 1024 == 0 else f"{found.lds.used:,} B"
    yield found.lds.memory, used, f"of {found.lds.capacity / 1024:g} KiB"
    yield "Barriers", str(found.pipeline.barriers_per_step), f"per {found.pipeline.step}"
    if found.prediction is not None and found.prediction.figures:
        known = {x.key.removeprefix("predict."): x.show() for x in found.prediction.figures}
        value, share = known.get("tflops", ""), f"{known.get('peak')} of peak"
        if "bandwidth" in known:
            value, share = known["bandwidth"], f"{known['copy']} of the copy rate"
        name = "Predicted, upper bound" if found.prediction.upper_bound else "Predicted"
        yield name, value, f"{share}, {known.get('time')}, limited by {found.prediction.limiter}"
    by_key = {f.key: f for f in found.figures}
    if "resources.vgpr_spills" in by_key:
        spills = by_key["resources.vgpr_spills"].value + by_key["resources.sgpr_spills"].value
        yield "Spills", f"{spills:g}", f"{by_key['resources.scratch_bytes'].value:g} B scratch per lane"
    if "occupancy.waves_per_simd" in by_key:
        blocks = by_key["occupancy.blocks_per_cu"].value
        yield "Occupancy", by_key["occupancy.waves_per_simd"].show(), f"waves per SIMD, {blocks:g} blocks per CU"
    if "main_loop.other_per_mfma" in by_key:
        mfma = next((m.count for m in found.mix if m.key == "mfma"), 0)
        yield "Non-MFMA per MFMA", by_key["main_loop.other_per_mfma"].show(), f"{mfma} MFMA in an iteration of the loop"


def loops(found: Facts) -> bool:
    """Return True if the instructions that are counted are those of an iteration of a loop, not of all of a kernel."""
    return any(f.key.startswith("main_loop.") for f in found.figures)
