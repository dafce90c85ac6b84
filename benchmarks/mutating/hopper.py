"""Mutants of Hopper's schedules, the proof, and the model that runs them with data.

    for trial in trials("products", count=24): trial.kind, trial.proof, trial.found

A mutant is a slip in the C++ that the schedule stands for: one line of the producer, or one of the consumers, which all
of their warps run. Its schedule is proven as `tkgen check` would prove it, for any number of tiles, and executed in
several orders on tiles of torch, for two passes of the proof's loop. `found` is the number of the first order in which
the model hangs, sees something wrong or leaves wrong numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from tkgen.api import load
from tkgen.backends.hopper.interpreter import HopperInterpreter, one_thread
from tkgen.backends.hopper.loop_model import LoopWork
from tkgen.backends.hopper.loop_schedule import Shape as LoopShape
from tkgen.backends.hopper.loop_schedule import schedule as loop_schedule
from tkgen.backends.hopper.model import Memory, ProductWork, started, work_of
from tkgen.backends.hopper.row_model import run_rows
from tkgen.backends.hopper.schedule import block_shape, schedule, wrong
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.execute.arguments import check_scalars
from tkgen.execute.compare import Inputs, compared, random_inputs, references
from tkgen.ir.functions import HOPPER
from tkgen.ir.rounding import TORCH
from tkgen.proof.execution import Order, Work, execute
from tkgen.proof.program import Access, Arrive, Await, Commit, Do, Drain, Fence, Loop, Looped, Meet, Step
from tkgen.schedule.row_verifier import wrong as row_wrong

SPECS = Path(__file__).parents[2] / "specs"
PASSES = 2  # of the proof's loop that the model runs
WARPS = 2  # of a consumer: no two but the first differ
Found = Mapping[str, tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Trial:
    """A mutant: what the proof says of it, and in which of the orders, from 1 on, the model finds it; 0 in none."""

    family: str
    kind: str
    what: str
    proof: str
    found: int

    @property
    def escaped(self) -> bool:
        """Return True if the proof accepts a wrong schedule."""
        return not self.proof and self.found > 0


@dataclass(frozen=True)
class Subject:
    """A schedule, and how it is run: `fault` says what the model finds of another one in an order."""

    family: str
    loop: Loop
    fault: Callable[[Loop, Order], str]
    once: bool = False  # a program, no loop


def trials(family: str, count: int, every: int = 1, first: int = 0) -> Iterator[Trial]:
    """Each `every`-th mutant of a family from the `first` on, in `count` orders. The schedule itself must be right."""
    with one_thread():
        orders = HopperInterpreter().orders(count)
        if family == "rows":
            yield from islice(_row_trials(orders, every, first), None)
            return
        subject = _subject(family)
        proof = partial(wrong, once=subject.once)
        if said := proof(subject.loop) or next(filter(None, (subject.fault(subject.loop, o) for o in orders)), ""):
            raise ValueError(f"{family} is wrong before anything is changed: {said}")
        for kind, what, loop in islice(mutants(subject.loop), first, None, every):
            found = (n for n, order in enumerate(orders, 1) if subject.fault(loop, order))
            yield Trial(family, kind, what, proof(loop) or "", next(found, 0))


# ---------------------------------------------------------------- what is mutated


@cache
def _subject(family: str) -> Subject:
    match family:
        case "loops":
            return _attention()
        case "runs":
            return _runs()
    return _product(family)


def _work(found: Found, outputs: Mapping[str, Tensor], findings: Sequence[str]) -> str:
    comparisons = compared(outputs, found)
    return "; ".join([*findings, *(str(c) for c in comparisons.values() if not c.right)])


PRODUCTS: dict[str, tuple[str, dict[str, int | None]]] = {
    "products": ("h100_lcf", {"M": 64, "N": 512, "K": 192, "ROWS": 64, "COLUMNS": 128, "STAGES": 2}),
    "turns": ("h100_ping_pong", {"M": 256, "N": 128, "K": 192, "ROWS": 256, "COLUMNS": 64, "STAGES": 2}),
    "scaled": ("h100_fp8_blocks", {"M": 64, "N": 512, "K": 384, "ROWS": 64, "STAGES": 2}),
    "groups": (
        "h100_grouped",
        {"TOKENS": 400, "EXPERTS": 4, "OUT": 128, "IN": 192, "ROWS": 64, "COLUMNS": 128, "STAGES": 2},
    ),
    "outputs": ("h100_swiglu_gates", {"TOKENS": 64, "HIDDEN": 256, "D": 192, "ROWS": 64, "COLUMNS": 64, "STAGES": 2}),
    "clusters": ("h100_cluster", {"M": 128, "N": 256, "K": 192, "ROWS": 64, "COLUMNS": 64, "STAGES": 2}),
}
"""Specs of products, and sizes: one or two tiles in a pass, three steps each, two stages, a few panels of a tile."""


def _product(family: str) -> Subject:
    """A schedule of products, of consumers with a buffer for what they store; of groups, which wait for both, two."""
    (name, sizes), blocks = PRODUCTS[family], 2 if family == "clusters" else 1
    text = (SPECS / "hopper" / f"{name}.tk").read_text(encoding="utf-8")
    old = "persistent(132)"
    assert old in text
    spec = load(text.replace(old, f"persistent({blocks})"), sizes)
    assert isinstance(spec, HopperSpec)
    launch = spec.launch()
    layout, pieces = spec.layout, launch.work
    shape = replace(block_shape(layout, launch.steps), warps=WARPS // blocks, buffers=2 if layout.ragged else 1)
    assert {len(own) for own in pieces} == {PASSES * shape.tiles} and len(pieces) == blocks == shape.blocks
    inputs = random_inputs(launch, 1, Inputs.EXACT)
    if spec.program.offsets is not None:  # of groups that are alike: each has a whole tile and a part of one
        inputs[spec.program.offsets.name] = torch.tensor(launch.held()[spec.program.offsets], dtype=torch.int32)
    wanted = references(launch, inputs, {}, HOPPER)

    def fault(loop: Loop, order: Order) -> str:
        outputs = {t.name: torch.full(launch.shape(t), torch.nan, dtype=TORCH[t.dtype]) for t in spec.program.outputs}
        memory = Memory(spec.program.kernel, inputs, {}, launch.extents, outputs)
        work = work_of(shape, [ProductWork(layout, shape, memory, own, launch) for own in pieces], loop)
        return _run(loop, work, order, wanted, outputs)

    return Subject(family, schedule(shape), fault)


def _runs() -> Subject:
    """A block's run of K-steps: the rest of a tile and a whole one. The block before it has done its own."""
    text = (SPECS / "hopper" / "h100_stream_k.tk").read_text(encoding="utf-8")
    old = "stream_k(132)"
    assert old in text
    sizes: dict[str, int | None] = {"M": 64, "N": 384, "K": 192, "ROWS": 64, "COLUMNS": 128, "STAGES": 2}
    spec = load(text.replace(old, "stream_k(2)"), sizes)
    assert isinstance(spec, HopperSpec)
    launch, layout = spec.launch(), spec.layout
    whole = replace(block_shape(layout, 0), warps=WARPS, buffers=1)
    shapes = [replace(whole, run=tuple(piece.steps for piece in pieces)) for pieces in launch.work]
    assert [shape.run for shape in shapes] == [(3, 2), (1, 3)]
    inputs = random_inputs(launch, 1, Inputs.EXACT)
    wanted = references(launch, inputs, {}, HOPPER)

    def fault(loop: Loop, order: Order) -> str:
        outputs = started(spec.program, launch)
        memory = Memory(spec.program.kernel, inputs, {}, launch.extents, outputs, spec.program.added)
        first, last = (ProductWork(layout, s, memory, own, launch) for s, own in zip(shapes, launch.work, strict=True))
        execute(schedule(shapes[0]).unrolled(1), first, order)
        return _run(loop, last, order, wanted, outputs, 1)

    return Subject("runs", schedule(shapes[1]), fault, once=True)


