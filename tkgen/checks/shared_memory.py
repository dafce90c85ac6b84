"""Shared memory (E5xx, W5xx): the tiles fit, all of them are used, and their accesses are free of bank conflicts.

Rule. The buffers of all operands, each aligned to 16 bytes as the kernel's allocator aligns them, fit in the LDS that
one block of the target may have. Every access pattern of the kernel is served in as few passes as its width allows.

Proof idea. The allocator hands out consecutive objects, so the total is a sum. Bank conflicts are counted on the
addresses themselves: the Python twin of the headers' layout gives the byte that each lane touches.

Source. LDS size and banks: `tkgen/targets/*.toml` (AMD CDNA3 and CDNA4 ISA guides). Which lanes LDS serves together:
`tkgen.backends.cdna.kittens.layout`, with its sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from tkgen.backends.cdna.kittens import layout
from tkgen.checks.blocks import resized
from tkgen.checks.words import block_text, names_text
from tkgen.diagnostics import Diagnostic, Edit, Fix, Label
from tkgen.diagnostics.edits import with_option
from tkgen.diagnostics.text import count_text
from tkgen.ir.reductions import BYTES, exchanged
from tkgen.ir.room import too_much_lds
from tkgen.ir.types import ACCESS_BYTES, BASE_TILE, Operand, Program, Via
from tkgen.schedule.plan import Plan
from tkgen.source import Span
from tkgen.targets import Target
from tkgen.targets.model import round_up

ALIGNMENT = 16  # bytes; `shared_allocator` of the ThunderKittens surface


def check(plan: Plan, target: Target) -> list[Diagnostic]:
    """Report tiles that do not fit, tiles that are never used, and bank conflicts."""
    program = plan.program
    return [*_budget(program, target), *_unused(plan), *_conflicts(program, target)]


def lds_bytes(program: Program) -> int:
    """Bytes of LDS that a block allocates, alignment included."""
    total = 0
    for operand in program.shared:
        total = round_up(total, ALIGNMENT) + operand.lds_bytes * operand.buffers
    return round_up(total, ALIGNMENT) + BYTES * exchanged(program)


def _budget(program: Program, target: Target) -> Iterator[Diagnostic]:
    need, have = lds_bytes(program), target.lds_bytes_per_block
    if need <= have:
        return
    parts = [f"{o.name}: {count_text(o.buffers, 'buffer')} of {o.lds_shape[0]} x {o.lds_shape[1]} "
             f"{o.tensor.dtype.spelling} = {o.buffers * o.lds_bytes} bytes" for o in program.shared]  # fmt: skip
    if exchanged(program):
        parts.append(f"values that waves reduce together = {BYTES * exchanged(program)} bytes")
    labels = [Label(o.span, f"{o.buffers * o.lds_bytes} bytes for `{o.name}`") for o in _one_a_line(program.shared)]
    labels, smaller = labels or [Label(program.accumulator.span)], _smaller(program, have)
    yield too_much_lds(
        need,
        f"a block on {target.name} has {have}",
        labels[0],
        " or ".join(text for text, _ in smaller) or "make the block smaller",
        secondary=tuple(labels[1:]),
        notes=("\n".join(parts), target.cited("lds.bytes_per_block")),
        edits=smaller[-1][1] if smaller else (),
    )


def _one_a_line(operands: Iterable[Operand]) -> list[Operand]:
    """The first operand of each `shared` line."""
    return list({o.span: o for o in reversed(list(operands))}.values())[::-1]


def _smaller(program: Program, have: int) -> list[tuple[str, tuple[Edit, ...]]]:
    """The changes of one number that make the tiles fit, in words and as edits."""
    rows, cols, step = program.block
    room = have - BYTES * exchanged(program)
    all_buffers = sum(o.buffers * o.lds_bytes for o in program.shared)
    found = list[tuple[str, tuple[Edit, ...]]]()
    smaller = step // 2
    while smaller >= BASE_TILE and smaller % BASE_TILE == 0:
        if all_buffers * smaller // step <= room:
            block = rows, cols, smaller
            found.append((f"make the K-step smaller: {block_text(program, block)}", tuple(resized(program, block))))
            break
        smaller //= 2
    if buffers := _fitting_buffers(program, have):  # last: it gives up the depth that was asked for
        found.append((f"use `buffers {buffers}`", _fewer_buffers(program, have)))
    return found


def _fitting_buffers(program: Program, have: int) -> int:
    """The buffers of each tile that fit, all operands having as many; 0 where there are no more."""
    one, depths = sum(o.lds_bytes for o in program.shared), {o.buffers for o in program.shared}
    found = (have - BYTES * exchanged(program)) // one if one else 0
    return found if len(depths) == 1 and 0 < found < max(depths) else 0


def _fewer_buffers(program: Program, have: int) -> tuple[Edit, ...]:
    """Give operands as many buffers as fit."""
    buffers = _fitting_buffers(program, have)
    return _buffers([o.span for o in program.shared], buffers) if buffers else ()


def _buffers(spans: Iterable[Span], buffers: int) -> tuple[Edit, ...]:
    """Give the tiles of these statements another number of buffers."""
    return tuple(e for span in dict.fromkeys(spans) for e in with_option(span, "buffers", str(buffers)))


def _unused(plan: Plan) -> Iterator[Diagnostic]:
    program = plan.program
    for unused in program.unused:
        note = {
            "shared tile": "only the two operands of the product go through LDS; no LDS is reserved for anything else",
            "register tile": "register tiles hold only the operands of the product",
            "tensor": "it would be an argument of the kernel that nothing reads",
            "value": "no store depends on it, so nothing computes it",
            "scalar": "it would be an argument of the kernel that nothing reads",
        }[unused.what]
        yield Diagnostic(
            "W502",
            f"the {unused.what} `{unused.name}` is never used",
            Label(unused.span),
            (),
            (note,),
            Fix("remove it", unused.edits),
        )
    if program.steps is not None:
        idle = [o for o in program.operands if o.buffers > program.steps]
        if idle:
            yield Diagnostic(
                "W502",
                f"{count_text(idle[0].buffers, 'buffer')} for {names_text([o.name for o in idle])}, but there "
                f"{'is' if program.steps == 1 else 'are'} {count_text(program.steps, 'K-step')}",
                Label(idle[0].span, f"{idle[0].buffers - program.steps} would never hold anything"),
                (Label(program.k.span, f"{program.k.name} = {program.k.size}, a K-step is {program.block[2]}"),),
                (),
                Fix(f"use `buffers {program.steps}`", _buffers([o.span for o in idle], program.steps)),
            )


def _conflicts(program: Program, target: Target) -> Iterator[Diagnostic]:
    if target.lds_banks != layout.BANKS:
        return  # the layout is one for 32 banks; with twice as many no access meets more often
    for what, ways_of in (("reads", read_ways), ("writes", partial(write_ways, program))):
        found = {o.name: (o, *ways_of(o)) for o in program.shared}
        for names in _alike({name: (o.span, o.part_shape, ways) for name, (o, _, ways) in found.items()}):
            operand, instruction, ways = found[names[0]]
            if ways > 1 and not (operand.multiplied and what == "reads"):  # no layout of rows is better for these
                dtype = operand.tensor.dtype
                yield Diagnostic(
                    "W501",
                    f"{what} of {names_text(names)} have {ways}-way conflicts in LDS banks",
                    Label(operand.span, f"`{instruction}` on {operand.part_shape[0]} x {operand.part_shape[1]} tiles"),
                    (),
                    (f"each of these {what} takes {ways} passes instead of one",),
                    Fix(f"use rows that are a multiple of 64 bytes: {dtype.unit(64)} columns of {dtype.spelling}"),
                )


def _alike(facts: dict[str, object]) -> list[list[str]]:
    """Names with equal facts together."""
    groups: dict[object, list[str]] = {}
    for name, fact in facts.items():
        groups.setdefault(fact, []).append(name)
    return list(groups.values())


def read_ways(operand: Operand) -> tuple[str, int]:
    """The instruction that reads register tiles of an operand from LDS and its bank conflicts (1: none).

    Tiles that direct loads fill have none: `hk.cuh` says why. Bytes that are computed on their way are read 4 at a time
    (`load_made` of `made.cuh`).
    """
    if operand.multiplied:
        return "ds_read_b32", layout.conflict_ways("ds_read_b32", layout.quad_addresses(*operand.part_stored))
    if operand.via is Via.DIRECT:
        return ("ds_read_b128" if operand.register_layout == "row" else "ds_read_b64_tr_b16"), 1
    size = operand.tensor.dtype.bytes
    rows, cols = operand.part_stored
    if operand.dtype.bits == layout.SIX:
        found = (layout.block_addresses(rows, cols, piece) for piece in range(3))
        return "ds_read_b64", max(layout.conflict_ways("ds_read_b64", addresses) for addresses in found)
    kind: layout.Layout = "col" if operand.register_layout == "col" else "row"
    worst: tuple[int, str] = (1, layout.fragment_instruction(size, cols, kind))
    for base_row in range(min(rows // BASE_TILE, 2)):
        for base_col in range(cols // BASE_TILE):
            instruction = layout.fragment_instruction(size, cols, kind, base_col)
            for element in range(4 if kind == "col" else 1):
                addresses = layout.fragment_addresses(size, rows, cols, kind, base_row, base_col, element)
                worst = max(worst, (layout.conflict_ways(instruction, addresses), str(instruction)))
    return worst[1], worst[0]


def write_ways(program: Program, operand: Operand) -> tuple[str, int]:
    """The instruction that writes an operand's tiles to LDS and its bank conflicts (1: none).

    Collective loads write in the headers' own order. Tiles that are staged through registers, or masked by a tail
    clause, are dealt to threads 16 bytes each (`chunk_at` of the generated code) and written in two halves, of one-byte
    elements in one piece.
    """
    size, (rows, cols) = operand.tensor.dtype.bytes, operand.part_stored
    role = next(r for r in program.roles if operand.name in r.loads)
    threads = layout.WAVE * role.group
    by_rows = operand.via is Via.REGISTERS or program.tail is not None
    instruction: layout.Instruction = "ds_write_b64" if size > 1 and (by_rows or size == 2) else "ds_write_b128"
    parts = ACCESS_BYTES // layout.access_bytes(instruction)
    turns = -(-rows * cols * size // (ACCESS_BYTES * threads)) if by_rows else layout.turns(rows, cols * size, threads)
    worst = 1
    for turn in range(min(turns, 4)):
        for first in range(0, threads, layout.WAVE):
            pieces = [_piece(by_rows, rows, cols * size, threads, first + lane, turn) for lane in range(layout.WAVE)]
            for part in range(parts):
                addresses = [
                    None
                    if p is None
                    else layout.element_offset(size, rows, cols, p[0], (p[1] + part * ACCESS_BYTES // parts) // size)
                    for p in pieces
                ]
                worst = max(worst, layout.conflict_ways(instruction, addresses))
    return instruction, worst


def _piece(by_rows: bool, rows: int, row_bytes: int, threads: int, thread: int, turn: int) -> tuple[int, int] | None:
    """(row, byte in the row) of the 16 bytes that a thread moves in its `turn`-th access; None where it has none."""
    if not by_rows:
        return layout.piece(rows, row_bytes, threads, thread, turn)
    at, per_row = turn * threads + thread, row_bytes // ACCESS_BYTES
    if per_row % 4:
        row, chunk = divmod(at, per_row)
    else:  # 32 neighbours take 8 rows x 64 bytes
        block, lane = divmod(at, 32)
        row, chunk = block // (per_row // 4) * 8 + lane // 4, block % (per_row // 4) * 4 + lane % 4
    return (row, chunk * ACCESS_BYTES) if row < rows else None
