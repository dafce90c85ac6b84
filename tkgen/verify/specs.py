"""Specs: their builds at a small size and at their own loop counts, as cases of `tkgen.verify.run`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import torch

from tkgen.backends.protocol import Build
from tkgen.backends.spec import AnySpec
from tkgen.diagnostics import SpecError
from tkgen.emulate import Interleaving, Policy
from tkgen.execute.admitted import like, small, stated
from tkgen.execute.arguments import check_scalars
from tkgen.execute.cases import size_cases
from tkgen.execute.compare import Inputs, random_inputs
from tkgen.execute.given import Asked, emulated
from tkgen.execute.launch import Payload, check_memory, emulate_all
from tkgen.ir.equations import AxisKind, Kernel, Loop, walk
from tkgen.ir.launch import Launch
from tkgen.ir.products import has_products
from tkgen.ir.sizing import Sizing
from tkgen.ir.types import Dim, Program
from tkgen.verify import payloads, ring
from tkgen.verify.degree import degree
from tkgen.verify.diagnose import explained
from tkgen.verify.inputs import grouped, risen
from tkgen.verify.meaning import meant
from tkgen.verify.ring import Planes, Ring
from tkgen.verify.run import Case, Drawn, Stored, Verdict, verified
from tkgen.verify.terms import Factors, factors
from tkgen.verify.unseen import sized, unseen

_PAGES = 12
_MORE = 6  # times as many elements as a small size of a sequence has: beyond that it is not small
_GROUPS = 4  # of rows, at a small size
_SHORT = 5  # by how much a tile at the end of a loop is smaller than others


def case_of(
    build: Build,
    extents: Mapping[str, int] | None = None,
    scalars: Mapping[str, float] | None = None,
    blocks: Sequence[int] | None = None,
    note: str = "",
    workers: int = 1,
) -> Case:
    """A build at its own sizes, `extents` for dynamic ones; of a kernel of rows or a loop these `blocks` alone.

    Raises SizeError for sizes that it cannot do.
    """
    launch = build.spec.launch(extents)
    values = {**check_scalars(build.spec.program), **(scalars or {})}
    each = [one.program.kernel for one in launch.launches]

    def draw(seed: int) -> Drawn:
        memory = grouped(each, random_inputs(launch, seed, Inputs.NORMAL), launch.extents, seed)
        memory = risen(each, memory) if seed % 2 else memory
        return Drawn(memory, payloads.drawn(launch.program.reads, memory, seed))

    def machine(drawn: Drawn, order: Interleaving) -> Stored:
        return _launched(build, launch, drawn, values, order, blocks, workers)

    def meaning(drawn: Drawn) -> Mapping[str, Ring]:
        found = meant(each, drawn.memory, drawn.rings, values, launch.extents)
        if blocks is not None:
            (one,) = launch.launches
            found = {name: _only(one, name, value, blocks, drawn) for name, value in found.items()}
        return found

    def sums(drawn: Drawn) -> Sequence[Factors]:
        return factors(each[0], drawn, values, launch.extents) if len(each) == 1 else ()

    return Case(build.spec.name, launch.extents, launch.written, draw, machine, meaning, degree(each), note, sums)


def _launched(
    build: Build, launch: Sizing, drawn: Drawn, scalars: Mapping[str, float], order: Interleaving,
    blocks: Sequence[int] | None, workers: int,
) -> Stored:  # fmt: skip
    """One launch over payloads. A store of one block to the position of another one remains in one of the two
    orders."""
    launch, backwards = in_turn(launch, order), order.policy is not Policy.BARRIER
    words: dict[str, Payload] = {name: payloads.packed(numbers) for name, numbers in drawn.rings.items()}
    adds = {name for single in launch.launches for name in single.program.added}
    for t in launch.written:
        rounds = payloads.remembers(t) and t.name not in drawn.memory and t.name not in adds
        if (payloads.carries(t) or rounds) and t.name not in words:
            words[t.name] = payloads.empty(t.dtype.counted(launch.shape(t)), t.name in adds)
    found, outcomes = emulate_all(
        build, launch, drawn.memory, scalars, order=order, watch=False, workers=workers, blocks=blocks,
        backwards=backwards, payloads=words,
    )  # fmt: skip
    return Stored(
        found,
        {t.name: words[t.name] for t in launch.written if t.name in words},
        tuple(loss for o in outcomes for loss in o.lost),
        tuple(f for o in outcomes for f in o.findings),
        sum(o.instructions for o in outcomes),
    )


def in_turn(launch: Sizing, order: Interleaving) -> Sizing:
    """The launch that this order of waves gets: the first one as it is, others with few blocks on persistent grids.

    Each of these then has two tiles or more: machine code takes any number of blocks there.
    """
    if order.policy is Policy.BARRIER:
        return launch
    return launch.with_launches([one.on_few_blocks() for one in launch.launches])


def _only(launch: Launch[Any], name: str, value: Ring, blocks: Sequence[int], drawn: Drawn) -> Ring:
    """Return the stores of some blocks, and the initial values elsewhere. Groups of rows are those of the drawn
    offsets.
    """
    offsets = {t.name: drawn.memory[t.name].tolist() for t in launch.program.kernel.offsets}
    launch = launch.of_groups(offsets)
    tensor = next(t for t in launch.program.outputs if t.name == name)
    mine = torch.zeros(value.shape, dtype=torch.bool)
    for box in (box for block in blocks for box in launch.boxes(block)):
        mine[launch.part(tensor, box)] = True
    before = drawn.rings.get(name, ring.unwritten(value.shape)).planes
    own = value.planes
    pairs = ((own.real, before.real), (own.error, before.error), (own.unsure, before.unsure), (own.p, before.p))
    real, error, unsure, p = (torch.where(mine, a, b) for a, b in pairs)
    return Ring(Planes(real, error, unsure, p, torch.where(mine, own.q, before.q)))


# ---------------------------------------------------------------- sizes


def chosen_cases(asked: Asked) -> Iterator[tuple[dict[str, float | None], str]]:
    """The `-D` values at which a spec is verified, and what each is for: a small size, and its own loop counts."""
    spec = emulated(asked.load())
    sizes, scalars = size_cases(spec), check_scalars(spec.program)
    few = dict.fromkeys(_listed(spec), _PAGES)  # of what tables list: there need not be many

    def check(static: Mapping[str, int]) -> object:
        return asked.load(static).check()

    several = _several(spec, sizes, small(spec, check), asked)
    if spec.kernels == (spec,) and spec.program.grid.name == "stream_k":  # few steps are one for each of its blocks
        several = {name: size for name, size in several.items() if name not in _looped(spec)}
    yield {**few, **several, **_telling(scalars)}, "small"
    unlooped = {name: size for name, size in sizes[0].items() if name not in _looped(spec)}
    own = few | like(unlooped, sizes, stated(spec), check)[0]
    if own != few | several and own != few | sizes[0]:
        yield {**own, **scalars}, "own loops"


def _telling(scalars: Mapping[str, float]) -> dict[str, float]:
    """The values of scalars, others for those with which a factor or a term that is wrong may go unseen."""
    plain = Counter(scalars.values()) + Counter((0.0, 0.5, 1.0))
    return {n: value if plain[value] == 1 else 0.5 + 0.25 / 2**i for i, (n, value) in enumerate(scalars.items())}


def _several(spec: AnySpec, sizes: Sequence[dict[str, int]], found: dict[str, int], asked: Asked) -> dict[str, int]:
    """A small size with several blocks, with tails where there may be some, if the spec can do it, else `found`."""

    def possible(case: Mapping[str, int]) -> bool:
        with suppress(SpecError):
            replace(asked, defines=case).valued()[0].check()
            return True
        return False

    def worth(case: Mapping[str, int]) -> tuple[bool, int]:
        return any(case[n] % sizes[0][n] for n in names), prod(case[n] for n in names)

    each = spec.kernels
    products = [one.program for one in each if one.divides]
    names = {d.name for p in products for d in (p.m, p.n) if d.name in sizes[0]}
    if products:
        tried = sorted((c for c in sizes if all(c.values())), key=worth, reverse=True)
        if len(each) > 1:  # tails, where they do not make it much larger
            most = _MORE * prod(found.values())
            tried = [c for c in tried if worth(c)[0] and prod(c.values()) <= most]
        found = next(filter(possible, tried), found)
        several = found | {name: size for p in products for name, size in _of_groups(p).items()}
        return several if possible(several) else found
    tiled = _tiled(each)
    if tiled and each == (spec,):  # which otherwise has what is along an index once
        several = {name: size if name in tiled else 2 * size for name, size in sizes[1].items()}
        found = several if possible(several) else found
    for name in [name for name in found if name in tiled]:
        shorter = found | {name: found[name] - _SHORT}
        found = shorter if possible(shorter) else found
    return found


def _of_groups(program: Program) -> dict[str, int]:
    """Return sizes for kernels with groups of rows: a few groups, and rows for two rows of tiles and a part of one."""
    if program.ragged is None or program.ragged.within is None:
        return {}
    (index,) = (a for a in program.batch if a.name == program.ragged.within.of)
    return {index.dim.name: _GROUPS, program.m.name: 2 * program.block[0] + 1}


def _tiled(each: Sequence[AnySpec]) -> set[str]:
    """The dimensions along which a kernel with a loop goes by tiles."""
    fixed = [one.program.kernel for one in each if not one.divides and not one.program.dynamic]
    return {a.dim.name for kernel in fixed if has_products(kernel) for a in kernel.axes if (a.tile or 1) > _SHORT}


def _listed(spec: AnySpec) -> set[str]:
    """The dimensions that are as large as a cache is, of which tables list places."""
    tables = [(k.held[t], t) for k in (one.program.kernel for one in spec.kernels) for t in k.tables]
    return {dim.name for dim, _ in tables if dim.size is not None and dim.size > _PAGES}


def _looped(spec: AnySpec) -> set[str]:
    """The dimensions of a size that the spec gives along which alone loops go."""
    each = [one.program.kernel for one in spec.kernels]
    inside = [op for kernel in each if has_products(kernel) for op in walk(kernel.body)]
    axes = [op.axis for op in inside if isinstance(op, Loop) and op.axis.dim.size]
    looped = {dim.name for axis in axes for dim in (axis.dim, *axis.parts)}
    if spec.kernels != (spec,):  # along what another kernel has blocks there would be as many of these
        for kernel in each:
            looped -= {a.dim.name for a in kernel.axes if a.kind is AxisKind.PARALLEL and not a.is_index}
    return looped


def some_blocks(launch: Sizing) -> tuple[int, ...] | None:
    """The blocks that are run where there are more than a few, of a loop: the first and the last; None for all."""
    (first, *others) = launch.launches
    if others or first is not launch or first.summed[0] or launch.blocks <= 4:
        return None
    return (0, launch.blocks - 1)


def verified_spec(
    path: Path, defines: Mapping[str, float | None], target: str | None, roots: Sequence[Path], draws: int = 2,
    schedules: int = 2, seed: int = 0, cxx: str | None = None,
) -> list[Verdict]:  # fmt: skip
    """The verdicts on a spec at a small size and at its own loop counts, or at the sizes that `defines` has.

    Raises:
        SpecError: the spec is wrong, or a value gives nothing that is there.
        SizeError: a size that the kernel cannot do, or a scalar without a value; a kernel that nothing emulates.
        ToolchainError: nothing here compiles it.
        EmulateError: a launch cannot start.
    """
    asked = Asked(path, defines, target, roots)
    cases = [(dict(defines), "built for -D")] if defines else list(chosen_cases(asked))
    found = []
    own = _kernels(emulated(asked.load()))
    for values, note in cases:
        chosen = replace(asked, defines=values).chosen()
        build = chosen.spec.build(cxx=cxx, machine_check=False)  # all of it is run here
        check_memory(chosen.launch)
        blocks = some_blocks(chosen.launch) if note == "own loops" else None
        if blocks is not None:
            note = f"{note}, blocks {' and '.join(map(str, blocks))} of {chosen.launch.blocks}"
        case = case_of(build, chosen.extents, chosen.scalars, blocks, note)
        verdict = verified(case, draws, schedules, seed, explained)
        found.append(replace(verdict, unseen=unseen(own, _kernels(chosen.spec, chosen.launch))))
    return found


def _kernels(spec: AnySpec, launch: Sizing | None = None) -> tuple[Kernel, ...]:
    """Return the equations of the kernels of a spec, at the sizes of `launch`."""
    found = tuple(one.program.kernel for one in spec.kernels)
    if launch is None:
        return found
    dims = {d: replace(d, size=launch.extents.get(d.name, d.size)) for k in found for d in _dims(k)}
    return tuple(sized(kernel, dims) for kernel in found)


def _dims(kernel: Kernel) -> Iterator[Dim]:
    yield from (d for t in kernel.tensors for d in t.dims)
    yield from (a.dim for a in kernel.axes)


def verify(build: Build, *, draws: int = 2, schedules: int = 2, seed: int = 0, **sizes: int) -> Verdict:
    """The verdict on a build at its own sizes; `sizes` has those of dynamic dimensions.

    Raises SizeError for sizes that it cannot do, EmulateError where a launch cannot start.
    """
    return verified(case_of(build, sizes), draws, schedules, seed, explained)