def _attention() -> Subject:
    """Two consumers of 64 queries, three passes over keys for a tile, two buffers of each factor."""
    text = (SPECS / "hopper" / "h100_attention.tk").read_text(encoding="utf-8")
    sizes = {"BATCH": 1, "HEADS": 1, "KV_HEADS": 1, "LENGTH": 512, "D": 64, "BLOCK": 192}
    old = "grid persistent(132)"
    assert old in text
    spec = load(text.replace(old, "grid persistent(1)"), sizes)
    assert isinstance(spec, HopperSpec)
    m, launch = spec.layout, spec.launch()
    shape = LoopShape(*m.buffers, m.consumers, len(m.passes(launch.extents, 0)), WARPS)
    places = [launch.place(tile) for tile in range(launch.tile_count)]
    assert len(places) == PASSES * shape.tiles
    scalars = check_scalars(spec.program)  # type: ignore[arg-type]
    inputs = random_inputs(launch, 1, Inputs.EXACT)
    wanted = references(launch, inputs, scalars, HOPPER)

    def fault(loop: Loop, order: Order) -> str:
        outputs = {t.name: torch.full(launch.shape(t), torch.nan, dtype=TORCH[t.dtype]) for t in spec.program.outputs}
        memory = Memory(m.kernel, inputs, scalars, launch.extents, outputs)  # type: ignore[union-attr]
        return _run(loop, LoopWork(m, shape, memory, places), order, wanted, outputs)

    return Subject("loops", loop_schedule(shape), fault)


