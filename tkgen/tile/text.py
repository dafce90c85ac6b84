"""A tile program as text, as `--print-after schedule` shows it: its tiles, its barriers, and the ops of each role."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from tkgen.tile.ops import Barrier, Multiply, Write
from tkgen.tile.program import (
    Advance,
    Arrive,
    Await,
    Bind,
    Block,
    Compute,
    CopyIn,
    CopyOut,
    Drain,
    Expect,
    If,
    Join,
    Keep,
    Let,
    Loop,
    Node,
    Op,
    Pin,
    Region,
    Role,
    Scope,
    Scoped,
    StoreRows,
    StoreValues,
    Sync,
    Text,
    Tiles,
    Who,
)

INDENT = "  "
Lines: TypeAlias = Callable[[Op], Iterable[str] | None]  # of an op, None where they are as everywhere


def block_text(block: Block, values: Mapping[str, int], lines: Lines = lambda _: None) -> str:
    """A block whose constants have these values; `lines` are of ops that say too little by themselves."""
    found = [f"with {', '.join(f'{name} {value}' for name, value in values.items())}"]
    for ring in block.rings:
        parts = f", {ring.parts} parts" if ring.parts else ""
        parts += f", copied by {block.cluster} blocks for each other" if ring.share else ""
        found.append(f"tile {ring.name}{_slots(ring.slots)}{parts}{_owner(ring.scope)}")
    found += [f"barrier {flags.name}{_slots(flags.slots)}, {_arrivals(flags.arrivals)}" for flags in block.flags]
    found += [f"barrier {named.name}{_owner(Scope.GROUP)}, {named.warps} warps" for named in block.barriers]
    for role in block.roles:
        found += role_text(_title(role), *(list(_text(nodes, lines)) for nodes in role.parts))
    return "\n".join(found)


def role_text(title: str, prologue: Sequence[str], loop: Sequence[str], epilogue: Sequence[str]) -> Iterator[str]:
    """The lines of a role: before its loop, in an iteration of it, and after it."""
    yield title
    for name, part in (("prologue", prologue), ("loop", loop), ("epilogue", epilogue)):
        if part:
            yield INDENT + name
            yield from (2 * INDENT + line for line in part)


def _slots(slots: str) -> str:
    return f" x {slots}" if slots != "1" else ""


def _owner(scope: Scope) -> str:
    return f" of each {scope.value}" if scope is not Scope.BLOCK else ""


def _arrivals(number: str) -> str:
    return f"{number} arrival{'s' * (number != '1')}"


def _title(role: Role) -> str:
    if not role.warps:
        return f"{role.name}, one thread"
    return f"{role.name}, {f'{role.groups} groups of ' if role.groups else ''}{role.warps} warps"


def _text(nodes: Sequence[Node], lines: Lines) -> Iterator[str]:
    for node in nodes:
        match node:
            case Loop(name=name, first=first, count=count, body=body, by=by):
                yield f"loop {name} from {first} to {count}{f' by {by}' * (by > 1)}"
                yield from (INDENT + line for line in _text(body, lines))
            case If(condition=condition, then=then, other=other):
                for title, arm in ((f"if {condition}", then), ("else", other)):
                    if made := [INDENT + line for line in _text(arm, lines)]:
                        yield from (title, *made)
            case Scoped(body=body) | Tiles(body=body):
                yield from _text(body, lines)
            case Text(does=Op() as op):
                yield from _text((op,), lines)
            case Op():
                when = f"if {node.when}: " if node.when else ""
                who = f", {node.who.value}" if node.who is not Who.ALL else ""
                own = lines(node)
                yield from (f"{when}{line}{who}" for line in ([op_text(node)] if own is None else own) if line)
            case Text():
                pass


def op_text(op: Op) -> str:
    """An op in a line; none where it only names something in C++."""
    match op:
        case Await(flags=flags, cursor=cursor, at=at):
            return f"await {flags.name}{_at(at or cursor.name, flags.slots)}"
        case Arrive(flags=flags, at=at, everywhere=everywhere):
            return f"arrive {flags.name}{_at(at, flags.slots)}{' in each block' * everywhere}"
        case Expect(flags=flags, at=at, tiles=tiles):
            return f"arrive {flags.name}{_at(at, flags.slots)}, bytes of {_all(tiles)} to come"
        case CopyIn(to=to, tensor=tensor, flags=flags, at=at):
            return f"copy {region_text(to)}{f' from {tensor}' * bool(tensor)}, for {flags.name}{_at(at, flags.slots)}"
        case Multiply(sums=sums, left=left, right=right, layouts=layouts, fresh=fresh) if layouts:
            factors = f"{region_text(left)}, {region_text(right)} as {layouts}"
            return f"multiply {region_text(sums)} {'=' if fresh else '+='} {factors}"
        case Drain(reads_only=True):
            return f"{op}, reads alone"
        case Pin(tiles=tiles):
            return f"pin {_all(tiles)}"
        case Compute(reads=reads, writes=writes, function=function):
            what = f": {function}" if function else ""
            return f"compute {_all(writes)} from {_all(reads)}{what}" if reads or writes else ""
        case Write(source=source, target=target):
            return f"write {region_text(target)} from {region_text(source)}"
        case StoreRows(source=source, tensor=tensor) | CopyOut(source=source, tensor=tensor):
            how = "rows" if isinstance(op, StoreRows) else "copy"
            return f"store {tensor}{' ' * bool(tensor)}from {region_text(source)}, by {how}"
        case StoreValues(values=values, tensor=tensor):
            return f"store {tensor} from {_all(values)}"
        case Sync(barrier=barrier) | Join(barrier=barrier):
            return f"{'barrier' if isinstance(op, Sync) else 'arrive'} {barrier.name}"
        case Barrier(drains=drains) if drains:
            return f"{op}, {' and '.join(d.value for d in drains)} accesses complete"
        case Advance(cursor=cursor, by=by):
            return f"advance {cursor.name}{f' by {by}' * (by != '1')}"
        case Keep(name=name, cursor=cursor):
            return f"{name} = {cursor.name}"
        case Let(constants=constants):
            return ", ".join(f"{name} = {expression}" for name, expression in constants)
        case Bind():
            return ""
    return str(op)


def region_text(region: Region) -> str:
    """A tile, which instance of it, which part."""
    ahead = f" + {region.ahead}" if region.ahead else ""
    at = _at(region.at + ahead, "") if region.at else ""
    part = "(own)" if region.own else f"({region.part})" if region.part else ""
    return region.name + at + part


def _all(regions: Iterable[Region]) -> str:
    return ", ".join(map(region_text, regions)) or "nothing"


def _at(at: str, slots: str) -> str:
    return f"[{at}]" if at and slots != "1" else ""
