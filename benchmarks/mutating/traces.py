"""The steps of generated C++ beside those of its schedule: what each thread of a block records.

The generated file is compiled for the host against headers that record (`recording/kittens.cuh`). Each thread of a
block runs from its first statement to its last; what it records must be, step by step, what the schedule says
(`tkgen.backends.hopper.schedule`, `loop_schedule`): the loop that is proven, and that the model carries out with data.

Objects have names in the schedule and addresses in C++: `full 0`, slot 2 of ring `A0`. Which is which is not said
anywhere. The first time that a name and an address stand in the same place they are taken for one, and from then on
each stands for the other alone. At the end mbarriers must have been set up with the arrivals of their meetings, tiles
of different names must lie apart, and each phase must expect the bytes that its copies bring.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tkgen.backends.hopper import loop_model, model
from tkgen.backends.hopper.clusters import alone
from tkgen.backends.hopper.launch import argument
from tkgen.backends.hopper.loop_spec import HopperLoopSpec
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.emulate.native import host_compiler
from tkgen.execute.arguments import check_scalars
from tkgen.ir.equations import Access, Axis
from tkgen.ir.launch import Launch
from tkgen.ir.rounding import TORCH
from tkgen.proof.program import Access as Accessed
from tkgen.proof.program import Agent, Arrive, Await, Commit, Do, Drain, Fence, Loop, Meet, Step

HEADERS = Path(__file__).parent / "recording"
EMBEDDED = Path(model.__file__).parent / "include"
FLAGS = ("-std=c++20", "-O0", "-w", "-fPIC", "-shared", f"-I{HEADERS}", f"-I{EMBEDDED}")
WARP = 32
FIELDS = 13  # of an event: its kind and twelve numbers
ELECTED = (b"arrive", b"read", b"store")  # what one lane does for its warp, or its warpgroup


class Difference(AssertionError):
    """Where C++ and schedule part."""


# ---------------------------------------------------------------- a block that records


@dataclass(frozen=True)
class Recorder:
    """A generated file, compiled for the host."""

    function: Any

    def thread(self, whole: bytes, grid: int, block: int, rank: int, number: int) -> torch.Tensor:
        """What a thread records: an event a row, the address of its kind's name first."""
        found = ctypes.c_void_p()
        count = self.function(whole, grid, block, rank, number, ctypes.byref(found))
        data = bytearray(ctypes.string_at(found, count * FIELDS * 8))
        return torch.frombuffer(data, dtype=torch.int64).view(count, FIELDS)


