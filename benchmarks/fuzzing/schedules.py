"""Written schedules, right by construction and then, now and then, with one thing changed.

One K-step is built in four stages. The registers first: reads in pieces and multiplies in rectangles, in an order in
which every rectangle finds its pieces. Then the moves to LDS, each at a place and as many steps ahead as its buffers
allow. Then barriers: between the writes of a step and its reads, and between those and the next writes of the buffer,
as many as the phases of the waves ask for. Then waits and lines. `mistake` changes what came out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

Range = tuple[int, int]  # first and last


class _Part(TypedDict):
    """Part of a tile that is loaded to LDS together; without `part` all of it."""

    rows: Range
    slices: Range
    part: bool


LATE = {"collective": "load", "registers": "write", "direct": "copy"}


@dataclass(frozen=True)
class Operand:
    """`fragments` of a wave, LDS `buffers`, `via`, the role that loads it, global loads of a wave for one tile.

    `apart`: its fragments may be brought to LDS one after the other. `finer`: how many of its slices are one of the
    schedule's.
    """

    name: str
    fragments: int
    buffers: int
    via: str
    role: int
    instructions: int
    apart: bool = False
    finer: int = 1


@dataclass(frozen=True)
class Item:
    """An operation of one role. `rows` are the fragments of a read, too, and of what brings a part of a tile.

    `product` is the one that is multiplied for, by number; None for all of them.
    """

    word: str
    role: int
    operand: str = ""
    offset: int = 0
    rows: Range = (0, 0)
    cols: Range = (0, 0)
    slices: Range = (0, 0)
    count: int = 0
    part: bool = False  # of a tile on its way to LDS
    product: int | None = None


@dataclass
class Frame:
    """Parameters of a drawn schedule; role `compute` multiplies, `shift` is the largest phase.

    The first of the `operands` is the left factor of every product, each other one the right factor of one; `sums` are
    their names, where they have some. The loop takes `unroll` K-steps an iteration. `base` is from where steps are
    counted: `k`, the loop's own, or in the written `ends` the first (`zero`) or the one after the last (`end`).
    """

    rng: random.Random
    operands: tuple[Operand, ...]
    slices: int
    register_buffers: int
    roles: int = 1
    compute: int = 0
    waves: int = 4
    shift: int = 0
    automatic_barriers: bool = False
    automatic_waits: bool = False
    sums: tuple[str, ...] = ()
    unroll: int = 1
    ends: bool = False
    base: str = "k"
    changed: str = ""  # the mistake that was made, if any
    features: set[str] = field(default_factory=set)
    late: random.Random = field(default_factory=random.Random)  # decides what came to the language later

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    @property
    def fragments(self) -> tuple[int, int]:
        return self.operands[0].fragments, self.operands[1].fragments

    @property
    def finer(self) -> int:
        """The number of slices of a multiply in one slice of the schedule."""
        return max(o.finer for o in self.operands)

    def factors(self, multiply: Item) -> list[tuple[int, Range]]:
        """The operands that a multiply needs, by number, and the fragments of each."""
        rights = range(1, len(self.operands)) if multiply.product is None else [1 + multiply.product]
        return [(0, multiply.rows), *((right, multiply.cols) for right in rights)]


def schedule(frame: Frame, mistakes: float = 0.15) -> list[list[str]] | None:
    """The lines of every role's schedule, or None where the order drawn has no room for its barriers."""
    steps = _moves(frame, _rotated(frame, _registers(frame)))
    if steps is None:
        return None
    gaps = _barriers(frame, steps)
    if gaps is None:
        return None
    change = frame.chance(mistakes)
    if change:
        steps, gaps = _mistaken(frame, steps, gaps)
    loops = [_lines(frame, role, steps, gaps) for role in range(frame.roles)]
    if not frame.ends:
        return loops
    frame.features.add("prologue and drain")
    before, behind = _ends(frame, steps, gaps)
    return [[*b, *loop, *e] for b, loop, e in zip(before, loops, behind, strict=True)]


