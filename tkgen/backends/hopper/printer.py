"""A tile program as CUDA C++ against the names of ThunderKittens 2.0: a line for each op, whoever made the program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from tkgen.tile.ops import Multiply, Write
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
    Node,
    Op,
    Pin,
    Region,
    Ring,
    Role,
    Scope,
    Scoped,
    StoreRows,
    Sync,
    Text,
    Tiles,
    Who,
)

INDENT = "    "
GROUP = "consumer"  # the number of a group in C++
GUARDS = {Who.ALL: "", Who.LANE: "if (laneid() == 0) ", Who.FIRST: "if (warpgroup::laneid() == 0) "}


def printed(nodes: Sequence[Node], depth: int) -> Iterator[str]:
    """The lines of nodes, indented so deep."""
    margin = INDENT * depth
    for node in nodes:
        match node:
            case Text(lines=lines):
                yield from (margin + each if each else "" for each in lines)
            case Compute():
                pass  # of what is there already
            case Op():
                yield f"{margin}{line(node)}{node.remark}"
            case Tiles(head=head, body=body):
                yield from (margin + each if not each.startswith("#") else each for each in head)
                yield from printed(body, depth + 1)
                yield f"{margin}}}"
            case Loop():
                yield from _loop(node, depth)
            case Scoped(body=body):
                yield f"{margin}{{"
                yield from printed(body, depth + 1)
                yield f"{margin}}}"
            case If(condition=condition, then=(Op() as one,), other=(Op() as two,)):
                yield from _chosen(condition, one, two, margin)
            case If(condition=condition, then=then, other=other):
                yield f"{margin}if ({condition}) {{"
                yield from printed(then, depth + 1)
                if others := list(printed(other, depth + 1)):
                    yield f"{margin}}} else {{"
                    yield from others
                yield f"{margin}}}"


def _loop(loop: Loop, depth: int) -> Iterator[str]:
    """The lines of a loop: one, where its body is one op."""
    if loop.unroll:
        yield f"#pragma {loop.unroll}"
    name = loop.name
    head = f"{INDENT * depth}for (int {name} = {loop.first}; {name} < {loop.count}; ++{name}) "
    if loop.by > 1:
        head = f"{INDENT * depth}for (; {name} + {loop.by - 1} < {loop.count}; {name} += {loop.by}) "
    body = list(printed(loop.body, depth + 1))
    if len(body) == 1 and isinstance(loop.body[0], Op):
        yield head + body[0].lstrip()
        return
    yield f"{head}{{{loop.remark}"
    yield from body
    yield f"{INDENT * depth}}}"


def _chosen(condition: str, one: Op, two: Op, margin: str) -> Iterator[str]:
    """One of two statements: of one expression, where the same threads execute either."""
    if one.who is two.who:
        yield f"{margin}{GUARDS[one.who]}{condition} ? {statement(one)} : {statement(two)};"
        return
    yield f"{margin}if ({condition}) {line(one)}"
    yield f"{margin}else {line(two)}"


def line(op: Op) -> str:
    """The statement of an op, for those threads that execute it."""
    when = f"if ({op.when}) " if op.when else ""
    guard = "if (laneid() < CLUSTER) " if isinstance(op, Arrive) and op.everywhere else GUARDS[op.who]
    return f"{when}{guard}{statement(op)};"


def statement(op: Op) -> str:
    """The call, or the assignment, that an op is."""
    match op:
        case Await(flags=flags, cursor=cursor, at=at):
            return f"wait({_slot(flags.cpp, flags.slots, at or cursor.name)}, {cursor.phase_name})"
        case Arrive(flags=flags, at=at, everywhere=True):
            return f"tma::cluster::arrive({_slot(flags.cpp, flags.slots, at)}, laneid())"
        case Arrive(flags=flags, at=at):
            return f"arrive({_slot(flags.cpp, flags.slots, at)})"
        case Expect(flags=flags, at=at, tiles=tiles):
            if any(tile.ring.boxes for tile in tiles):
                sizes = (f"{t.ring.boxes}.bytes" if t.ring.boxes else f"sizeof({region(t)})" for t in tiles)
                return f"tma::expect_bytes({_slot(flags.cpp, flags.slots, at)}, {' + '.join(sizes)})"
            return f"tma::expect({', '.join([_slot(flags.cpp, flags.slots, at), *map(region, tiles)])})"
        case CopyIn(to=to, tensor=tensor, coord=coord, axis=axis, flags=flags, at=at):
            flag = _slot(flags.cpp, flags.slots, at)
            if to.ring.boxes:
                tile = f"reinterpret_cast<{to.ring.whole} &>({region(to)})" if to.ring.parts else region(to)
                return f"tma::load_async{axis}({tile}, {to.ring.boxes}.tensor, {coord}, {flag})"
            if not to.ring.share:
                return f"tma::load_async{axis}({region(to)}, g.{tensor}, {coord}, {flag})"
            tile = f"reinterpret_cast<{to.ring.share} *>(&{region(to)})[rank]"
            return f"tma::cluster::load_async{axis}({tile}, g.{tensor}, {coord}, {flag}, EVERY_BLOCK)"
        case Multiply(layouts=layouts, sums=sums, left=left, right=right, fresh=fresh):
            return f"warpgroup::{'mm' if fresh else 'mma'}_{layouts}({region(sums)}, {region(left)}, {region(right)})"
        case Drain(stream=stream, left=left, reads_only=reads_only):
            function = {"products": "warpgroup::mma_async_wait", "stores": "tma::store_async_wait"}[stream]
            function = function.replace("async_wait", "async_read_wait") if reads_only else function
            return f"{function}{f'<{left}>' if left != '0' else ''}()"
        case Pin(tiles=tiles):
            return ", ".join(f"tk::pin({region(tile)})" for tile in tiles)
        case Write(target=to, value=value, function=function):
            return f"{function}({region(to)}, {value})"
        case Bind(tile=tile, type=kind, cast=cast):
            place = region(replace(tile, alias=""))
            if cast:
                return f"auto &{tile.alias} = reinterpret_cast<{kind} &>({place})"
            return f"{kind} &{tile.alias} = {place}"
        case StoreRows(source=source, tensor=tensor, place=place, chunks=chunks, adds=adds):
            return f"tk::{'add' if adds else 'store'}_rows{chunks}(g.{tensor}, {region(source)}, {place})"
        case CopyOut(source=source, tensor=tensor, coord=coord, axis=axis, function=function):
            return f"tma::{function}{axis}(g.{tensor}, {region(source)}, {coord})"
        case Sync(barrier=barrier, number=number):
            return f"{barrier.cpp}::sync({number})"
        case Join(barrier=barrier, number=number):
            return f"{barrier.cpp}::arrive({number})"
        case Advance(cursor=cursor, by=by):
            return _advanced(cursor, by)
        case Keep(name=name, cursor=cursor, fresh=fresh):
            return f"{'int ' if fresh else ''}{name} = {cursor.name}"
        case Let(constants=constants, type=kind):
            return f"const {kind} {', '.join(f'{name} = {expression}' for name, expression in constants)}"
    raise AssertionError(f"{type(op).__name__} has no C++")


def _advanced(cursor: Cursor, by: str) -> str:
    if by != "1":
        return f"skip({by})"
    if cursor.slots == "1":
        return f"{cursor.phase_name} ^= 1"
    return f"if (++{cursor.name} == {cursor.slots}) {cursor.name} = 0, {cursor.phase_name} ^= 1"


def _slot(cpp: str, slots: str, at: str) -> str:
    return cpp if slots == "1" else f"{cpp}[{at}]"


def region(touched: Region) -> str:
    """A tile, or a part of one, by its name; what each group has is an array over these."""
    ring = touched.ring
    if touched.alias:
        return touched.alias
    index = [GROUP] if ring.scope is Scope.GROUP else []
    index += [touched.at] if ring.slots != "1" else []
    index += [touched.part] if touched.part else []
    return ring.cpp + "".join(f"[{at}]" for at in index)


# ---------------------------------------------------------------- what stands around the roles


def allocated(rings: Sequence[Ring]) -> Iterator[str]:
    """The tiles of shared memory."""
    for ring in rings:
        if ring.type:
            extents = "".join(f"[{extent}]" for extent in ring.extents)
            arguments = ", ".join([ring.type, *ring.extents])
            yield f"{ring.type} (&{ring.cpp}){extents} = al.allocate<{arguments}>();{ring.remark}"


def set_up(block: Block) -> Iterator[str]:
    """The barriers in shared memory, declared and set up by one thread, before all threads meet."""
    names = [_slot(flags.cpp, flags.slots, flags.slots) for flags in block.flags]
    yield f"__shared__ semaphore {', '.join(names)};"
    yield "if (threadIdx.x == 0) {"
    for slots, alike in groupby(block.flags, key=lambda flags: flags.slots):
        loop = "" if slots == "1" else f"for (int s = 0; s < {slots}; ++s) "
        yield f"{INDENT}{loop}{', '.join(map(_initialised, alike))};"
    yield "}"
    if block.cluster == "1":
        yield "__syncthreads();"
        return
    yield from _clustered("nobody comes to another block's semaphores before they are set up")
    yield "const int rank = cluster_ctarank();"


def _clustered(why: str) -> tuple[str, str]:
    """All threads of a cluster meet."""
    return f"everyone::tma::cluster::arrive();  // {why}", "everyone::tma::cluster::wait();"


def _initialised(flags: Flags) -> str:
    # One arrival is that of the thread which says how many bytes are to come.
    counts = f"0, {flags.arrivals}" if flags.arrivals == "1" else flags.arrivals
    return f"init_semaphore({_slot(flags.cpp, flags.slots, 's')}, {counts})"


def body(block: Block, full: str, fresh: str, sizes: Sequence[str] = ()) -> list[str]:
    """Lines of a kernel: its tiles, its barriers, sizes known only at run time, its roles.

    `full` is a comment of the barriers, `fresh` of cursors.
    """
    producer, consumer = block.roles
    end = _clustered("and others copy into it and come to its semaphores until here") if block.cluster != "1" else ()
    start = [
        "extern __shared__ int memory[];", "tma_swizzle_allocator al(memory);", *allocated(block.rings), "",
        f"// {full}.", *set_up(block), *sizes, "",
    ]  # fmt: skip
    return [
        *(INDENT + each if each else "" for each in start),
        f"{INDENT}if (warpgroup::groupid() == {producer.groups_before}) {{{producer.remark}",
        *_registers("decrease", producer),
        *_producing(producer, fresh),
        f"{INDENT}}} else {{{consumer.remark}",
        *_registers("increase", consumer),
        f"{INDENT * 2}const int {GROUP} = warpgroup::groupid(){_less(consumer.groups_before)};",
        f"{INDENT * 2}{_cursors(consumer)}",
        *printed(consumer.nodes, 2),
        f"{INDENT}}}",
        *(INDENT + each for each in end),
    ]


def _producing(role: Role, fresh: str) -> Iterator[str]:
    """The body of the role that brings tiles: of its first thread, or of all its warps."""
    if role.warps:
        yield f"{INDENT * 2}{_cursors(role, fresh)}"
        yield from printed(role.nodes, 2)
        return
    yield f"{INDENT * 2}if (warpgroup::laneid() == 0) {{"
    yield f"{INDENT * 3}{_cursors(role, fresh)}"
    yield from printed(role.nodes, 3)
    yield f"{INDENT * 2}}}"


def _registers(change: str, role: Role) -> Iterator[str]:
    if role.registers:
        yield f"{INDENT * 2}warpgroup::{change}_registers<{role.registers}>();"


def _less(before: str) -> str:
    return f" - {before}" if before not in ("", "0") else ""


def _cursors(role: Role, comment: str = "") -> str:
    """The variables of a role's cursors."""
    made = []
    for cursor in role.cursors:
        made += [f"{cursor.name} = 0"] * (cursor.slots != "1") + [f"{cursor.phase_name} = {cursor.start}"]
    return f"int {', '.join(made)};{f'  // {comment}' if comment else ''}"
