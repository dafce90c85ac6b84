"""A tile program in the form of the proof: each agent executes its role, with numbers in the place of expressions.

An agent is a thread that copies, or a warp of a group. It executes the nodes of its role as the C++ does: loops so many
times, cursors on from instance to instance, conditions as they hold. Each operation is a step of `tkgen.proof.program`;
its position in a ring is the instance that the step touches. Nothing is said twice: a program that forgot to move a
cursor on, or to wait, is a schedule that does, and is found.

Of a cluster all blocks are there: `full s of b` is a barrier of block b, and so are its agents and rings. `memory of b`
has its barriers: the first thread of the block sets it up, and it is gone when the last one is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import prod
from typing import TypeAlias

from tkgen.proof import program as proof
from tkgen.targets.synchronisation import GENERIC, Attendance, Synchronisation
from tkgen.tile.expressions import evaluate
from tkgen.tile.ops import (
    Barrier,
    ElementLoop,
    Fence,
    Load,
    Mix,
    Move,
    Multiply,
    Priority,
    SharedLoad,
    SharedStore,
    Write,
)
from tkgen.tile.program import (
    Advance,
    Arrive,
    Await,
    Bind,
    Block,
    Compute,
    CopyIn,
    CopyOut,
    Cursor,
    Drain,
    Expect,
    Flags,
    If,
    Join,
    Keep,
    Let,
    Loop,
    Named,
    Node,
    Op,
    Pin,
    Region,
    Ring,
    Role,
    Scope,
    Scoped,
    Space,
    StoreRows,
    StoreValues,
    StreamKind,
    Sync,
    Text,
    Who,
    ops,
)

COPY, MULTIPLY, COMPUTE, WRITE, STORE = "copy", "multiply", "compute", "write", "store"  # what operations do
CLUSTER, MEMORY = "cluster", "memory"  # where all threads of a cluster meet, what a block of it has


Tile: TypeAlias = Mapping[str, int | tuple[int, ...]]
_Shares: TypeAlias = Mapping[tuple[str, type[Op]], Mapping[int, int]]  # (role, kind of op) -> agent -> its share


def unroll(block: Block, machine: Synchronisation, values: Mapping[str, int], tiles: Sequence[Tile]) -> proof.Loop:
    """The block as a loop whose pass are these output tiles.

    `values` are those of constants, in the names of C++; each of `tiles` has those that are a tile's own, one for each
    group where groups differ.
    """
    agents = _agents(block, machine, values)
    made = tuple(agent.looped(tiles) for agent in agents)
    blocks = _blocks(block, values)
    meetings = tuple(m for of in blocks for m in _meetings(block, machine, values, len(agents) // len(blocks), of))
    slots = {ring + of: count for of in blocks for ring, count in _slots(block, values)}
    if len(blocks) > 1:
        made = tuple(_in_cluster(each, first=not n % (len(made) // len(blocks))) for n, each in enumerate(made))
        meetings = (*meetings, proof.Meeting(CLUSTER, len(made)))
        slots |= {MEMORY + of: 1 for of in blocks}
    body = [step for looped in made for step in looped.body]
    arrived = _advance(body, meetings, slots)
    moved = {name: by for agent in agents for name, by in (*agent.moved(), *agent.drifted(arrived))}
    return proof.Loop(made, meetings, slots, arrived | moved, machine)


def once(block: Block, machine: Synchronisation, values: Mapping[str, int]) -> proof.Program:
    """The block as a program that goes through one tile."""
    agents = _agents(block, machine, values)
    made = (agent.looped([{}]) for agent in agents)
    steps = tuple(proof.Agent(m.name, (*m.prologue, *m.body, *m.epilogue)) for m in made)
    return proof.Program(steps, tuple(_meetings(block, machine, values, len(agents))), machine)


def in_order(nodes: Sequence[Node], values: dict[str, int]) -> Iterator[Op]:
    """The ops, each as often as loops and conditions say; `values` are those at hand."""
    for node in nodes:
        match node:
            case Loop(name=name, first=first, count=count, body=body, by=by):
                values[name], end = evaluate(first, values), evaluate(count, values)
                while values[name] + by <= end:
                    yield from in_order(body, values)
                    values[name] += by
            case If(condition=condition, then=then, other=other):
                yield from in_order(then if evaluate(condition, values) else other, values)
            case Scoped(body=body):
                yield from in_order(body, values)
            case Op():
                yield node
            case Text(does=op):
                yield from () if op is None else (op,)
            case _:
                raise AssertionError(f"{node!r} stands within a role's tiles")


def _in_cluster(agent: proof.Looped, first: bool) -> proof.Looped:
    """The steps of an agent in a cluster, all of which meet; the first one of a block sets its barriers up before."""
    set_up = (proof.Do(writes=(proof.Access(agent.block, 0, 0),), name=f"set up the barriers in {agent.block}"),)
    met = (proof.Meet(CLUSTER),)
    before, behind = (*(set_up * first), *met, *agent.prologue), (*agent.epilogue, *met)
    return replace(agent, prologue=before, epilogue=behind)


def _blocks(block: Block, values: Mapping[str, int]) -> tuple[str, ...]:
    """The endings of the names of each block of a cluster, none of a block alone."""
    blocks = evaluate(block.cluster, values)
    return tuple(f" of {rank}" for rank in range(blocks)) if blocks > 1 else ("",)


def _agents(block: Block, machine: Synchronisation, values: Mapping[str, int]) -> list[_Agent]:
    blocks = _blocks(block, values)
    ranks = ({**values, "rank": rank} if len(blocks) > 1 else values for rank in range(len(blocks)))
    return [agent for rank in ranks for agent in _agents_of(block, machine, rank, blocks)]


def _agents_of(
    block: Block, machine: Synchronisation, values: Mapping[str, int], blocks: tuple[str, ...]
) -> list[_Agent]:
    """The agents of one of the blocks."""
    agents = [replace(agent, blocks=blocks) for role in block.roles for agent in _of(role, machine, values)]
    dealt: dict[str, dict[tuple[str, type[Op]], dict[int, int]]] = {}
    for agent in agents:
        writes = ((region, type(op)) for op in ops(agent.role.nodes) for region in op.writes)
        for region, kind in ((region, kind) for region, kind in writes if region.ring.dealt):
            shares = dealt.setdefault(region.name, {}).setdefault((agent.role.name, kind), {})
            shares.setdefault(id(agent), len(shares))
    for agent in agents:
        agent.dealt = dealt
    return agents


def _of(role: Role, machine: Synchronisation, values: Mapping[str, int]) -> Iterator[_Agent]:
    if not role.warps:
        yield _Agent(role, machine, role.name, dict(values))
        return
    for group in range(evaluate(role.groups or "1", values)):
        of = f" {group}" if role.groups else ""
        for warp in range(evaluate(role.warps, values)):
            own = {**values, role.name: group, "warp": warp}
            name = f"{role.name} {group} warp {warp}" if role.groups else f"{role.name} {warp}"
            yield _Agent(role, machine, name, own, of, f"{of} {warp}")


def _meetings(
    block: Block, machine: Synchronisation, values: Mapping[str, int], agents: int, of: str = ""
) -> Iterator[proof.Meeting]:
    """A barrier for each slot, those of slots alike together; one for all; one for each group: `of` a block."""
    place = of and MEMORY + of
    for slots, alike in groupby(block.flags, key=lambda flags: flags.slots):
        together = tuple(alike)
        for slot in range(evaluate(slots, values)):
            yield from (proof.Meeting(_flag(f, slot) + of, evaluate(f.arrivals, values), True, place) for f in together)
    if any(isinstance(op, Barrier) for role in block.roles for op in ops(role.nodes)):
        yield proof.Meeting(_barrier(machine) + of, agents)
    groups = {evaluate(role.groups, values) for role in block.roles if role.groups}
    for group in range(max(groups, default=0)):
        for barrier in block.barriers:
            if not barrier.apart or max(groups) > 1:
                yield proof.Meeting(f"{barrier.name} {group}{of}", evaluate(barrier.warps, values), barrier.apart)


def _barrier(machine: Synchronisation) -> str:
    """The barrier of all waves."""
    return next(kind.name for kind in machine.meetings if kind.attendance is Attendance.ALL)


def _flag(flags: Flags, slot: int) -> str:
    return flags.name if flags.slots == "1" else f"{flags.name} {slot}"


def _slots(block: Block, values: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """The slots of each ring: of the block, then of each group and its warps."""

    def of(scope: Scope, owner: str = "") -> Iterator[tuple[str, int]]:
        for ring in block.rings:
            if ring.scope is scope:
                first = evaluate(ring.number, values) if ring.number else 0
                numbers = [f" {first + n}" for n in range(evaluate(ring.parts or "1", values))] if ring.number else [""]
                yield from ((ring.name + number + owner, evaluate(ring.slots, values)) for number in numbers)

    yield from of(Scope.BLOCK)
    for role in (role for role in block.roles if role.groups):
        for group in range(evaluate(role.groups, values)):
            yield from of(Scope.GROUP, f" {group}")
            for warp in range(evaluate(role.warps, values)):
                yield from of(Scope.WARP, f" {group} {warp}")


def _advance(
    steps: Sequence[proof.Step], meetings: Sequence[proof.Meeting], slots: Mapping[str, int]
) -> dict[str, int]:
    """By how many phases of each barrier, and instances of each ring, an iteration goes on."""
    arrived = Counter[str]()
    last = dict[str, int]()
    for step in steps:
        if isinstance(step, proof.Arrive | proof.Meet):
            arrived[step.meeting] += step.count
        elif isinstance(step, proof.Do):
            for a in step.writes:
                last[a.ring] = max(a.instance, last.get(a.ring, -1))
    found = {m.name: arrived[m.name] // m.arrivals for m in meetings}
    return found | {ring: -(-(last.get(ring, -1) + 1) // count) * count for ring, count in slots.items()}


@dataclass
class _Agent:
    """One agent on its way through its role."""

    role: Role
    machine: Synchronisation
    name: str
    values: dict[str, int]
    group: str = ""  # what the names of rings of its group, and of its own, end with
    own: str = ""
    counts: dict[str, int] = field(default_factory=dict)  # of cursors, and of places that were kept
    written: dict[str, int] = field(default_factory=dict)  # the last instance of rings without a cursor
    at: dict[str, str] = field(default_factory=dict)  # the cursor of each ring that is written where one stands
    awaited: Counter[str] = field(default_factory=Counter)  # phases of hardware barriers
    waits: dict[str, Cursor] = field(default_factory=dict)  # the cursor by which it waits for a barrier
    passed: Counter[str] = field(default_factory=Counter)  # instances by which cursors go on in a pass
    dealt: Mapping[str, _Shares] = field(default_factory=dict)
    blocks: tuple[str, ...] = ("",)  # the endings of the names of all blocks of its cluster
    streams: dict[StreamKind | None, str] = field(default_factory=dict)  # those of the machine, by what they carry

    @property
    def block(self) -> str:
        """The ending of the names of its own block."""
        return self.blocks[self.values.get("rank", 0)]

    def looped(self, tiles: Sequence[Tile]) -> proof.Looped:
        """Return its steps before the tiles, for these, and after them."""
        self.counts = {cursor.name: 0 for cursor in self.role.cursors}
        before = tuple(self._executed(self.role.before))
        body, begin = list[proof.Step](), Counter(self.counts)
        for tile in tiles:
            group = self.values.get(self.role.name, 0)
            self.values |= {name: v[group] if isinstance(v, tuple) else v for name, v in tile.items()}
            body += self._executed(self.role.tiles.body)
        self.passed = Counter(self.counts)
        self.passed.subtract(begin)
        behind = tuple(self._executed(self.role.behind))
        memory = self.block and MEMORY + self.block
        return proof.Looped(self.name + self.block, before, tuple(body), behind, memory)

    def moved(self) -> Iterator[tuple[str, int]]:
        """Rings that it writes where a cursor stands, and by how many instances that goes on in an iteration."""
        cursors = {cursor.name for cursor in self.role.cursors}
        yield from ((ring, self.passed[at]) for ring, at in self.at.items() if at in cursors)

    def drifted(self, advance: Mapping[str, int]) -> Iterator[tuple[str, int]]:
        """Barriers whose cursor goes on by more or fewer instances in an iteration than arrivals complete, and other
        phases.

        Waits of later passes follow the cursor, so their phases are not those that `advance` says, which arrivals
        complete: `tkgen.proof.passes.unbalanced` finds that.
        """
        for name, cursor in self.waits.items():
            by, wanted = self.passed[cursor.name], advance[name] * self._value(cursor.slots)
            if by != wanted:
                yield name, advance[name] + (1 if by > wanted else -1)

    def _executed(self, nodes: tuple[Node, ...]) -> Iterator[proof.Step]:
        for op in in_order(nodes, self.values):
            if (not op.when or self._value(op.when)) and (op.who is not Who.FIRST or self.values.get("warp", 0) == 0):
                yield from self._steps(op)

    def _value(self, expression: str) -> int:
        return evaluate(expression, self.values)

    def _steps(self, op: Op) -> Iterator[proof.Step]:
        match op:
            case Await(flags=flags, cursor=cursor, at=at):
                turn, slot = divmod(self.counts[cursor.name], self._value(cursor.slots))
                slot = self._slot(at, flags.slots) if at else slot
                self.waits[_flag(flags, slot) + self.block] = cursor
                yield proof.Await(_flag(flags, slot) + self.block, turn - self._value(cursor.start))
            case Arrive(flags=flags, at=at, everywhere=everywhere):
                name = _flag(flags, self._slot(at, flags.slots))
                yield from (proof.Arrive(name + of) for of in (self.blocks if everywhere else (self.block,)))
            case Expect(flags=flags, at=at, tiles=tiles):
                parts = sum(self._value(t.ring.parts or "1") * len(self._shares(t.ring)) for t in tiles)
                yield proof.Arrive(_flag(flags, self._slot(at, flags.slots)) + self.block, bytes=parts)
            case CopyIn(to=to, tensor=tensor, coord=coord, flags=flags, at=at):
                meeting = _flag(flags, self._slot(at, flags.slots))
                stream, own = self._stream(op.stream_kind), self._written(to, CopyIn)
                parts = prod(end - first for first, end in own.box)
                for of in self._shares(to.ring):
                    there = replace(own, ring=own.ring.removesuffix(self.block) + of)
                    yield proof.Do(writes=(there,), stream=stream, meeting=meeting + of, bytes=parts,
                                   does=(COPY, tensor, self._place(coord)))  # fmt: skip
            case Multiply(layouts=layouts, sums=sums, left=left, right=right, fresh=fresh):
                shared, stream = left.ring.scope is not Scope.WARP, self._stream(op.stream_kind)
                if not shared:
                    yield from self._fence(op.stream_kind)  # it stands before operands in registers
                factors = (left, right) if shared else (right, left)  # tiles of shared memory first
                reads = tuple(map(self._read, factors if fresh else (*factors, sums)))
                yield proof.Do(reads, (self._written(sums),), stream, does=(MULTIPLY, layouts, shared))
                yield proof.Commit(stream)
            case Drain(stream=stream, left=left, reads_only=reads_only):
                yield proof.Drain(stream, self._value(left), reads_only)
            case Compute(reads=reads, writes=writes, function=function, of=of):
                found, made = tuple(map(self._read, reads)), tuple(map(self._written, writes))
                does = (COMPUTE, function, *map(self._value, of))
                yield proof.Do(found, made, self._stream(op.stream_kind), does=does)
            case StoreValues(values=values, tensor=tensor, coord=coord):
                yield proof.Do(tuple(map(self._read, values)), does=(STORE, tensor, self._place(coord)))
            case StoreRows(source=source, tensor=tensor, place=place):
                yield proof.Do((self._read(source),), does=(STORE, tensor, self._place(place)))
            case ElementLoop(number=number):
                yield proof.Do(name=f"element loop {number}")
            case Move() | SharedStore() | SharedLoad():
                stream, waited = self._stream(op.stream_kind), isinstance(op, Load)
                read, written = ([r for r in group if r.space is Space.SHARED] for group in (op.reads, op.writes))
                made = tuple(self._written(r, type(op)) for r in written)
                does = (WRITE,) if isinstance(op, Write) else ()
                yield proof.Do(tuple(map(self._read, read)), made, stream, op.units, waited=waited, does=does)
                if does:  # the function that writes the tile ends with it
                    yield from self._fence(StreamKind.STORES)
            case Fence() | Mix() | Priority():
                pass  # for the compiler, and for the order in which waves issue
            case Barrier(drains=drains):
                yield from (proof.Drain(stream) for kind in drains if (stream := self._stream(kind)))
                yield proof.Meet(_barrier(self.machine) + self.block)
            case CopyOut(source=source, tensor=tensor, coord=coord):
                stream = self._stream(op.stream_kind)
                yield proof.Do((self._read(source),), stream=stream, does=(STORE, tensor, self._place(coord)))
                yield proof.Commit(stream)
            case Sync(barrier=barrier, number=number):
                name = self._named(barrier, number)
                if not barrier.apart:
                    yield proof.Meet(name)
                    return
                yield proof.Arrive(name)
                yield proof.Await(name, self.awaited[name])
                self.awaited[name] += 1
            case Join(barrier=barrier, number=number):
                yield proof.Arrive(self._named(barrier, number))
            case Advance(cursor=cursor, by=by):
                self.counts[cursor.name] = self.counts[cursor.name] + self._value(by)
            case Keep(name=name, cursor=cursor):
                self.counts[name] = self.counts[cursor.name]
            case Let(constants=constants):
                for name, expression in constants:
                    self.values[name] = self._value(expression)
            case Pin() | Bind():
                pass
            case _:
                raise AssertionError(f"{type(op).__name__} has no steps")

    def _stream(self, kind: StreamKind | None) -> str:
        """The machine's stream for operations; without one they are complete at once."""
        if kind not in self.streams:
            found = (s.name for s in self.machine.streams if kind and s.carries == kind.value)
            self.streams[kind] = next(found, "")
        return self.streams[kind]

    def _fence(self, kind: StreamKind | None) -> Iterator[proof.Fence]:
        """A fence after which these operations, if the machine has them, see what was written."""
        yield from (proof.Fence(GENERIC, s.proxy) for s in self.machine.streams if s.name == self._stream(kind))

    def _named(self, barrier: Named, number: str) -> str:
        return f"{barrier.name} {self._value(number) - self._value(barrier.first)}{self.block}"

    def _shares(self, ring: Ring) -> tuple[str, ...]:
        """The blocks that each copy a part of a tile for all; of a tile without a share, its own."""
        return self.blocks if ring.share else (self.block,)

    def _slot(self, at: str, slots: str) -> int:
        """The slot that `at` names: a cursor or kept place, or an expression."""
        if at in self.counts:
            return self.counts[at] % self._value(slots)
        return self._value(at) if at else 0

    def _place(self, coord: str) -> tuple[int, ...]:
        """A coordinate in numbers; none where the program has no C++."""
        parts = coord[coord.find("{") + 1 :].rstrip("})")
        return tuple(self._value(part) for part in parts.split(", ")) if parts else ()

    def _ring(self, region: Region) -> str:
        """The name of a ring of whoever touches it: of an array the one that the region's part is."""
        ring = region.ring
        number = f" {self._value(ring.number) + self._value(region.part or '0')}" if ring.number else ""
        owner = "" if ring.scope is Scope.BLOCK else self.group if ring.scope is Scope.GROUP else self.own
        return ring.name + number + owner + self.block

    def _box(self, region: Region, writer: type[Op] | None = None) -> proof.Box:
        """The part, and of what is dealt for each kind of `writer` the share: an agent's own, or that of all."""
        parts, blocks, rank = region.ring.parts, len(self._shares(region.ring)), self.values.get("rank", 0)
        of_blocks = () if blocks == 1 else ((rank, rank + 1) if writer is CopyIn else (0, blocks),)
        if not parts or region.ring.number:
            return of_blocks
        part, end = 0, self._value(parts)
        if region.own or region.part:
            part = self.values["warp"] if region.own else self._value(region.part)
            end = part + self._value(region.count)
        shares = ((n[id(self)], n[id(self)] + 1) if who == (self.role.name, writer) else (0, len(n))
                  for who, n in self.dealt.get(region.name, {}).items())  # fmt: skip
        return ((part, end), *shares, *of_blocks)

    def _read(self, region: Region) -> proof.Access:
        name, slots = self._ring(region), self._value(region.ring.slots)
        if region.at in self.counts:
            instance = self.counts[region.at] + region.ahead
        else:
            instance = self.written.get(self._slot_name(name, region), -1)
        return proof.Access(name, instance, instance % slots, self._box(region))

    def _slot_name(self, name: str, region: Region) -> str:
        return f"{name} {self._slot(region.at, region.ring.slots)}"

    def _written(self, region: Region, writer: type[Op] | None = None) -> proof.Access:
        name, slots = self._ring(region), self._value(region.ring.slots)
        if region.at in self.counts:
            self.at[name] = region.at
            instance = self.counts[region.at] + region.ahead
        else:
            slot = self._slot(region.at, region.ring.slots)
            instance = self.written.get(name, -1) + 1
            instance += (slot - instance) % slots
            self.written[name] = self.written[self._slot_name(name, region)] = instance
        return proof.Access(name, instance, instance % slots, self._box(region, writer))