# ---------------------------------------------------------------- registers


def _cuts(frame: Frame, count: int, probability: float = 0.35) -> list[Range]:
    """0 .. count - 1 in pieces, in order."""
    ends = [i for i in range(count) if i == count - 1 or frame.chance(probability)]
    return [(first, last) for first, last in zip([0, *(e + 1 for e in ends[:-1])], ends, strict=True)]


def _registers(frame: Frame) -> list[Item]:
    """Reads and multiplies of one step in an order in which every multiply finds what it needs."""
    rng, slices, buffers = frame.rng, frame.slices, frame.register_buffers
    order = list(range(slices))
    if (buffers == 1 or buffers >= slices) and frame.chance(0.25):
        rng.shuffle(order)
    whole = buffers >= slices or slices == 1
    groups = _cuts(frame, slices, 0.6) if whole and order == sorted(order) else [(t, t) for t in order]
    reads = []
    for index, operand in enumerate(frame.operands):
        same = _cuts(frame, operand.fragments)
        for group in groups if not whole else _cuts(frame, slices, 0.6):
            parts = same if frame.chance(0.6) else _cuts(frame, operand.fragments)
            reads += [(index, Item("read", frame.compute, operand.name, 0, part, slices=group)) for part in parts]
    multiplies = []
    for group in groups:
        for product in _products(frame):
            rows, cols = (_cuts(frame, f, 0.3) for f in frame.fragments)
            made = Item("multiply", frame.compute, slices=group, product=product)
            multiplies += [replace(made, rows=r, cols=c) for r in rows for c in cols]
    return _ordered(frame, order, reads, multiplies)


def _products(frame: Frame) -> list[int | None]:
    """The products to multiply for one after the other; None for all at once."""
    if len(frame.operands) == 2 or frame.late.random() < 0.3:
        return [None]
    return list(range(len(frame.operands) - 1))


def _span(bounds: Range) -> range:
    return range(bounds[0], bounds[1] + 1)


def _ordered(frame: Frame, order: list[int], reads: list[tuple[int, Item]], multiplies: list[Item]) -> list[Item]:
    rng, buffers = frame.rng, frame.register_buffers
    holds: dict[tuple[int, int, int], int] = {}  # (operand, fragment, slot) -> slice
    needed: dict[tuple[int, int, int], int] = {}  # (operand, fragment, slice) -> products still to be made
    for m in multiplies:
        for t in _span(m.slices):
            for index, bounds in frame.factors(m):
                for f in _span(bounds):
                    needed[index, f, t] = needed.get((index, f, t), 0) + 1
    eager = rng.choice([0.2, 0.5, 0.9])  # how soon what can be multiplied is
    in_order = frame.chance(0.5)
    result: list[Item] = []

    def free(index: int, f: int, t: int) -> bool:
        held = holds.get((index, f, t % buffers))
        earlier = [s for s in order[: order.index(t)] if s % buffers == t % buffers]
        return (held is None or not needed[index, f, held]) and not any(needed[index, f, s] for s in earlier)

    while reads or multiplies:
        able = [m for m in multiplies if all(
            holds.get((i, f, t % buffers)) == t
            for t in _span(m.slices) for i, b in frame.factors(m) for f in _span(b)
        )]  # fmt: skip
        readable = [(i, r) for i, r in reads if all(free(i, f, t) for t in _span(r.slices) for f in _span(r.rows))]
        if able and (not readable or frame.chance(eager)):
            done = able[0] if in_order else rng.choice(able)
            multiplies.remove(done)
            result.append(done)
            for t in _span(done.slices):
                for i, bounds in frame.factors(done):
                    for f in _span(bounds):
                        needed[i, f, t] -= 1
            continue
        soonest = min(order.index(r.slices[0]) for _, r in readable)
        index, read = rng.choice([x for x in readable if order.index(x[1].slices[0]) == soonest or frame.chance(0.2)])
        reads.remove((index, read))
        result.append(read)
        for t in _span(read.slices):
            for f in _span(read.rows):
                holds[index, f, t % buffers] = t
        if frame.chance(0.08):
            result.append(read)
            frame.features.add("repeated read")
    return result