def recorder(text: str, where: Path) -> Recorder:
    """A generated file, compiled into a library of its own in the folder `where`."""
    found = re.search(r"^namespace (\w+) \{", text, re.MULTILINE)
    assert found, "a generated file has a namespace"
    number = len(list(where.iterdir()))
    source, library = where / f"{number}.cpp", where / f"{number}.so"
    source.write_text(f"{text}\nRECORDED({found[1]})\n")
    done = subprocess.run([*host_compiler(), *FLAGS, str(source), "-o", str(library)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    function = ctypes.CDLL(str(library)).record
    function.restype = ctypes.c_long
    return Recorder(function)


# ---------------------------------------------------------------- what is compared


class Name(NamedTuple):
    """Something that has a name in the schedule and another in C++: of which kind, and which part of how many."""

    space: str
    name: object
    part: int = 0
    parts: int = 1


class Line(NamedTuple):
    """A step in the form in which both sides are compared."""

    kind: str
    names: tuple[Name, ...] = ()
    facts: tuple[object, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.kind, *(str(n.name) for n in self.names), *map(str, self.facts)])


class Places:
    """In place of `model.Memory`: where what is moved begins, and nothing of what it holds."""

    def __init__(self) -> None:
        self.indices: Mapping[str, int] = {}
        self.found: tuple[Access, dict[str, int]] | None = None
        self.ends: dict[str, range] = {}

    def at_indices(self, indices: Mapping[str, int]) -> None:
        self.indices = indices

    def inside(self, axes: Sequence[Axis], first: Sequence[int], shape: Sequence[int]) -> dict[str, range]:
        return {a.name: range(at, at + n) for a, at, n in zip(axes, first, shape, strict=True)}

    def brought(self, access: Access, axes: Sequence[Axis], first: Sequence[int], shape: Sequence[int]) -> None:
        self.found = access, {a.name: at for a, at in zip(axes, first, strict=True)}

    def put_out(self, target: Access, places: Mapping[str, range], value: object, dims: object) -> None:
        self.found, self.ends = (target, {name: r.start for name, r in places.items()}), dict(places)

    def element(self) -> tuple[str, tuple[int, ...]]:
        """The tensor of what was moved last, and the element in which it begins, in four dimensions."""
        assert self.found is not None
        access, firsts = self.found
        at = [i.at if i.axis is None else (self.indices | firsts)[i.axis.name] // i.divisor for i in access.indices]
        return access.tensor.name, (*(0,) * (4 - len(at)), *at)

    def region(self) -> tuple[str, list[range]]:
        """The tensor of what was put out last, and its places in each dimension."""
        assert self.found is not None
        access, _ = self.found
        return access.tensor.name, [self.ends[i.axis.name] for i in access.indices if i.axis is not None]


@dataclass
class Kernel:
    """A spec with a launch: its tensors, and what its blocks do by their schedule and by its C++."""

    spec: HopperSpec | HopperLoopSpec
    launch: Any

    @cached_property
    def layout(self) -> Any:
        return self.spec.layout

    @property
    def together(self) -> int:
        """Blocks of a cluster."""
        return 1 if self.is_loop else self.layout.clusters

    @property
    def is_loop(self) -> bool:
        return isinstance(self.spec, HopperLoopSpec)

    @property
    def blocks(self) -> int:
        return loop_model.launched_blocks(self.layout, self.launch) if self.is_loop else self.launch.blocks

    @property
    def busy(self) -> list[int]:
        """The first blocks of clusters that have something to do."""
        firsts = range(0, self.blocks, self.together)
        return [n for n in firsts if self.is_loop or self.launch.work[n]]

    @cached_property
    def tensors(self) -> dict[str, torch.Tensor]:
        """Zeros, but for what says where groups begin: no page of memory is touched that nobody reads."""
        made = {t.name: torch.zeros(self.launch.shape(t), dtype=TORCH[t.dtype]) for t in self.spec.program.arguments}
        offsets = getattr(self.spec.program, "offsets", None)
        if offsets is not None:
            made[offsets.name].copy_(torch.tensor(self.launch.offset_values))
        return made

    @cached_property
    def argument(self) -> bytes:
        program = self.spec.program
        return argument(program, {}, self.tensors, check_scalars(program), self.layout.machine.map_alignment)

    def scheduled(self, first: int) -> tuple[list[Any], Loop, Places]:
        """What moves data in the blocks of a cluster, their schedule, and where that is said to begin."""
        places = Places()
        if self.is_loop:
            work, loop = loop_model.block_schedule(self.layout, self.launch, places, first)  # type: ignore[arg-type]
            return [work], loop, places
        return *model.cluster_schedule(self.layout, self.launch, places, first), places  # type: ignore[arg-type, return-value]

    def boxed(self, tensor: str) -> tuple[int, ...]:
        """Rows and columns of a box of a tensor's map, and along which dimension the rows lie."""
        access = self.layout.moved[tensor]
        return *self.layout.box(access.tensor), self.layout.rows_along(access)

    @property
    def registers(self) -> dict[bool, list[tuple[int, int]]]:
        """What `setmaxnreg` is told by producers (True) and consumers: a number, and whether it is more or less."""
        moved = self.layout.moved_registers
        return {True: [(moved[0], -1)] if moved else [], False: [(moved[1], 1)] if moved else []}


def kernel(
    spec: HopperSpec | HopperLoopSpec, offsets: Sequence[int] = (), sizes: Mapping[str, int] | None = None
) -> Kernel:
    """The kernel of a spec at its own sizes, `sizes` of dynamic ones, with these offsets of groups."""
    launch = spec.launch(sizes)
    if isinstance(launch, Launch) and offsets:
        launch = replace(launch, offsets=tuple(offsets))
    return Kernel(spec, launch)


# ---------------------------------------------------------------- the schedule's lines


@dataclass
class Scheduled:
    """The lines of one block's agents."""

    kernel: Kernel
    work: Any  # of the block
    loop: Loop
    places: Places
    block: int  # in its cluster
    direct: list[tuple[object, str, list[range]]] = field(default_factory=list)  # tiles whose rows warps store, where

    @cached_property
    def arrivals(self) -> dict[str, int]:
        return {m.name: m.arrivals for m in self.loop.meetings}

    def lines(self, number: int, agent: Agent) -> Iterator[Line]:
        """The steps of an agent, those that are one statement in C++ as one."""
        steps = [s for s in agent.steps if not self._in_registers(s)]
        at = 0
        while at < len(steps):
            line, count = self._line(number, steps[at : at + 3])
            yield line
            at += count

    def _in_registers(self, step: Step) -> bool:
        """What no other thread sees: arithmetic, and who sets mbarriers up, which stands before all."""
        alone = isinstance(step, Do) and not step.stream and bool(step.writes)
        return alone and not step.writes[0].ring.startswith(("panel", "out"))

    def _line(self, number: int, steps: Sequence[Step]) -> tuple[Line, int]:
        match steps:
            case [Meet("cluster"), *_]:
                return Line("meet cluster"), 1
            case [Meet(meeting), *_]:
                return self._named("sync", meeting), 1
            case [Arrive(a, bytes=0), Await(b), *_] if a == b:
                return self._named("sync", a), 2
            case [Arrive(meeting, bytes=units), *_] if units:
                return Line("expect", (self._meeting(meeting),)), 1
            case [Arrive(meeting), *_] if self._is_named(meeting):
                return self._named("arrive at named", meeting), 1
            case [Arrive(meeting), *others]:
                return self._arrived(meeting, others)
            case [Await(meeting, phase), *_]:
                return Line("wait", (self._meeting(meeting),), (phase % 2,)), 1
            case [Do(stream="copies") as copy, *others]:
                return self._copied(number, copy, others)
            case [Fence(), Do(stream="products") as product, Commit(), *_]:
                return self._multiplied(product), 3
            case [Do(stream="products") as product, Commit(), *_]:
                return self._multiplied(product), 2
            case [Drain("products", left), *_]:
                return Line("multiplied", (), (left,)), 1
            case [Drain("stores", left, True), *_]:
                return Line("read", (), (left,)), 1
            case [Do(stream="", writes=(access,)), Fence(), *_]:
                return Line("put", (self._place(access),)), 2
            case [Do(stream="stores", reads=(access,)) as store, Commit(), *_]:
                self.work.lost(number, self._alone(store))
                tensor, element = self.places.element()
                adds = tensor in getattr(self.kernel.spec.program, "added", ())
                return self._moved("store", access, tensor, element, (adds,)), 2
            case [Do(stream="", writes=(), reads=(access,)) as step, *_]:
                self.work.lost(number, step)
                self.direct.append((self._place(access).name, *self.places.region()))
                return Line("rows"), 1
        raise Difference(f"no statement of C++ is {steps[0]}")

    def _is_named(self, meeting: str) -> bool:
        return self.kernel.is_loop and meeting.startswith("turn")

    def _named(self, kind: str, meeting: str) -> Line:
        return Line(kind, (Name("named barrier", _plain(meeting)),), (self.arrivals[meeting] * WARP,))

    def _meeting(self, name: str) -> Name:
        if _block(name) not in (None, self.block):
            raise Difference(f"{name} is another block's")
        return Name("mbarrier", _plain(name))

    def _arrived(self, meeting: str, others: Sequence[Step]) -> tuple[Line, int]:
        """An arrival; in a cluster what gives a stage back to all blocks is one line."""
        if _block(meeting) is None:
            return Line("arrive", (self._meeting(meeting),), ((-1,),)), 1
        ranks = [0, *(_block(s.meeting) for s in others if isinstance(s, Arrive))][: self.kernel.together]
        return Line("arrive", (Name("mbarrier", _plain(meeting)),), (tuple(ranks),)), len(ranks)

    def _copied(self, number: int, copy: Do, others: Sequence[Step]) -> tuple[Line, int]:
        """A copy; that of a part of a tile which all blocks have in common is one line."""
        (access,) = copy.writes
        self.work.do(number, self._alone(copy), [])
        tensor, element = self.places.element()
        to = [_block(copy.meeting), *(_block(s.meeting) for s in others if _same_copy(copy, s))]
        blocks = 0
        if self._common(access):
            blocks = sum(1 << b for b in to if b is not None)
            element = self._part_of(tensor, element, access.box[-1][0])
        name = (Name("mbarrier", _plain(copy.meeting)),)
        return self._moved("load", access, tensor, element, (blocks,), name), len(to) if blocks else 1

    def _part_of(self, tensor: str, element: tuple[int, ...], part: int) -> tuple[int, ...]:
        """Where a part of a tile begins."""
        layout = self.kernel.layout
        operand = layout.program.operand(tensor)
        along, at = layout.parted(operand), list(element)
        dim = 3 if along else layout.rows_along(layout.moved[tensor])
        at[dim] += part * layout.copied_shape(operand)[along]
        return tuple(at)

    def _moved(self, kind: str, access: Accessed, tensor: str, element: object, more: tuple[object, ...],
               names: tuple[Name, ...] = ()) -> Line:  # fmt: skip
        facts = (tensor, element, self.kernel.boxed(tensor), *more)
        return Line(kind, (self._place(access), *names), facts)

    def _multiplied(self, step: Do) -> Line:
        made, (left, right, *before) = step.writes[0], step.reads
        if self.kernel.is_loop:
            first = made.ring.startswith("scores")
            left, right = (left, right) if first else (step.reads[1], step.reads[0])
            adds, transposed = not first, (False, first)
        else:
            layout = self.kernel.layout
            product = layout.program.products[int(made.ring.split()[1]) // layout.fragments]
            if made.ring.startswith("step"):
                product = layout.program.products[int(made.ring.split()[1])]
            adds, transposed = bool(before), (product.left.contraction_first, not product.right.contraction_first)
        names = (Name("registers", (made.ring, made.slot)), self._factor(left), self._factor(right))
        return Line("multiply", names, (adds, *transposed))

    def _factor(self, access: Accessed) -> Name:
        if access.ring.startswith("factor"):
            return Name("registers", (access.ring, access.slot))
        return self._place(access)

    def _common(self, access: Accessed) -> bool:
        return self.kernel.together > 1 and access.ring[0] == self.kernel.layout.common

    def _place(self, access: Accessed) -> Name:
        """A tile in shared memory; where blocks have it in common, perhaps a part of it."""
        ring, box, part, parts = _plain(access.ring), access.box, 0, 1
        if ring.startswith(("panel", "out")):
            box = ()  # a warp's rows lie as the headers put them
        elif self._common(access):
            box, (begin, end) = box[:-1], box[-1]
            if end - begin < self.kernel.together:
                part, parts = begin, self.kernel.together
        return Name("tile", (ring, access.slot, box), part, parts)

    def _alone(self, step: Do) -> Do:
        return alone(step, self.work.shape.cluster) if self.kernel.together > 1 else step


def _same_copy(copy: Do, other: Step) -> bool:
    """Whether another step brings the same part of a tile to another block."""
    if not isinstance(other, Do) or other.stream != "copies":
        return False
    (a,), (b,) = copy.writes, other.writes
    return (_plain(a.ring), a.instance, a.box) == (_plain(b.ring), b.instance, b.box)


def _plain(name: str) -> str:
    return name.rsplit(" of ", 1)[0]


def _block(name: str) -> int | None:
    """The block whose something is, in a cluster."""
    return int(name.rsplit(" of ", 1)[1]) if " of " in name else None


# ---------------------------------------------------------------- C++'s lines


@dataclass
class Recorded:
    """What the threads of a block record."""

    kernel: Kernel
    threads: list[torch.Tensor]
    words: dict[int, bytes] = field(default_factory=dict)

    def word(self, address: int) -> bytes:
        """The name of a kind."""
        if address not in self.words:
            self.words[address] = ctypes.string_at(address)
        return self.words[address]

    def number(self, word: str) -> list[int]:
        """The addresses of a name, which is there at most once."""
        return [address for address, found in self.words.items() if found == word.encode()]

    def rows(self, thread: int, *without: str) -> torch.Tensor:
        """The events of a thread but those of some kinds."""
        rows = self.threads[thread]
        for address in set(rows[:, 0].tolist()):
            self.word(address)
        left_out = [address for word in without for address in self.number(word)]
        return rows[~_among(rows, left_out)]

    def lines(self, thread: int) -> Iterator[tuple[Line, int]]:
        """What lane 0 of a warp does, and bytes; arrivals of several lanes are one line (see `lanes_agree`)."""
        rows = self.rows(thread, "init", "registers", "wait for cluster", "meet block")
        for row in rows.tolist():
            yield self._line(self.word(row[0]).decode(), row[1:])

    def _line(self, kind: str, at: Sequence[int]) -> tuple[Line, int]:
        match kind:
            case "wait":
                return Line(kind, (Name("mbarrier", at[0]),), (at[1],)), 0
            case "arrive":
                ranks = (-1,) if at[1] < 0 else tuple(range(self.kernel.together))
                return Line(kind, (Name("mbarrier", at[0]),), (ranks,)), 0
            case "expect":
                return Line(kind, (Name("mbarrier", at[0]),)), at[1]
            case "load" | "store":
                names = (Name("tile", (at[0], at[1])), *([Name("mbarrier", at[10])] if kind == "load" else []))
                more = at[11] if kind == "load" else bool(at[10])
                return Line(kind, names, (self._tensor(at[2]), tuple(at[3:7]), tuple(at[7:10]), more)), at[1]
            case "multiply":
                left = Name("tile", (at[1], at[2])) if at[2] else Name("registers", at[1])
                names = (Name("registers", at[0]), left, Name("tile", (at[3], at[4])))
                return Line(kind, names, tuple(map(bool, at[5:8]))), 0
            case "put":
                return Line(kind, (Name("tile", (at[0], at[1])),)), 0
            case "sync" | "arrive at named":
                return Line(kind, (Name("named barrier", at[0]),), (at[1],)), 0
            case "multiplied" | "read" | "stored":
                return Line(kind, (), (at[0],)), 0
            case "arrive at cluster":
                return Line("meet cluster"), 0
        return Line(kind), 0

    def _tensor(self, address: int) -> str:
        return next((name for name, t in self.kernel.tensors.items() if t.data_ptr() == address), "no tensor")

    def lanes_agree(self, warp: int) -> None:
        """Each lane does what lane 0 does, but for what one does for all; in a cluster lane n arrives at block n."""
        first = self.rows(warp * WARP, "init")
        elected = [address for word in ELECTED for address in self.words if self.words[address] == word]
        arrive = _among(first, self.number("arrive")) & (first[:, 2] >= 0)
        others = ~_among(first, elected)
        for lane in range(1, WARP):
            mine = first[others | arrive] if lane < self.kernel.together else first[others]
            if lane < self.kernel.together:
                mine = mine.clone()
                mine[_among(mine, self.number("arrive")), 2] = lane
            if not torch.equal(mine, self.rows(warp * WARP + lane)):
                raise Difference(f"lane {lane} of warp {warp} does something else than lane 0")


def _among(rows: torch.Tensor, kinds: Sequence[int]) -> torch.Tensor:
    return torch.isin(rows[:, 0], torch.tensor(kinds, dtype=torch.int64))


# ---------------------------------------------------------------- both


@dataclass
class Names:
    """Which name is which address, for a block, and the bytes of phases."""

    known: dict[tuple[str, object], object] = field(default_factory=dict)
    taken: dict[tuple[str, object], object] = field(default_factory=dict)

    def same(self, scheduled: Name, recorded: Name, agent: str) -> bool:
        """Whether both can be the same thing; from then on they are. Registers are each agent's own."""
        if scheduled.space != recorded.space:
            return False
        space = f"registers of {agent}" if scheduled.space == "registers" else scheduled.space
        address = recorded.name
        if isinstance(address, tuple):
            address = address[0] - scheduled.part * address[1], address[1] * scheduled.parts
        mine, theirs = (space, scheduled.name), (space, address)
        self.known.setdefault(mine, address), self.taken.setdefault(theirs, scheduled.name)
        return self.known[mine] == address and self.taken[theirs] == scheduled.name

    def of(self, space: str) -> dict[object, Any]:
        return {name: address for (kind, name), address in self.known.items() if kind == space}


def compare(kernel: Kernel, record: Recorder, firsts: Sequence[int] | None = None) -> int:
    """The number of steps that the clusters with these first blocks have in common with their schedules.

    Raises:
        Difference: C++ has others.
    """
    count, stored = 0, Counter[str]()
    for first in kernel.busy if firsts is None else firsts:
        work, loop, places = kernel.scheduled(first)
        agents = loop.unrolled(1).agents
        own = len(agents) // kernel.together
        brought, expected, names = Counter[Any](), Counter[Any](), Names()
        for rank in range(kernel.together):
            threads = [record.thread(kernel.argument, kernel.blocks, first + rank, rank, n)
                       for n in range(kernel.layout.threads)]  # fmt: skip
            found = Recorded(kernel, threads)
            scheduled = Scheduled(kernel, work[rank] if kernel.together > 1 else work[0], loop, places, rank)
            count += _compared(scheduled, found, names, agents[rank * own : (rank + 1) * own], brought, expected)
            stored += _rows_stored(scheduled, names)
        if brought != expected:
            at = next(p for p in expected | brought if brought[p] != expected[p])
            raise Difference(f"phase {at[2]} of {at[1]} expects {expected[at]} bytes, and {brought[at]} come")
    for tensor in stored:
        if int(kernel.tensors[tensor].view(torch.uint8).count_nonzero()) != stored[tensor]:
            raise Difference(f"rows of {tensor} are stored that are of no group's end")
    return count


def _rows_stored(scheduled: Scheduled, names: Names) -> Counter[str]:
    """How many bytes of each tensor warps store themselves: each has the number of the tile that they read."""
    count, tiles = Counter[str](), names.of("tile")
    for tile, name, (rows, cols) in scheduled.direct:
        tensor = scheduled.kernel.tensors[name]
        part = tensor[rows.start : rows.stop, cols.start : cols.stop].contiguous().view(torch.uint8)
        if not bool((part == 1 + tiles[tile][0] // 1024 % 127).all()):
            raise Difference(f"rows {rows} of {name} are not stored from {tile}")
        count[name] += part.numel()
    return count


def _compared(scheduled: Scheduled, found: Recorded, names: Names, agents: Sequence[Agent], brought: Counter[Any],
              expected: Counter[Any]) -> int:  # fmt: skip
    count, kernel = 0, scheduled.kernel
    leads = _set_up(found, kernel)
    waves = kernel.layout.machine.warpgroup_warps
    producer = next(w for w in range(0, len(found.threads) // WARP, waves)
                    if any(found.word(row[0]) == b"expect" for row in found.threads[w * WARP].tolist()))  # fmt: skip
    warps = [w for w in range(len(found.threads) // WARP) if not producer <= w < producer + waves]
    for number, (agent, warp) in enumerate(zip(agents, [producer, *warps], strict=True)):
        count += _same_steps(scheduled, found, names, number, agent, warp, brought, expected)
        if number:
            found.lanes_agree(warp)
    _idle(found, kernel, range(producer * WARP + 1, (producer + waves) * WARP))
    for thread in range(len(found.threads)):
        moved = [tuple(row[1:3]) for row in found.rows(thread).tolist() if found.word(row[0]) == b"registers"]
        if moved != kernel.registers[producer <= thread // WARP < producer + waves]:
            raise Difference(f"thread {thread} asks for registers: {moved}")
    _fits(names, scheduled, leads)
    return count


def _set_up(found: Recorded, kernel: Kernel) -> dict[int, int]:
    """The arrivals of each mbarrier, by its address: set up by the first thread before all meet."""
    meet = "meet block" if kernel.together == 1 else "arrive at cluster"
    made: dict[int, int] = {}
    for thread in range(len(found.threads)):
        kinds = [found.word(row[0]).decode() for row in found.threads[thread][:, :1].tolist()]
        before = kinds.index(meet) if meet in kinds else -1
        if before < 0 or kinds[:before] != ["init"] * (before if thread == 0 else 0) or "init" in kinds[before:]:
            raise Difference(f"thread {thread} does not come to the block's first meeting as it should")
        if thread == 0:
            made = {row[1]: row[2] for row in found.threads[0][:before].tolist()}
    return made


def _idle(found: Recorded, kernel: Kernel, threads: range) -> None:
    """Of the producers one thread copies; the others meet, where all do, and no more."""
    met = ["meet block"] if kernel.together == 1 else []
    ends = ["arrive at cluster", "wait for cluster"] if kernel.together > 1 else []
    for thread in threads:
        rows = found.rows(thread, "init", "registers")
        kinds = [found.word(row[0]).decode() for row in rows.tolist()]
        if kinds != met + ends + ends:
            raise Difference(f"thread {thread} should do nothing: {kinds}")


def _same_steps(scheduled: Scheduled, found: Recorded, names: Names, number: int, agent: Agent, warp: int,
                brought: Counter[Any], expected: Counter[Any]) -> int:  # fmt: skip
    steps, lines = scheduled.lines(number, agent), found.lines(warp * WARP)
    phases, count = Counter[str](), 0
    while True:
        step, (line, size) = next(steps, None), next(lines, (None, 0))
        if step is None and line is None:
            return count
        same = step and line and (step.kind, step.facts) == (line.kind, line.facts)
        if not same or not all(names.same(a, b, agent.name) for a, b in zip(step.names, line.names, strict=True)):
            raise Difference(f"{agent.name}, step {count}: the schedule has `{step}`, C++ `{line}`")
        count += 1
        if step.kind == "expect":
            phases[step.names[0].name] += 1
            expected[scheduled.block, step.names[0].name, phases[step.names[0].name]] += size
        if step.kind == "load":
            to = [b for b in range(16) if step.facts[-1] >> b & 1] or [scheduled.block]
            for block in to:
                brought[block, step.names[1].name, phases[step.names[1].name]] += size


def _fits(names: Names, scheduled: Scheduled, leads: Mapping[int, int]) -> None:
    """What was set up, and where tiles lie."""
    suffix = f" of {scheduled.block}" if scheduled.kernel.together > 1 else ""
    for name, address in names.of("mbarrier").items():
        if leads.get(address) != scheduled.arrivals[f"{name}{suffix}"]:
            raise Difference(f"{name} is set up for {leads.get(address)} arrivals")
    tiles = sorted(names.of("tile").values())
    for (first, size), (second, _) in pairwise(tiles):
        if first + size > second:
            raise Difference(f"tiles overlap: {size} bytes at {first}, others at {second}")
    begin, (last, size) = tiles[0][0], tiles[-1]
    room = scheduled.kernel.layout.dynamic_bytes - scheduled.kernel.layout.machine.tile_alignment
    if last + size - begin > room:
        raise Difference(f"{last + size - begin} bytes of tiles, {room} bytes of shared memory")
