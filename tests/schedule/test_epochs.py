"""Epochs and completion, on traces small enough to check by hand."""

from __future__ import annotations

from dataclasses import replace

import planning

from tkgen.ir.types import Program
from tkgen.schedule.epochs import conflicts
from tkgen.schedule.instructions import instructions
from tkgen.schedule.traces import NEVER, Event, held, trace
from tkgen.tile.ops import (
    Barrier,
    Copy,
    Fence,
    Fetch,
    Load,
    Multiply,
    Read,
    Store,
    Write,
    Zero,
)
from tkgen.tile.program import Drain, Op, Role, Tiles

BARRIER, FENCE = Barrier(), Fence()
LOAD, COPY, WRITE, FETCH = (kind.of("A") for kind in (Load, Copy, Write, Fetch))
READ, READ_B = (Read.of(name, 0, (0,), (0,)) for name in ("A", "B"))
MULTIPLY = Multiply.of(("A", "B"), (0,), (0,), (0,))


def wait(counter: str, count: int = 0) -> Op:
    return Drain(counter, str(count))


def program(via: str = "collective", waves: int = 2) -> Program:
    text = f"""kernel small
  dims M = {16 * waves}, N = 16, K = 32
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block {16 * waves} x 16 step 16
  waves {waves} x 1
  shared A, B via {via}
  accumulate C : f32 tile 16 x 16
  store C
"""
    return planning.program(text)


def wave(*ops: Op, waves: tuple[int, ...] = (0, 1), phase: int = 0) -> Role:
    return Role("waves", (), (), Tiles((), tuple(ops)), waves=waves, phase=phase)


def traced(*ops: Op, via: str = "collective", passes: int = 1) -> list[Event]:
    return trace(program(via), wave(*ops), passes, 1, passes, 1, 0)


def kinds(*ops: Op, via: str = "collective", passes: int = 2, waves: int = 2) -> set[tuple[str, str]]:
    programs = [wave(*ops, waves=tuple(range(waves)))]
    found = conflicts(program(via, waves), programs, passes, 1, passes)
    return {(c.kind, c.how) for c in found if c.kind in ("RAW", "WAR", "WAW", "unwritten")}


def test_epochs_count_barriers() -> None:
    events = traced(LOAD, BARRIER, READ, BARRIER, passes=2)
    assert [e.begin for e in events] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_load_waits_for_itself_and_for_the_lds_accesses_before_it() -> None:
    assert traced(LOAD, BARRIER)[0].done == 0
    assert traced(LOAD, BARRIER, via="direct")[0].done == 0  # a copy and its wait
    assert traced(READ, MULTIPLY, FENCE, LOAD, BARRIER)[0].done == 0
    assert traced(READ, MULTIPLY, LOAD, BARRIER)[0].done == NEVER  # the compiler may read after it has loaded


def test_a_collective_load_beside_direct_ones_waits_for_no_lds_read() -> None:
    read, *_ = traced(READ, MULTIPLY, LOAD, BARRIER, via="direct")
    assert read.done == NEVER


def test_a_read_is_complete_when_it_is_waited_for() -> None:
    assert traced(READ, BARRIER)[0].done == NEVER
    assert traced(READ, wait("lds"), BARRIER)[0].done == 0
    assert traced(READ, BARRIER, wait("lds"))[0].done == 1
    assert traced(READ, wait("vm"), BARRIER)[0].done == NEVER


def test_a_multiply_completes_no_read() -> None:
    for ops in ((READ, MULTIPLY, BARRIER), (READ, MULTIPLY, FENCE, BARRIER), (READ, READ_B, MULTIPLY, BARRIER, FENCE)):
        assert traced(*ops)[0].done == NEVER


def held_by(*ops: Op, via: str = "collective") -> dict[int, int]:
    """Position of each barrier that needs its own wait -> what that may leave outstanding."""
    return {at: count for (_, at), count in held(program(via), wave(*ops), 2, 1, 2, 1).items()}