def _clash(frame: Frame, read: Item, other: Item) -> bool:
    """Return True if `read` of the next step must not come before `other` of this one."""
    if other.word != "multiply":
        return other.operand == read.operand
    mine = {f for i, bounds in frame.factors(other) if frame.operands[i].name == read.operand for f in _span(bounds)}
    if not mine & set(_span(read.rows)):
        return False
    return any(
        (frame.slices + t - s) % frame.register_buffers == 0 for t in _span(read.slices) for s in _span(other.slices)
    )


def _rotated(frame: Frame, items: list[Item]) -> list[Item]:
    """The first reads moved to the end of the step before, if the buffers can hold so much."""
    ahead = 0
    while ahead < len(items) and items[ahead].word == "read":
        ahead += 1
    if not ahead or not frame.chance(0.25):
        return items
    ahead = frame.rng.randint(1, ahead)
    result = items[ahead:]
    for read in items[:ahead]:
        later = replace(read, offset=1)
        at = len(result)
        while at and not _clash(frame, later, result[at - 1]) and frame.chance(0.5):
            at -= 1
        result.insert(at, later)
    frame.features.add("reads ahead")
    return result


# ---------------------------------------------------------------- moves to LDS


def _moves(frame: Frame, items: list[Item]) -> list[Item] | None:
    result = list(items)
    operands = [o for o in frame.operands if o.via != "past"]
    frame.rng.shuffle(operands)
    for operand, parts in [(o, _parts(frame, o)) for o in operands]:
        if not _brought(frame, operand, parts, result):
            return None
    return result


def _brought(frame: Frame, operand: Operand, parts: list[_Part], result: list[Item]) -> bool:
    """Puts what brings an operand to LDS in its places; whether there are any. All parts may be fetched as one."""
    together = operand.via == "registers" and len(parts) > 1 and frame.late.random() < 0.4
    for part in parts:
        places = list(_places(operand, result, part))
        if not places:
            return False
        ahead = frame.rng.choice(sorted({w for w, _ in places}))
        at = frame.rng.choice([p for w, p in places if w == ahead])
        write = Item(LATE[operand.via], operand.role, operand.name, ahead, **part)
        result.insert(at, write)
        if operand.via == "registers" and not together:
            if (at and frame.chance(0.5)) or at + 1 == len(result):
                result.insert(frame.rng.randint(0, at), replace(write, word="fetch"))
            else:
                result.insert(frame.rng.randint(at + 1, len(result)), replace(write, word="fetch", offset=ahead + 1))
    if together:
        writes = [(n, x) for n, x in enumerate(result) if x.word == "write" and x.operand == operand.name]
        at, first = writes[0]
        if len({x.offset for _, x in writes}) == 1:
            result.insert(frame.late.randint(0, at), Item("fetch", operand.role, operand.name, first.offset))
            frame.features.add("parts fetched as one")
        else:
            for n, write in reversed(writes):
                result.insert(n, replace(write, word="fetch"))
    return True


def _parts(frame: Frame, operand: Operand) -> list[_Part]:
    """The parts in which a tile is brought to LDS: all of it, or fragments, or slices."""
    late, slices = frame.late, frame.slices
    whole = _Part(rows=(0, 0), slices=(0, 0), part=False)
    if late.random() < 0.75 or not (operand.apart or slices > 1):
        return [whole]
    frame.features.add("parts of tiles")
    if operand.apart and operand.fragments > 1 and (slices == 1 or late.random() < 0.6):
        at = late.randrange(1, operand.fragments)
        halves = [(0, at - 1), (at, operand.fragments - 1)]
        return [_Part(rows=rows, slices=(0, slices - 1), part=True) for rows in halves]
    if slices == 1:
        return [whole]
    at = late.randrange(1, slices)
    rows = (0, operand.fragments - 1)
    return [_Part(rows=rows, slices=part, part=True) for part in ((0, at - 1), (at, slices - 1))]