def _run(
    loop: Loop, work: Work, order: Order, wanted: Found, outputs: Mapping[str, Tensor], passes: int = PASSES
) -> str:
    try:
        findings = execute(loop.unrolled(passes), work, order).findings
    except (KeyError, IndexError, RuntimeError, ValueError) as error:
        return f"nothing can be computed: {error!r}"
    return _work(wanted, outputs, findings)


def _row_trials(orders: Sequence[Order], every: int, first: int) -> Iterator[Trial]:
    """Steps of a softmax whose rows eight warps share."""
    from mutating.rows import Changed, mutants

    spec = load(SPECS / "rows" / "softmax.tk", {"ROWS": 6, "D": 8192}, "sm_90a")
    assert isinstance(spec, HopperSpec)
    launch = spec.launch()
    inputs = random_inputs(launch, 1, Inputs.NORMAL)
    wanted = references(launch, inputs, {}, HOPPER)
    steps = (m for m in mutants(spec.layout) if isinstance(m.layout, Changed) and m.layout.sweeps == spec.layout.sweeps)
    for mutant in islice(steps, first, None, every):

        def fault(order: Order, layout: Changed = mutant.layout) -> str:  # type: ignore[assignment]
            try:
                made = run_rows(layout, spec.target.lanes, launch, inputs, {}, order)  # type: ignore[arg-type]
            except (KeyError, IndexError, RuntimeError, ValueError) as error:
                return f"nothing can be computed: {error!r}"
            return _work(wanted, made.outputs, made.findings)

        found = (n for n, order in enumerate(orders, 1) if fault(order))
        said = "; ".join(dict.fromkeys(what for _, what in row_wrong(mutant.layout, spec.target.lanes)))
        yield Trial("rows", mutant.kind, mutant.what, said, next(found, 0))


# ---------------------------------------------------------------- mutants

Key = tuple[str, str, int]  # a kind of step, at what, which of these: the same line of C++ in all warps
Edit = Callable[[Sequence[Step], int], Sequence[Step]]  # what stands for the steps of an agent, one of which it changes


