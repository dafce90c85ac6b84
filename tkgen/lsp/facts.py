"""The facts that tkgen derives for a statement or a name, in short sentences: sizes, bytes, registers, epochs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tkgen.checks.shared_memory import lds_bytes
from tkgen.ir.equation_text import axis_text, value_text
from tkgen.ir.equations import AxisKind, Kernel, walk, writes
from tkgen.ir.types import WAVE_LANES, Operand, Program, Role, Tensor, Via
from tkgen.lsp import block_facts
from tkgen.lsp.analysis import Analysis
from tkgen.schedule.plan import Plan
from tkgen.syntax import ast, statements
from tkgen.targets import load_target
from tkgen.tile.ops import Barrier, Multiply, Read, Take
from tkgen.tile.program import Op


def of_name(name: str, known: Analysis, at: int = 0) -> list[str]:
    """Describe a dimension, parameter, scalar, tensor, role, axis or value, as it is named at an offset."""
    known = _of_kernel(known, at)
    found = _of_equations(name, known.equations) if known.equations else []
    p, kernel = known.program, known.at(at)
    if kernel is not None and known.plan is None:
        return block_facts.of_name(name, kernel) or found
    if p is None or found:
        return found
    for dim in p.dims:
        if dim.name == name:
            return [f"{name} = {_size(dim.size)}", *_uses_of_dim(p, name)]
    for tensor in p.tensors:
        if tensor.name == name:
            return list(_of_tensor(p, tensor))
    for role in p.roles:
        if role.name == name:
            return list(_of_role(p, role, known))
    for scalar in p.scalars:
        if scalar.name == name:
            default = (
                "must be passed at launch" if scalar.default is None else f"{scalar.default:g} unless passed at launch"
            )
            return [f"{scalar.dtype.spelling}, {default}"]
    return block_facts.of_size(name, kernel) if kernel is not None else []


def _of_equations(name: str, kernel: Kernel) -> list[str]:
    """Describe an axis, or the types and axes of the values of a name, in order."""
    for axis in kernel.axes:
        if axis.name == name and axis.kind is not AxisKind.WHOLE:
            tiles = "" if axis.dim.size is None else f": {_count(-(-axis.dim.size // (axis.tile or 1)), 'tile')}"
            return [f"{axis_text(axis)}{tiles}"]
    defined = [value for op in walk(kernel.body) for value in writes(op) if value.name == name]
    return [value_text(value) for value in defined]


def of_statement(node: object, known: Analysis, at: int = 0) -> list[str]:
    """List the consequences of a statement at an offset; empty where the spec is not understood that far."""
    known = _of_kernel(known, at)
    p, kernel = known.program, known.at(at)
    if kernel is not None and (known.plan is None or isinstance(node, statements.EQUATIONS)):
        return block_facts.of_statement(node, kernel)
    if p is None:
        return []
    match node:
        case ast.Kernel():
            return [
                *block_facts.of_launch(p, p.threads),
                *_of_lds(known),
                *_of_registers(known),
                *_of_schedule(known.plan),
            ]
        case ast.Block():
            return list(_of_block(p))
        case ast.Grid() | ast.Tail():
            return block_facts.of_launch(p, p.threads)
        case ast.Remap():
            return list(block_facts.of_remap(p))
        case ast.Waves():
            return list(_of_waves(p.compute))
        case ast.Role(name=name):
            return of_name(name.id, known)
        case ast.Shared(names=names):
            return [*(_lds(o) for o in p.operands if o.name in {n.id for n in names}), *_of_lds(known)]
        case ast.Registers(names=names):
            mine = [o for o in p.operands if o.name in {n.id for n in names}]
            return [*map(_register_tiles, mine), *(_traffic(p, o) for o in mine if not o.shared)]
        case ast.Accumulate():
            return list(_of_accumulator(p))
        case ast.Store():
            return [_coordinates(p)]
        case ast.Load(names=names):
            return [_traffic(p, o) for o in p.operands if o.name in {n.id for n in names}]
        case ast.Occupancy():
            return _of_occupancy(known)
        case ast.Schedule() | ast.Unroll() | ast.Phase():
            return _of_schedule(known.plan)
        case ast.Cluster():
            return list(_of_cluster(known.plan, node))
    return []


def hint(node: object, known: Analysis, at: int = 0) -> str:
    """The derived value worth showing after a statement all the time; empty where there is none."""
    known = _of_kernel(known, at)
    p, plan, kernel = known.program, known.plan, known.at(at)
    if kernel is not None and (plan is None or isinstance(node, statements.EQUATIONS)):
        return block_facts.hint(node, kernel)
    if p is None:
        return ""
    acc = p.accumulator
    match node:
        case ast.Block():
            return "" if p.steps is None else f"{p.steps:,} K-steps"
        case ast.Waves(cols=cols):
            rows, columns = p.compute.shape or (0, 0)
            return f"{rows} x {columns}, {p.threads} threads" if cols is None else f"{p.threads} threads"
        case ast.Shared(names=names):
            mine = [o for o in p.operands if o.name in {n.id for n in names}]
            return f"{sum(o.lds_bytes * o.buffers for o in mine):,} B LDS" if mine else ""
        case ast.Registers(names=names):
            mine = [o for o in p.operands if o.name in {n.id for n in names}]
            return f"{sum(map(operand_registers, mine))} VGPRs" if mine else ""
        case ast.Accumulate():
            rows, columns = acc.fragments
            return f"{rows} x {columns} fragments per wave, {acc.registers} VGPRs"
        case ast.Role(name=name):
            role = next((r for r in p.roles if r.name == name.id), None)
            return f"{len(role.waves)} waves, {len(role.waves) * WAVE_LANES} threads" if role else ""
        case ast.Schedule():
            return f"{barriers(plan)}, depth {plan.shape.depth}, unroll {plan.shape.unroll}" if plan else ""
        case ast.Kernel():
            taken = block_facts.hint(node, kernel) if kernel is not None else ""
            steps = ""
            if plan is not None and p.schedule is None:
                steps = f"{barriers(plan)}, depth {plan.shape.depth}, unroll {plan.shape.unroll}"
            return "; ".join(filter(None, (taken, steps)))
    return ""


def _of_kernel(known: Analysis, at: int) -> Analysis:
    """The analysis as of the kernel at an offset: a kernel in a sequence has facts as if it were alone."""
    kernel = known.at(at)
    if kernel is None or kernel.plan is None or known.plan is not None:
        return known
    return replace(
        known, equations=kernel.equations, program=kernel.program, plan=kernel.plan, registers=kernel.registers
    )


def barriers(plan: Plan) -> str:
    """`2 barriers per K-step`"""
    return f"{_count(plan.barriers_per_step, 'barrier')} per K-step"


def operand_registers(operand: Operand) -> int:
    """VGPRs per lane of all register tiles of an operand in one wave."""
    return operand.registers_per_tile * operand.fragments * operand.register_buffers


# ---------------------------------------------------------------- pieces


def _of_tensor(p: Program, tensor: Tensor) -> Iterator[str]:
    yield " x ".join(_size(s) for s in tensor.shape) + f" {tensor.dtype.spelling}" + _volume(tensor)
    for operand in p.operands:
        if operand.name == tensor.name:
            factor = "left" if operand.side.name == "A" else "right"
            stored = "contracted dimension first" if operand.contraction_first else "contracted dimension last"
            yield f"{factor} factor of the product, {stored}"
            if operand.shared:
                yield _lds(operand)
            yield _register_tiles(operand)
            yield _traffic(p, operand)
            yield _operand_coordinates(p, operand)
    if p.accumulator.tensor.name == tensor.name:
        yield from _of_accumulator(p)


def _volume(tensor: Tensor) -> str:
    if None in tensor.shape:
        return ""
    elements = 1
    for size in tensor.shape:
        elements *= size or 1
    return f": {elements:,} elements, {_bytes(tensor.dtype.sized(elements))}"


def _uses_of_dim(p: Program, name: str) -> Iterator[str]:
    for dim, what in ((p.m, "rows of the output"), (p.n, "columns of the output")):
        if dim.name == name:
            side = p.block[0 if dim is p.m else 1]
            tiles = "" if dim.size is None else f" = {-(-dim.size // side)} blocks"
            yield f"{what}, in blocks of {side}{tiles}"
    if p.k.name == name:
        steps = "" if p.steps is None else f" = {p.steps} K-steps"
        yield f"the contracted dimension, in steps of {p.block[2]}{steps}"


def _of_block(p: Program) -> Iterator[str]:
    rows, cols, step = p.block
    tensor, elements = p.accumulator.tensor, rows * cols
    yield f"{rows} x {cols} of {tensor.name}: {elements:,} elements, {_bytes(tensor.dtype.sized(elements))} stored"
    yield from block_facts.of_launch(p, p.threads)
    if p.steps is not None:
        yield f"{p.steps:,} K-steps of {step}"
    loaded = sum(_loaded(p, o) for o in p.operands)
    flops = 2 * rows * cols * step * len(p.products)
    yield f"a K-step loads {_bytes(loaded)} and computes {flops:,} FLOP: {flops / loaded:.0f} FLOP per byte"


def _of_waves(role: Role) -> Iterator[str]:
    rows, cols = role.shape or (0, 0)
    count = len(role.waves)
    yield f"{count} waves, {count * WAVE_LANES} threads"
    if role.shape:
        index = "w" if role.first == 0 else f"(w - {role.first})"
        yield f"{rows} x {cols} over the output: wave w has row {index} / {cols} and column {index} % {cols}"


def _of_role(p: Program, role: Role, known: Analysis) -> Iterator[str]:
    yield from _of_waves(role)
    for operand in p.operands:
        if operand.name in role.loads:
            yield _traffic(p, operand)
    if role.multiplies:
        yield from _of_accumulator(p)
    for live in known.registers.roles if known.registers else ():
        if live.role == role.name:
            yield (
                f"about {live.live} registers live: {live.accumulators} accumulators, {live.tiles} operand tiles, "
                f"{live.staging} staging, {live.addresses} addresses"
            )
    yield from _of_registers(known)
    if known.plan:
        yield barriers(known.plan)


def _of_lds(known: Analysis) -> list[str]:
    """All tiles in LDS against what a block may have."""
    if known.program is None:
        return []
    used = f"{lds_bytes(known.program):,} B"
    return [f"LDS: {used} of {load_target(known.target).lds_bytes_per_block:,} B" if known.target else f"LDS: {used}"]


def _of_registers(known: Analysis) -> list[str]:
    """The estimate of what a wave is allotted, against what the launch bounds leave it."""
    found = known.registers
    if found is None:
        return []
    return [
        f"about {found.allotted} of {found.budget} registers per lane of every wave, "
        f"{found.waves_per_simd:g} waves per SIMD (limited by {found.limit})"
    ]


def _of_occupancy(known: Analysis) -> list[str]:
    if known.program is None or known.target is None or not known.program.occupancy:
        return []
    most = load_target(known.target).max_registers(known.program.occupancy)
    return [f"at most {most} registers per lane, VGPRs and AGPRs together, on {known.target}", *_of_registers(known)]


def _lds(o: Operand) -> str:
    rows, cols = o.lds_shape
    total = f" x {o.buffers} buffers = {o.lds_bytes * o.buffers:,} B" if o.buffers > 1 else ""
    return f"{o.name} in LDS: {rows} x {cols} = {rows * cols:,} elements, {o.lds_bytes:,} B{total}"


def _register_tiles(o: Operand) -> str:
    rows, cols = o.register_shape
    count = f"{_count(o.fragments, 'fragment')} x {_count(o.register_buffers, 'buffer')}"
    return (
        f"{o.name} in registers: tiles of {rows} x {cols} ({o.register_layout} layout), "
        f"{o.registers_per_tile} VGPRs each; "
        f"{count} = {operand_registers(o)} VGPRs per wave, {_count(o.slices, 'slice')} per K-step"
    )


def _loaded(p: Program, o: Operand) -> int:
    """Bytes that the waves of a block load of an operand in a K-step; past LDS each for itself."""
    return o.lds_bytes if o.shared else len(p.compute.waves) * _taken(o)


def _taken(o: Operand) -> int:
    """Bytes of an operand that a wave multiplies in a K-step."""
    return o.tensor.dtype.sized(o.fragments * o.fragment_extent * o.step)


def _traffic(p: Program, o: Operand) -> str:
    if not o.shared:
        return f"{o.name} per K-step: {_taken(o):,} B by each of {len(p.compute.waves)} waves, straight to registers"
    role = next((r for r in p.roles if o.name in r.loads), p.compute)
    threads = role.group * WAVE_LANES
    staged = f", in {max(1, o.lds_bytes // (threads * 4))} staging VGPRs" if o.via is Via.REGISTERS else ""
    return f"{o.name} per K-step: {o.lds_bytes:,} B by {threads} threads, {o.lds_bytes / threads:g} B each{staged}"


def _operand_coordinates(p: Program, o: Operand) -> str:
    axis = 0 if o.side.name == "A" else 1
    block = f"{('tile.row', 'tile.col')[axis]} * {o.extent}"
    step = f"k * {o.step}"
    return f"block and K-step k start at {o.name}[{', '.join((step, block) if o.contraction_first else (block, step))}]"


def _of_accumulator(p: Program) -> Iterator[str]:
    acc = p.accumulator
    rows, cols = acc.fragments
    yield (
        f"{rows} x {cols} fragments of {acc.tile[0]} x {acc.tile[1]} per wave, {acc.registers} VGPRs "
        f"({acc.registers // (rows * cols)} each), MFMA {acc.mfma[0]} x {acc.mfma[1]}"
    )
    yield from (f"product {x.left.name} and {x.right.name} as {x.layouts}" for x in p.products)
    yield _coordinates(p)


def _coordinates(p: Program) -> str:
    """Give the coordinates of fragment (i, j) of wave (r, c) in the output."""
    acc = p.accumulator
    sides = []
    for axis, (tile, wave, index) in enumerate((("tile.row", "r", "i"), ("tile.col", "c", "j"))):
        waves, fragments = (p.compute.shape or (1, 1))[axis], acc.fragments[axis]
        within = _sum(
            _times(wave, 1 if acc.interleaved else fragments, waves),
            _times(index, waves if acc.interleaved else 1, fragments),
        )
        start = f"{tile} * {p.block[axis]}"
        sides.append(start if within == "0" else f"{start} + {_factor(within)} * {acc.tile[axis]}")
    return f"fragment (i, j) of wave (r, c) starts at {acc.tensor.name}[{', '.join(sides)}]"


def _times(variable: str, factor: int, count: int) -> str:
    """`factor * variable`, short; nothing where the variable takes one value."""
    return "" if count == 1 else variable if factor == 1 else f"{factor} {variable}"


def _factor(text: str) -> str:
    """Parentheses around what is more than one variable."""
    return f"({text})" if " " in text else text


def _sum(*terms: str) -> str:
    return " + ".join(t for t in terms if t) or "0"


def _of_schedule(plan: Plan | None) -> list[str]:
    if plan is None:
        return []
    shape = plan.shape
    passes = "as many iterations as K needs" if shape.passes is None else f"{shape.passes:,} iterations"
    return [
        f"{barriers(plan)}: each K-step takes every wave {_count(plan.barriers_per_step, 'epoch')} further",
        f"{_count(shape.depth, 'K-step')} ahead in the prologue, {passes} of {_count(shape.unroll, 'K-step')}, "
        f"{_count(shape.tail_iterations, 'K-step')} in the epilogue",
        *(f"waves {w.waves[0]}..{w.waves[-1]} run {_count(w.phase, 'barrier')} behind" for w in plan.waves if w.phase),
    ]


def _of_cluster(plan: Plan | None, node: ast.Cluster) -> Iterator[str]:
    """The epoch of a schedule line, counted from the beginning of its K-step, and its MFMAs."""
    for role, body in plan.bodies.items() if plan else ():
        mine = [i for i, op in enumerate(body) if _inside(op, node)]
        if not mine or plan is None:
            continue
        epoch = sum(isinstance(op, Barrier) for op in body[: mine[0]])
        yield f"{role}: epoch {epoch} of {plan.barriers_per_step} in its K-step"
        ops = [body[i] for i in mine]
        flops = sum(_flops(plan.program, op) for op in ops if isinstance(op, Multiply))
        if flops:
            yield f"{flops:,} FLOP multiplied per wave"
        for source, kind in (("LDS", Read), ("global memory", Take)):
            read = sum(_read_bytes(plan.program, op) for op in ops if isinstance(op, kind))
            if read:
                yield f"{read:,} B read from {source} per wave"


def _inside(op: Op, node: ast.Cluster) -> bool:
    return op.span is not None and op.span.file.name == node.span.file.name and (
        node.span.start <= op.span.start and op.span.end <= node.span.end
    )  # fmt: skip


def _flops(p: Program, op: Multiply) -> int:
    """Floating-point operations of one wave in a multiply."""
    rows, cols = p.accumulator.tile
    return 2 * len(op.rows) * len(op.cols) * len(op.slices) * rows * cols * p.a.slice


def _read_bytes(p: Program, op: Read | Take) -> int:
    o = p.operand(op.operand)
    return o.tensor.dtype.sized(len(op.tile.fragments) * len(op.tile.slices) * o.fragment_extent * o.slice)


def _size(size: int | None) -> str:
    return "dynamic" if size is None else f"{size:,}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number:,} {what}s"


def _bytes(count: int) -> str:
    """A byte count with its binary unit where it is round enough to say something."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count:,} B ({count / size:.4g} {unit})"
    return f"{count:,} B"