def _meet(write: Item | _Part, read: Item) -> bool:
    """Return True if `write` has what `read` needs."""
    rows, slices, part = (write.rows, write.slices, write.part) if isinstance(write, Item) else (
        write["rows"], write["slices"], write["part"])  # fmt: skip
    shared = (set(_span(a)) & set(_span(b)) for a, b in ((rows, read.rows), (slices, read.slices)))
    return not part or all(shared)


def _places(operand: Operand, items: Sequence[Item], part: _Part) -> Iterator[tuple[int, int]]:
    """(steps ahead, position) at which a tile may be written: before its reads, after those of the tile it replaces."""
    mine = [(i, r) for i, r in enumerate(items) if r.word == "read" and r.operand == operand.name]
    reads = [(i, r.offset) for i, r in mine if _meet(part, r)]
    for ahead in range(operand.buffers + 2):
        for at in range(len(items) + 1):
            if all(
                (ahead > r or (ahead == r and at <= i))
                and (operand.buffers - ahead + r > 0 or (operand.buffers - ahead + r == 0 and i < at))
                for i, r in reads
            ):
                yield ahead, at


# ---------------------------------------------------------------- barriers


def _barriers(frame: Frame, items: list[Item]) -> list[int] | None:
    """The operations after which a barrier stands: enough of them between all that waves must not do at once."""
    if frame.waves == 1 and frame.chance(0.7):
        return []
    n, wanted = len(items), 1 + frame.shift
    ranges = []
    for operand in frame.operands:
        writes = [i for i, x in enumerate(items) if x.word in LATE.values() and x.operand == operand.name]
        reads = [i for i, x in enumerate(items) if x.word == "read" and x.operand == operand.name]
        for write, read in ((w, r) for w in writes for r in reads if _meet(items[w], items[r])):
            ahead = items[write].offset - items[read].offset
            ranges.append((write, read + ahead * n - write))
            ranges.append((read, write + (operand.buffers - ahead) * n - read))
    chosen: set[int] = set()

    def met(first: int, length: int) -> int:
        return sum((first + i) % n in chosen for i in range(length))

    for first, length in sorted(ranges, key=lambda r: r[1]):
        while met(first, length) < wanted:
            room = {(first + i) % n for i in range(length)} - chosen
            if not room:
                return None
            chosen.add(frame.rng.choice(sorted(room)))
    for i in range(n):
        if frame.chance(0.04):
            chosen.add(i)
    return sorted(chosen)


# ---------------------------------------------------------------- mistakes


def _mistaken(frame: Frame, items: list[Item], gaps: list[int]) -> tuple[list[Item], list[int]]:
    """One thing changed. Checks must see it, or it is none."""
    rng, items, gaps = frame.rng, list(items), list(gaps)
    at = rng.randrange(len(items))
    frame.changed = rng.choice(
        ["barrier dropped", "barrier moved", "swapped", "moved", "offset", "dropped", "doubled", "part"]
    )
    match frame.changed:
        case "barrier dropped" if gaps:
            gaps.remove(rng.choice(gaps))
        case "barrier moved" if gaps:
            gap = rng.choice(gaps)
            gaps = sorted({*gaps, (gap + rng.choice([-1, 1])) % len(items)} - {gap})
        case "swapped" if at:
            items[at - 1], items[at] = items[at], items[at - 1]
        case "moved":
            items.insert(rng.randrange(len(items)), items.pop(at))
        case "offset" if items[at].word != "multiply":
            items[at] = replace(items[at], offset=items[at].offset + rng.choice([-1, 1]))
        case "doubled":
            items.insert(at, items[at])
            gaps = [g + (g >= at) for g in gaps]
        case "dropped" if len(items) > 2:
            items.pop(at)
            gaps = sorted({g - (g >= at) for g in gaps} & set(range(len(items))))
        case "part" if items[at].rows[1]:
            items[at] = replace(items[at], rows=(0, 0))
    return items, gaps


