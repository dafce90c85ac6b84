"""The pipeline: what each wave does in the prologue and in one pass of the steady loop, epoch by epoch.

An epoch ends where the wave passes a barrier, so operations of different waves in one epoch run side by side in any
order, and everything in an earlier epoch that was waited for is over (`tkgen.schedule.epochs`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tkgen.backends.cdna.lower.origins import Performed
from tkgen.ir.graph import Dependency, Node, dependencies
from tkgen.schedule import Plan
from tkgen.schedule.traces import Event, trace
from tkgen.source import Span
from tkgen.tile.ops import Fence, Fetch, Read, Store, Take, Zero
from tkgen.tile.program import Control, Op, Role

PROLOGUE, STEADY, NEXT, EPILOGUE = "prologue", "steady", "next", "epilogue"
SHORT_STEP = 2  # up to so many barriers the K-step after the pass is shown too, for what depends on it


@dataclass(frozen=True)
class LaneOp:
    """An operation of a lane, in `epoch`; complete in epoch `done`, None where nothing shown waits for it.

    `action` is its kind (`load`, `read`, `barrier`, ...). `node` is its position in the dataflow graph, -1 for none;
    `iteration` counts K-steps of the loop from 0, negative in the prologue; `cluster` numbers the clusters of a written
    schedule from 0, -1 elsewhere. `line` is the row of its spec line (0: placed by tkgen). `cycles` are predicted: how
    long its instructions keep a wave of the lane, on average.
    """

    text: str
    action: str
    operand: str
    segment: str
    epoch: int
    done: int | None
    node: int
    iteration: int
    cluster: int
    line: int
    automatic: bool
    cycles: float | None


@dataclass(frozen=True)
class Lane:
    """Waves that execute the same operations, `phase` barriers behind the first."""

    role: str
    waves: tuple[int, ...]
    phase: int
    ops: tuple[LaneOp, ...]


@dataclass(frozen=True)
class Link:
    """A dependency: `source` of iteration i before `target` of iteration i + `distance` (positions in the graph).

    `barrier` is the number within the iteration of the first barrier that covers it, None where none is needed;
    `covered` says in words what orders the two.
    """

    source: int
    target: int
    source_text: str
    target_text: str
    kind: str
    medium: str
    operand: str
    distance: int
    barrier: int | None
    covered: str


@dataclass(frozen=True)
class Pipeline:
    """The lanes over `epochs` epochs, and every dependency of an iteration.

    A pass of the loop makes `steps_per_pass` K-steps, each with `barriers_per_step` barriers; the prologue runs `depth`
    K-steps ahead. `passes` is the loop's trip count, None when K is known at run time only. `clusters`
    are the clusters of a written schedule as text.
    """

    lanes: tuple[Lane, ...]
    epochs: int
    steps_per_pass: int
    barriers_per_step: int
    depth: int
    passes: int | None
    explicit: bool
    clusters: tuple[str, ...]
    links: tuple[Link, ...]
    text: str


Cycles = Callable[[tuple[int, ...], Performed, type[Op]], float | None]


def pipeline(plan: Plan, row: Callable[[Span | None], int], cycles: Cycles | None = None) -> Pipeline:
    """The pipeline of `plan`; `row` numbers spec lines.

    `cycles` gives the predicted ones of an operation: for waves, the operation's place in the schedule and
    its kind.
    """
    shape = plan.shape
    shown = 1 if shape.passes is None or shape.passes else 0
    nodes = {data["node"].op.identity: (n, data["node"].op.offset) for n, data in plan.graph.nodes(data=True)}
    clusters = _clusters(plan, row)
    drafts = [lane_events(plan, wave) for wave in plan.waves]
    last = max((e.begin for d in drafts for e, segment, _ in d if segment in (PROLOGUE, STEADY)), default=0)
    if not shown:
        last = max((e.begin for d in drafts for e, _, _ in d), default=0)
    elif plan.barriers_per_step <= SHORT_STEP and (shape.passes is None or shape.passes > 1):
        last += plan.barriers_per_step
    lanes = []
    for wave, draft in zip(plan.waves, drafts, strict=True):
        ops = []
        for event, segment, done in draft:
            if event.begin > last or (segment == EPILOGUE and shown) or isinstance(event.op, Fence):
                continue
            spent = cycles(wave.waves, done, type(event.op)) if cycles and done else None
            ops.append(_lane_op(event, segment, nodes, clusters, row, spent))
        lanes.append(Lane(wave.name, wave.waves, wave.phase, tuple(ops)))
    return Pipeline(
        lanes=tuple(lanes),
        epochs=last + 1,
        steps_per_pass=shape.unroll,
        barriers_per_step=plan.barriers_per_step,
        depth=shape.depth,
        passes=shape.passes,
        explicit=not plan.automatic,
        clusters=tuple(clusters.values()),
        links=tuple(_links(plan)),
        text=plan.to_text(),
    )


def lane_events(plan: Plan, wave: Role) -> list[tuple[Event, str, Performed | None]]:
    """Every event of a wave over up to two passes of the loop: event, segment, the place of its operation.

    A barrier of a phase is no operation of the schedule: it has no place.
    """
    passes = 2 if plan.shape.passes is None else min(plan.shape.passes, 2)
    last_phase = max(w.phase for w in plan.waves)
    steps = plan.shape.steps(passes)
    events = trace(plan.program, wave, passes, plan.shape.unroll, steps, 1, last_phase)
    first, each = wave.phase + len(wave.before), len(wave.tiles.body)
    ends = (first, first + each, first + passes * each)
    segments = (PROLOGUE, STEADY, NEXT, EPILOGUE)
    return [(e, segments[bisect_right(ends, at)], Performed(wave.name, e.place) if e.place else None)
            for at, e in enumerate(events)]  # fmt: skip


def _lane_op(
    event: Event, segment: str, nodes: Mapping[int, tuple[int, int]],
    clusters: Mapping[int, str], row: Callable[[Span | None], int], cycles: float | None,
) -> LaneOp:  # fmt: skip
    op = event.op
    node, offset = nodes.get(op.identity, (-1, op.offset))
    starts = sorted(clusters)
    line = row(op.span)
    return LaneOp(
        text=str(op),
        action=op.word,
        operand=op.operand,
        segment=segment,
        epoch=event.begin,
        done=None if event.done == float("inf") else int(event.done),
        node=node,
        iteration=event.step - offset,
        cluster=starts.index(line) if line in clusters and not isinstance(op, Zero | Store) else -1,
        line=line,
        automatic=isinstance(op, Control) and op.automatic,
        cycles=cycles,
    )


def _clusters(plan: Plan, row: Callable[[Span | None], int]) -> dict[int, str]:
    """The lines of a written schedule: row of the spec line -> its text."""
    found: dict[int, str] = {}
    for role in plan.program.roles:
        for cluster in role.schedule.clusters if role.schedule else ():
            found[row(cluster.span)] = " ".join(cluster.span.text.split())
    return dict(sorted(found.items()))


def _links(plan: Plan) -> list[Link]:
    barriers = {
        (data["dependency"].source, data["dependency"].target, data["dependency"]): data["barrier"]
        for _, _, data in plan.graph.edges(data=True)
    }
    result = []
    for d in dependencies(plan.graph):
        source: Node = plan.graph.nodes[d.source]["node"]
        target: Node = plan.graph.nodes[d.target]["node"]
        barrier = barriers[d.source, d.target, d]
        result.append(
            Link(
                d.source,
                d.target,
                str(source.op),
                str(target.op),
                d.kind,
                d.medium,
                d.operand,
                d.distance,
                barrier,
                _covered(d, barrier, source.op),
            )
        )
    return result


def _covered(d: Dependency, barrier: int | None, source: Op) -> str:
    """Name what orders a dependency: a barrier, a counter, or program order."""
    if d.crosses_waves:
        return "nothing" if barrier is None else f"barrier {barrier}"
    if isinstance(source, Read) and d.medium == "register":
        return "lgkmcnt, program order"
    if isinstance(source, Take | Fetch):
        return "vmcnt, program order"
    return "program order"
