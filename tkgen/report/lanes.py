"""The pipeline: the ops of each role, before its loop, in an iteration of it and after it, in epochs.

An epoch ends where all waves of the block meet, so operations of different waves in one epoch run side by side in any
order, and everything in an earlier epoch that was waited for is over (`tkgen.schedule.epochs`). Roles that hand tiles
to each other without such a barrier have a column for each of their loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tkgen.backends.cdna.lower.origins import Performed
from tkgen.ir.graph import Dependency, dependencies
from tkgen.schedule.plan import EPILOGUE, PROLOGUE, STEADY, Plan
from tkgen.schedule.tile_graph import tile_graph
from tkgen.schedule.traces import Event
from tkgen.source import Span
from tkgen.tile.ops import Barrier, Fence, Fetch, Read, Store, Take, Zero
from tkgen.tile.program import Control, Op, Part, Role, Sync
from tkgen.tile.scheduled import Scheduled
from tkgen.tile.table import LoopBudget, loops

if TYPE_CHECKING:
    import networkx as nx

SHORT_STEP = 2  # up to so many barriers the K-step after the pass is shown too, for what depends on it
SEGMENT_OF = {Part.PROLOGUE: PROLOGUE, Part.BODY: STEADY, Part.EPILOGUE: EPILOGUE}


@dataclass(frozen=True)
class LaneOp:
    """An operation of a lane, in `epoch`; complete in epoch `done`, None where nothing shown waits for it.

    `action` is its kind (`load`, `read`, `barrier`, ...), `within` the loop or condition around it, `waits` the event
    that it waits for. `node` is its position in the dataflow graph, -1 for none; `iteration` counts K-steps of the loop
    from 0, negative in the prologue, None for an operation that stands for all iterations; `cluster` numbers the
    clusters of a written schedule from 0, -1 elsewhere. `line` is the row of its spec line (0: placed by tkgen).
    `cycles` are predicted: how long its instructions keep a wave of the lane, on average.
    """

    text: str
    action: str
    segment: str
    within: str
    waits: str
    epoch: int
    done: int | None
    node: int
    iteration: int | None
    cluster: int
    line: int
    automatic: bool
    cycles: float | None


@dataclass(frozen=True)
class Lane:
    """Waves that execute the same operations, `phase` barriers after the first."""

    role: str
    waves: tuple[int, ...]
    phase: int
    ops: tuple[LaneOp, ...]


@dataclass(frozen=True)
class Link:
    """A dependency: `source` of iteration i before `target` of iteration i + `distance` (positions in the graph).

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
    covered: str


@dataclass(frozen=True)
class Pipeline:
    """The lanes over `epochs` epochs, every dependency of an iteration, and the budget of each loop.

    An iteration of the loop makes `steps_per_pass` steps, called `step`, each with `barriers_per_step` barriers.
    `passes` is the loop's trip count, None if known only at run time. `clusters` are those of a written schedule as
    text.
    """

    lanes: tuple[Lane, ...]
    epochs: int
    step: str
    steps_per_pass: int
    barriers_per_step: int
    passes: int | None
    clusters: tuple[str, ...]
    links: tuple[Link, ...]
    loops: tuple[LoopBudget, ...]
    text: str


Cycles = Callable[[tuple[int, ...], Performed, type[Op]], float | None]
Row = Callable[[Span | None], int]


def pipeline(spec: Any, row: Row, cycles: Cycles | None = None) -> Pipeline:
    """The pipeline of a kernel; `row` numbers spec lines.

    `cycles` gives the predicted ones of an operation: for waves, the operation's place in the schedule and its kind.
    """
    plan, budgets = spec.plan, tuple(loops(spec.tiles))
    if plan is None:
        lanes, graph = tuple(_lanes(spec.tiles, row)), tile_graph(spec.tiles, spec.name)
        last_role = [b for b in budgets if b.role == budgets[-1].role]  # which computes, where another one copies
        loop = next((b for b in last_role if b.title != "loop"), last_role[0])
        step = "iteration" if spec.program.contraction is None else "K-step"
        about: tuple[Any, ...] = (step, 1, loop.barriers, None, ())
    else:
        clusters = _clusters(plan, row)
        lanes, graph = tuple(_planned(plan, clusters, row, cycles)), plan.graph
        about = ("K-step", plan.shape.unroll, plan.barriers_per_step, plan.shape.passes, tuple(clusters.values()))
    last = max((op.epoch for lane in lanes for op in lane.ops), default=0)
    step, unroll, barriers, passes, written = about
    return Pipeline(
        lanes, last + 1, step, unroll, barriers, passes, written, tuple(_links(graph)), budgets, spec.scheduled
    )