# ---------------------------------------------------------------- lines


def _ends(frame: Frame, items: list[Item], gaps: list[int]) -> tuple[list[list[str]], list[list[str]]]:
    """Prologue and drain of each role: what passes before the first and after the last would do of K-steps there are.

    Now and then a barrier or a line is missing.
    """
    late = frame.late
    ahead = max(0, *(x.offset for x in items))
    drained = -(-max(ahead, 1) // frame.unroll) * frame.unroll + (frame.unroll if late.random() < 0.1 else 0)
    careless = late.random() < 0.1

    def passes(base: str, first: int) -> list[list[str]]:
        at = replace(frame, base=base, automatic_barriers=False)
        lines: list[list[str]] = [[] for _ in range(frame.roles)]
        for k in range(first, 0):
            there = [replace(x, offset=k + x.offset) for x in items]
            there = [x if (x.offset < 0) == (base == "end") else replace(x, role=-1) for x in there]
            met = [gap for gap in gaps if not (careless and late.random() < 0.3)]
            for role, found in enumerate(lines):
                found += _between(at, role, items, there, met)
        word = "prologue" if base == "zero" else "drain"
        for found in lines:
            if careless and len(found) > 1 and late.random() < 0.2:
                found.pop(late.randrange(len(found)))
        return [[f"{word} {line}" for line in found or ["group priority 0"]] for found in lines]

    return passes("zero", -ahead), passes("end", -drained)


def _lines(frame: Frame, role: int, items: list[Item], gaps: list[int]) -> list[str]:
    """The schedule of a role: its operations between barriers, as clusters and groups, with waits."""
    return _between(frame, role, items, items, gaps) or ["group priority 0"]


def _between(frame: Frame, role: int, every: list[Item], items: list[Item], gaps: list[int]) -> list[str]:
    """Those of `items`, one iteration of `every`, that the role does."""
    lines: list[str] = []
    segment: list[Item] = []
    for i, item in enumerate(items):
        if item.role == role:
            segment.append(item)
        if i in gaps and not frame.automatic_barriers:
            lines += _segment(frame, role, every, segment, True)
            segment = []
    if segment:
        lines += _segment(frame, role, every, segment, frame.automatic_barriers and frame.chance(0.5))
    return lines


def _segment(frame: Frame, role: int, items: list[Item], segment: list[Item], barrier: bool) -> list[str]:
    rng = frame.rng
    waits = _waits(frame, role, items) if barrier and not frame.automatic_barriers else []
    cuts = sorted({i for i in range(1, len(segment)) if frame.chance(0.25)})
    parts = [segment[a:b] for a, b in zip([0, *cuts], [*cuts, len(segment)], strict=True)]
    lines = []
    for number, part in enumerate(parts):
        words = _text(frame, part)
        if any(item.word == "multiply" for item in part) and frame.late.random() < 0.08:
            kinds = frame.late.sample(["read", "write", "fetch"], frame.late.choice([0, 1, 1, 1, 2]))
            mixed = ", ".join(f"{kind} {frame.late.randint(1, 4)}" for kind in ("multiply", *kinds))
            words.append(f"mix ({mixed}) x {frame.late.choice([1, 4, 8])}")
            frame.features.add("mix")
        if words and frame.chance(0.12):
            words.insert(rng.randint(0, len(words)), f"priority {rng.choice(['high', 'low', '0', '1', '2', '3'])}")
        if frame.chance(0.06):
            counter = rng.choice(["vm", "lds"])
            words.insert(rng.randint(0, len(words)), f"wait {counter} {_any_count(frame, counter)}")
        last = number == len(parts) - 1
        if last:
            words += waits
        if last and barrier:
            if words and frame.chance(0.85):
                lines.append(f"cluster {'  '.join(words)}")
            else:
                lines.append(f"group {'  '.join([*words, 'barrier'])}")
        elif words:
            lines.append(f"group {'  '.join(words)}")
    return lines


def _any_count(frame: Frame, counter: str) -> int:
    small = [0, 0, 0, 1, 1, 2, 3, 4, 6, 8, 12, 15]
    return frame.rng.choice(small if counter == "lds" else [*small, 16, 31, 62, 62 + frame.chance(0.2)])


def _waits(frame: Frame, role: int, items: list[Item]) -> list[str]:
    """The wait of a wave before a barrier: for everything, mostly; some of the newest may stay in flight."""
    if frame.automatic_waits and not frame.chance(0.1):
        return []
    mine = {x.word for x in items if x.role == role}
    waits = []
    if mine & {"read", "write"} and not frame.chance(0.12):
        waits.append(f"wait lds {0 if frame.chance(0.85) or frame.base != 'k' else _any_count(frame, 'lds')}")
    if mine & {"copy"} and not frame.chance(0.04):
        each = [o.instructions for o in frame.operands if o.via == "direct"]
        flying = frame.rng.choice([0, 0, each[0], each[-1], sum(each), 2 * sum(each), _any_count(frame, "vm")])
        waits.append(f"wait vm {0 if frame.chance(0.6) or frame.base != 'k' else flying}")
    frame.rng.shuffle(waits)
    return waits


def _index(frame: Frame, bounds: Range, count: int, finer: int = 1) -> str:
    bounds, count = (bounds[0] * finer, bounds[1] * finer + finer - 1), count * finer
    if bounds == (0, count - 1) and frame.chance(0.7):
        return "*"
    return f"{bounds[0]}" if bounds[0] == bounds[1] else f"{bounds[0]}..{bounds[1]}"


def _text(frame: Frame, items: Sequence[Item]) -> list[str]:
    """Operations as text; neighbours of one word may share it."""
    words: list[str] = []
    previous = ""
    for item in items:
        text = _multiply(frame, item) if item.word == "multiply" else _move(frame, item)
        if item.word == previous and item.word != "multiply" and frame.chance(0.75):
            words[-1] += f" {text}"
        else:
            words.append(text if item.word == "multiply" else f"{item.word} {text}")
        previous = item.word
    return words


def _move(frame: Frame, item: Item) -> str:
    operand = next(o for o in frame.operands if o.name == item.operand)
    text = item.operand + _step(frame, item)
    if item.word != "read" and not item.part:
        return text
    all_rows, all_slices = item.rows == (0, operand.fragments - 1), item.slices == (0, frame.slices - 1)
    if all_rows and all_slices and frame.chance(0.7):
        return text
    fragments = _index(frame, item.rows, operand.fragments)
    if all_slices and frame.chance(0.6):
        return f"{text}({fragments})"
    return f"{text}({fragments}; {_index(frame, item.slices, frame.slices, operand.finer)})"


def _step(frame: Frame, item: Item) -> str:
    """The K-step of an operation, counted from where this part of the schedule counts."""
    if frame.base == "k":
        return f"[k{item.offset:+}]" if item.offset else "[k]" if frame.chance(0.03) else ""
    return f"[{item.offset}]" if frame.base == "zero" else f"[end{item.offset}]"


def _multiply(frame: Frame, item: Item) -> str:
    rows, cols = frame.fragments
    whole = item.rows == (0, rows - 1) and item.cols == (0, cols - 1)
    all_slices = item.slices == (0, frame.slices - 1)
    step = "" if frame.base == "k" else _step(frame, item)
    name = ""
    if frame.sums and (item.product is not None or (len(frame.sums) == 1 and frame.late.random() < 0.3)):
        name = f" {frame.sums[item.product or 0]}"
    word = f"multiply{step}{name}"
    if whole and all_slices and frame.chance(0.6):
        return word
    slices = _index(frame, item.slices, frame.slices, frame.finer)
    if whole and frame.chance(0.6):
        return f"{word} slice {slices}"
    part = f"{_index(frame, item.rows, rows)}, {_index(frame, item.cols, cols)}"
    return f"{word} ({part})" if all_slices and frame.chance(0.6) else f"{word} ({part}; {slices})"