def mutants(loop: Loop) -> Iterator[tuple[str, str, Loop]]:
    """(kind, what, mutant), in a fixed order."""
    for meeting in loop.meetings:
        for by in (1, -1):
            if meeting.arrivals + by > 0:
                changed = tuple(replace(m, arrivals=m.arrivals + by) if m == meeting else m for m in loop.meetings)
                yield "arrivals +-1", f"{meeting.name} {by:+}", replace(loop, meetings=changed)
    producers = [a for a in loop.agents if a.name.startswith("producer")]
    consumers = [a for a in loop.agents if a not in producers]
    for agent, alike in ((alike[0], alike) for alike in (producers, consumers)):
        for key, step in _keyed(agent.body):
            for kind, edit in _edits(step, loop.slots):
                agents = [replace(a, body=_edited(a.body, key, edit)) if a in alike else a for a in loop.agents]
                yield kind, f"{agent.name}: {step} ({key[2]})", replace(loop, agents=tuple(agents))
    without = [replace(a, epilogue=()) for a in loop.agents]
    yield "no wait at the end", "all", replace(loop, agents=tuple(without))
    if any(a.block for a in loop.agents):
        yield from _cluster_mutants(loop)


def _cluster_mutants(loop: Loop) -> Iterator[tuple[str, str, Loop]]:
    """Slips of what the blocks of a cluster do for each other, which both make; what is counted is changed along."""

    def all_steps(edit: Callable[[Looped, Step], list[Step]], arrivals: int = 1) -> Loop:
        def made(agent: Looped) -> Looped:
            parts = ([new for step in part for new in edit(agent, step)] for part in
                     (agent.prologue, agent.body, agent.epilogue))  # fmt: skip
            before, body, behind = map(tuple, parts)
            return replace(agent, prologue=before, body=body, epilogue=behind)

        meetings = (
            replace(m, arrivals=m.arrivals // arrivals) if m.name.startswith("empty") else m for m in loop.meetings
        )
        return replace(loop, agents=tuple(map(made, loop.agents)), meetings=tuple(meetings))

    def own(agent: Looped, name: str) -> str:
        """The name within its own block."""
        return f"{name.rsplit(' of ', 1)[0]} of {agent.block.split()[-1]}"

    def given_back(step: Step) -> bool:
        return isinstance(step, Arrive) and step.meeting.startswith("empty")

    def common(step: Step) -> bool:
        return (
            isinstance(step, Do)
            and step.stream == "copies"
            and len(step.writes[0].box) == 1 + (step.writes[0].ring[0] == "A")
        )

    def elsewhere(agent: Looped, step: Step) -> bool:
        return isinstance(step, Arrive | Do) and step.meeting != own(agent, step.meeting)

    def part(step: Step, change: Callable[[int], int]) -> Step:
        assert isinstance(step, Do)
        (access,) = step.writes
        at = change(access.box[-1][0])
        return replace(step, writes=(replace(access, box=(*access.box[:-1], (at, at + 1))),))

    for when in ("prologue", "epilogue"):
        agents = [
            replace(a, **{when: tuple(s for s in getattr(a, when) if not isinstance(s, Meet))}) for a in loop.agents
        ]
        yield "no barrier of the cluster", when, replace(loop, agents=tuple(agents))
    late = [replace(a, prologue=a.prologue[::-1]) for a in loop.agents]
    yield "no barrier of the cluster", "before the mbarriers are set up", replace(loop, agents=tuple(late))
    kind = "a stage given back to one block"
    yield (
        kind,
        "its own, twice",
        all_steps(
            lambda a, s: [replace(s, meeting=own(a, s.meeting))] if isinstance(s, Arrive) and given_back(s) else [s]
        ),
    )
    yield (
        kind,
        "its own, and expected once",
        all_steps(lambda a, s: [] if given_back(s) and elsewhere(a, s) else [s], 2),
    )
    yield (
        kind,
        "the other, and expected once",
        all_steps(lambda a, s: [] if given_back(s) and not elsewhere(a, s) else [s], 2),
    )
    kind = "another mask"
    fewer = {"its own block alone": elsewhere, "the other block alone": lambda a, s: not elsewhere(a, s)}
    for what, dropped in fewer.items():
        yield kind, what, all_steps(lambda a, s, dropped=dropped: [] if common(s) and dropped(a, s) else [s])
        yield (
            kind,
            f"{what}, and as many bytes",
            all_steps(
                lambda a, s, dropped=dropped: (
                    []
                    if common(s) and dropped(a, s)
                    else [replace(s, bytes=s.bytes - 1)]
                    if isinstance(s, Arrive) and s.bytes
                    else [s]
                )
            ),
        )
    kind = "another part of a tile"
    yield kind, "the first by both", all_steps(lambda a, s: [part(s, lambda _: 0)] if common(s) else [s])
    yield kind, "that of the other block", all_steps(lambda a, s: [part(s, lambda at: 1 - at)] if common(s) else [s])


def _keyed(body: Sequence[Step]) -> Iterator[tuple[Key, Step]]:
    counts: dict[tuple[str, str], int] = {}
    for step in body:
        name = getattr(step, "stream", "") or getattr(step, "meeting", "")
        of = (type(step).__name__, " ".join(word for word in name.split() if not word.isdigit()))
        counts[of] = counts.get(of, -1) + 1
        yield (*of, counts[of]), step


def _edited(body: Sequence[Step], key: Key, edit: Edit) -> tuple[Step, ...]:
    at = next((n for n, (k, _) in enumerate(_keyed(body)) if k == key), None)
    return tuple(body) if at is None else tuple(edit(body, at))


def _instead(*steps: Step) -> Edit:
    return lambda body, at: [*body[:at], *steps, *body[at + 1 :]]


def _each(change: Callable[[Step], Step]) -> Edit:
    return lambda body, at: [*body[:at], change(body[at]), *body[at + 1 :]]


def _exchanged(body: Sequence[Step], at: int) -> Sequence[Step]:
    return [*body[:at], *body[at + 1 : at + 2], body[at], *body[at + 2 :]]


def _edits(step: Step, slots: Mapping[str, int]) -> Iterator[tuple[str, Edit]]:
    """The slips that one step can be."""
    yield "two steps exchanged", _exchanged
    match step:
        case Await():
            yield "no wait for a phase", _instead()
            yield "the other phase", _each(lambda s: replace(s, phase=s.phase + 1))  # type: ignore[union-attr, call-arg]
        case Arrive(bytes=0):
            yield "no arrival", _instead()
            yield "an arrival too many", lambda body, at: [*body[: at + 1], body[at], *body[at + 1 :]]
        case Arrive():
            for by in (1, -1):
                yield "bytes +-1", _each(lambda s, by=by: replace(s, bytes=s.bytes + by))  # type: ignore[misc, union-attr, call-arg]
        case Meet():
            yield "no barrier of a warpgroup", _instead()
        case Drain():
            yield f"no wait for {step.stream}", _instead()
            yield f"a wait for {step.stream} that leaves one more", _each(lambda s: replace(s, left=s.left + 1))  # type: ignore[union-attr, call-arg]
        case Fence():
            yield "no fence", _instead()
        case Commit():
            yield "no commit", _instead()
        case Do():
            yield "an operation left out", _instead()
            if any(slots[a.ring] > 1 for a in (*step.reads, *step.writes)):
                yield "another stage", _each(lambda s: _moved(s, slots, 1, 0))
            if step.stream == "copies":
                yield "another tile", _each(lambda s: _moved(s, slots, 0, 1))


def _moved(step: Step, slots: Mapping[str, int], by: int, instances: int) -> Step:
    """An operation that touches the next slot, or the next instance, of rings that have several."""
    assert isinstance(step, Do)

    def moved(a: Access) -> Access:
        return replace(a, slot=(a.slot + by) % slots[a.ring], instance=a.instance + instances)

    return replace(step, reads=tuple(map(moved, step.reads)), writes=tuple(map(moved, step.writes)))