# ---------------------------------------------------------------- any program


def _lanes(tiles: Scheduled, row: Row) -> Iterator[Lane]:
    """The roles, an epoch for each of their loops, and for what is between two barriers."""
    node = 0
    for role in tiles.block.roles:
        found: list[LaneOp] = []
        epoch, last = 0, None
        for step in tiles.steps(role):
            if last and ((last.part, last.within) != (step.part, step.within) or isinstance(last.op, Barrier | Sync)):
                epoch += 1
            last = step
            automatic, within = isinstance(step.op, Control) and step.op.automatic, ", ".join(step.within)
            shown = SEGMENT_OF[step.part], within, step.waits, epoch, None, node, None, -1, row(step.span), automatic
            found.append(LaneOp(step.text, step.action, *shown, None))
            node += 1
        yield Lane(role.name, tiles.agents(role), role.phase, tuple(found))


# ---------------------------------------------------------------- a plan, which says when operations are complete


def _planned(plan: Plan, clusters: Mapping[int, str], row: Row, cycles: Cycles | None) -> Iterator[Lane]:
    shown = 1 if plan.shape.passes is None or plan.shape.passes else 0
    nodes = {data["node"].op.identity: (n, data["node"].op.offset) for n, data in plan.graph.nodes(data=True)}
    drafts = [plan.events(wave) for wave in plan.waves]
    last = max((e.begin for d in drafts for e, segment in d if segment in (PROLOGUE, STEADY)), default=0)
    if not shown:
        last = max((e.begin for d in drafts for e, _ in d), default=0)
    elif plan.barriers_per_step <= SHORT_STEP and (plan.shape.passes is None or plan.shape.passes > 1):
        last += plan.barriers_per_step
    for wave, draft in zip(plan.waves, drafts, strict=True):
        ops = []
        for event, segment in draft:
            if event.begin > last or (segment == EPILOGUE and shown) or isinstance(event.op, Fence):
                continue
            place = event.place and Performed(wave.name, event.place)
            spent = cycles(wave.waves, place, type(event.op)) if cycles and place else None
            ops.append(_lane_op(plan.tiles, wave, event, segment, nodes, clusters, row, spent))
        yield Lane(wave.name, wave.waves, wave.phase, tuple(ops))


def _lane_op(
    tiles: Scheduled, wave: Role, event: Event, segment: str, nodes: Mapping[int, tuple[int, int]],
    clusters: Mapping[int, str], row: Row, cycles: float | None,
) -> LaneOp:  # fmt: skip
    op = event.op
    node, offset = nodes.get(op.identity, (-1, op.offset))
    starts = sorted(clusters)
    line = row(op.span)
    return LaneOp(
        text=str(op),
        action=op.word,
        segment=segment,
        within="",
        waits=tiles.waits_for(wave, op),
        epoch=event.begin,
        done=None if event.done == float("inf") else int(event.done),
        node=node,
        iteration=event.step - offset,
        cluster=starts.index(line) if line in clusters and not isinstance(op, Zero | Store) else -1,
        line=line,
        automatic=isinstance(op, Control) and op.automatic,
        cycles=cycles,
    )


def _clusters(plan: Plan, row: Row) -> dict[int, str]:
    """The lines of a written schedule: row of the spec line -> its text."""
    found: dict[int, str] = {}
    for role in plan.program.roles:
        for cluster in role.schedule.clusters if role.schedule else ():
            found[row(cluster.span)] = " ".join(cluster.span.text.split())
    return dict(sorted(found.items()))


# ---------------------------------------------------------------- dependencies


def _links(graph: nx.MultiDiGraph) -> Iterator[Link]:
    barriers = {data["dependency"]: data["barrier"] for _, _, data in graph.edges(data=True)}
    for d in dependencies(graph):
        first, then = (graph.nodes[at]["node"].op for at in (d.source, d.target))
        covered = _covered(d, barriers[d], first)
        yield Link(d.source, d.target, str(first), str(then), d.kind, d.medium, d.operand, d.distance, covered)


def _covered(d: Dependency, barrier: int | str | None, source: object) -> str:
    """Name what orders a dependency: a barrier, a counter, or program order."""
    if d.crosses_waves:
        return "nothing" if barrier is None else f"barrier {barrier}" if isinstance(barrier, int) else barrier
    if isinstance(source, Read) and d.medium == "register":
        return "lgkmcnt, program order"
    if isinstance(source, Take | Fetch):
        return "vmcnt, program order"
    return "program order"