def test_barriers_behind_multiplies_wait_for_what_those_need() -> None:
    assert held_by(READ, READ_B, MULTIPLY, FENCE, BARRIER) == {4: 0}
    assert held_by(READ, READ_B, BARRIER) == {}  # nobody needs them yet
    assert held_by(READ, READ_B, wait("lds"), MULTIPLY, FENCE, BARRIER) == {}  # complete already
    later = Read.of("B", 1, (0,), (0,))
    multiply = Multiply.of(("A", "B"), (0,), (), (0,))  # of A alone
    assert held_by(READ, FENCE, multiply, READ_B, FENCE, BARRIER, Multiply.of(("A", "B"), (), (0,), (0,))) == {5: 1}
    assert held_by(READ, multiply, later, FENCE, BARRIER) == {4: 0}  # the compiler may read B first


def test_counted_waits_leave_the_latest_outstanding() -> None:
    first, _, second, *_ = traced(READ, FENCE, READ_B, MULTIPLY, wait("lds", 1), BARRIER)
    assert (first.done, second.done) == (0, NEVER)


def test_reads_of_one_section_are_in_no_order() -> None:
    first, second, *_ = traced(READ, READ_B, MULTIPLY, wait("lds", 1), BARRIER)
    assert (first.done, second.done) == (NEVER, NEVER)


def test_a_counted_wait_counts_only_what_is_surely_issued() -> None:
    unused = traced(READ, FENCE, READ_B, wait("lds", 1), BARRIER)  # nobody multiplies B: the compiler leaves it out
    assert unused[0].done == NEVER
    twice = traced(READ, FENCE, READ_B, READ_B, MULTIPLY, wait("lds", 2), BARRIER)  # one read
    assert twice[0].done == NEVER
    assert traced(READ, FENCE, READ_B, MULTIPLY, wait("lds", 1), BARRIER)[0].done == 0
    unwritten = traced(
        COPY, FENCE, FETCH, wait("vm", 1), BARRIER, via="direct"
    )  # nor does anybody write what is fetched
    assert unwritten[0].done == NEVER


def test_instructions_are_counted_as_if_the_compiler_merged_them() -> None:
    def reads(made: Program, *ops: Op) -> int:
        return instructions(made, ops)["lds"]

    made = program()
    assert reads(made, READ) == 1  # 16 x 16 bf16: 8 bytes a lane
    assert reads(made, READ, READ_B) == 1  # might be one ds_read2_b64
    wide = replace(made, operands=(replace(made.a, fragment_extent=32, slice=32), made.b))
    assert reads(wide, READ) == 2  # 32 bytes a lane
    assert reads(wide, READ, READ) == 2
    assert reads(wide, Read.of("A", 0, (0, 1), (0, 1))) == 8
    columns = replace(made, operands=(replace(made.a, contraction_first=True), made.b))
    assert reads(columns, READ) == 4  # element by element


def test_a_wave_may_have_no_part_in_a_write() -> None:
    made = program("registers", waves=4)
    assert instructions(made, [WRITE])["lds"] == 0  # 64 x 16 bf16 are 2 KiB: two of four waves write
    assert instructions(made, [FETCH])["vm"] == 0
    assert instructions(program("registers"), [WRITE])["lds"] == 0
    large = replace(made, operands=(replace(made.a, extent=256), made.b))
    assert instructions(large, [WRITE])["lds"] == 2


def test_a_write_completes_its_fetch() -> None:
    fetch, write, *_ = traced(FETCH, BARRIER, WRITE, wait("lds"), via="registers")[0:3:2]
    assert fetch.done == 1 and write.done == 1


def test_one_buffer_needs_two_barriers() -> None:
    done = (MULTIPLY, FENCE, wait("lds"))
    assert kinds(LOAD, BARRIER, READ, *done, BARRIER) == set()
    assert kinds(LOAD, BARRIER, READ, *done) == {("WAR", "")}
    assert kinds(LOAD, READ, *done, BARRIER) == {("RAW", "")}


def test_a_barrier_before_completion_does_not_help() -> None:
    done = (MULTIPLY, wait("lds"))
    assert kinds(LOAD, BARRIER, READ, BARRIER, *done) == {("WAR", "wait")}
    assert kinds(COPY, BARRIER, READ, *done, BARRIER, via="direct") == {("RAW", "wait")}
    assert kinds(COPY, wait("vm"), BARRIER, READ, *done, BARRIER, via="direct") == set()


def test_one_wave_needs_no_barriers_but_waits_for_direct_loads() -> None:
    done = (MULTIPLY, wait("lds"))
    assert kinds(LOAD, READ, MULTIPLY, waves=1) == set()
    assert kinds(COPY, READ, *done, via="direct", waves=1) == {("RAW", "")}
    assert kinds(COPY, wait("vm"), READ, *done, via="direct", waves=1) == set()
    # the copy goes past the queue in which the read may still stand
    assert kinds(COPY, wait("vm"), READ, MULTIPLY, FENCE, via="direct", waves=1) == {("WAR", "")}
    # so does a collective load beside direct ones: it is a copy that is waited for
    assert kinds(LOAD, READ, MULTIPLY, FENCE, via="direct", waves=1) == {("WAR", "")}
    assert kinds(LOAD, READ, *done, via="direct", waves=1) == set()


def test_nobody_loads_what_is_read() -> None:
    assert ("unwritten", "") in kinds(BARRIER, READ, MULTIPLY, FENCE, BARRIER)


def test_phases_meet_one_barrier_apart() -> None:
    made = program()
    early = wave(LOAD, BARRIER, READ, MULTIPLY, FENCE, BARRIER, waves=(0,))
    late = wave(LOAD, BARRIER, READ, MULTIPLY, FENCE, BARRIER, waves=(1,), phase=1)
    found = conflicts(made, [early, late], 2, 1, 2)
    assert {c.kind for c in found if c.kind in ("RAW", "WAR", "barriers")} == {"RAW", "WAR"}
    ahead, behind = (trace(made, w, 2, 1, 2, 1, 1) for w in (early, late))
    assert [sum(isinstance(e.op, Barrier) for e in events) for events in (ahead, behind)] == [5, 5]


def test_barrier_counts_must_agree() -> None:
    made = program()
    found = conflicts(made, [wave(LOAD, BARRIER, waves=(0,)), wave(LOAD, waves=(1,))], 2, 1, 2)
    assert [c.where for c in found if c.kind == "barriers"] == [(2, 0)]


def data(*ops: Op, via: str = "registers", steps: int = 2) -> list[tuple[str, str, tuple[int, ...]]]:
    """Conflicts about staging registers, sums and stores."""
    zero, store = Zero((0,), (0,)), Store((0,), (0,))
    made = replace(wave(*ops), before=(zero,), behind=(store,))
    found = conflicts(program(via), [made], steps, 1, steps)
    return [(c.kind, c.how, c.where) for c in found if c.kind in ("staging", "products", "zero", "stores")]


def test_staging_registers_keep_what_was_fetched_until_the_next_fetch() -> None:
    use = (READ, READ_B, MULTIPLY, FENCE, BARRIER)
    ready = (wait("lds"), BARRIER)
    assert data(FETCH, WRITE, *ready, *use) == []
    assert data(FETCH, FETCH, WRITE, WRITE, *ready, *use) == []
    assert data(WRITE, *ready, *use) == [("staging", "other step", ())]
    ahead = Fetch.of("A", 1)
    assert data(FETCH, ahead, WRITE, *ready, *use) == [("staging", "overwritten", ()), ("staging", "other step", ())]


def test_every_product_is_summed_once() -> None:
    use = (READ, READ_B, MULTIPLY, FENCE)
    assert data(*use, MULTIPLY, FENCE) == [("products", "twice", (0, 0, 0, 0))]
    assert data(READ, READ_B) == [("products", "missing", (0, 0, 0, 0))]
    bare = replace(wave(*use), behind=(Store((0,), (0,)),))
    found = conflicts(program(), [bare], 2, 1, 2)
    assert [c.kind for c in found if c.kind in ("zero", "products", "stores")] == ["zero"]


def test_a_fragment_is_stored_once() -> None:
    zero, store = Zero((0,), (0,)), Store((0,), (0,))
    made = replace(wave(READ, READ_B, MULTIPLY, FENCE), before=(zero,))
    for epilogue, times in (((), 0), ((store, store), 2)):
        found = conflicts(program(), [replace(made, behind=epilogue)], 2, 1, 2)
        assert [(c.kind, c.where) for c in found if c.kind == "stores"] == [("stores", (0, 0, times))]
        assert not [c for c in found if c.kind in ("products", "zero")]
