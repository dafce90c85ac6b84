"""The events of the timing model on streams whose timing can be worked out by hand."""

from __future__ import annotations

import itertools

import pytest
from test_predict_timing import BARRIER, END, LOAD, MFMA, READ, VALU, WAIT_LDS, WAIT_MEMORY, machine

from tkgen.predict.events import Event, Recording, Track, record
from tkgen.predict.stream import Instruction, WaveStream
from tkgen.predict.timing import simulate


def recorded(*bodies: list[Instruction], passes: int = 50, blocks: int = 1) -> Recording:
    """One wave per body."""
    return record([WaveStream((), tuple(body), passes, (END,)) for body in bodies], blocks, machine())


def on(recording: Recording, track: Track, wave: int = 0) -> list[Event]:
    return [e for e in recording.events if e.track is track and e.wave == wave]


def test_a_read_a_wait_and_a_multiply_follow_one_another() -> None:
    found = recorded([READ, WAIT_LDS, MFMA])
    read, wait, multiply = (on(found, track)[5] for track in (Track.LDS, Track.WAIT, Track.MFMA))
    assert read.end - read.start == 48 + 1024 / 64  # an idle LDS, and the data's way
    assert read.start < wait.start and wait.end == read.end and wait.cause == "LDS"
    assert wait.end <= multiply.start < wait.end + 8 and multiply.end - multiply.start == 16


def test_waits_say_what_for() -> None:
    found = recorded([LOAD, WAIT_MEMORY, MFMA])
    load, wait = on(found, Track.MEMORY)[3], on(found, Track.WAIT)[3]
    assert wait.cause == "memory" and wait.end == load.end and load.end - load.start >= 1000
    idle = next(e for e in on(found, Track.IDLE) if e.start >= load.start)
    assert idle.cause in ("memory", "bandwidth") and idle.end <= load.end


def test_at_a_barrier_the_last_wave_is_named() -> None:
    found = recorded([MFMA, BARRIER], [MFMA, *[VALU] * 50, BARRIER])
    waits = on(found, Track.BARRIER, 0)
    assert waits and all(e.by == 1 for e in waits)
    assert not on(found, Track.BARRIER, 1)  # it never waits
    ends = [e.end for e in on(found, Track.VECTOR, 1)]
    assert all(any(0 <= w.end - end <= 8 for end in ends) for w in waits)


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_matrix_unit_does_one_thing_at_a_time_and_all_its_time_is_told(blocks: int) -> None:
    found = recorded(*[[READ, WAIT_LDS, *[MFMA] * 4]] * 8, blocks=blocks)
    for simd in range(4):
        mine = sorted(
            (e for e in found.events if e.track in (Track.MFMA, Track.IDLE) and e.wave % 4 == simd),
            key=lambda e: e.start,
        )
        assert all(a.end <= b.start + 1e-9 for a, b in itertools.pairwise(mine))
        told = sum(e.end - e.start for e in mine)
        assert told == pytest.approx(mine[-1].end, abs=8)  # from the start to the last multiply


def test_writing_it_down_changes_nothing() -> None:
    streams = [WaveStream((), (READ, LOAD, WAIT_LDS, *[MFMA] * 4, BARRIER), 50, (END,)) for _ in range(8)]
    timing, found = simulate(streams, 1, machine()), record(streams, 1, machine())
    begin, end = found.passes[0][3], found.passes[0][7]
    busy = sum(e.end - e.start for e in found.events if e.track is Track.MFMA and begin <= e.start < end)
    assert busy / 4 / 4 == timing.busy  # of four passes, on four SIMDs
    assert found.warm == 3 and [len(p) for p in found.passes] == [9] * 8
    assert found.end == pytest.approx(timing.cycles - (50 - 8) * timing.pass_cycles)


def test_time_by_instruction_is_the_time_of_a_pass() -> None:
    body = [Instruction(x.unit, **{"cycles": x.cycles, "address": i}) for i, x in enumerate([VALU] * 10)]
    found = recorded([MFMA, *body])
    assert sum(found.spent[0].values()) == pytest.approx(4 * 11, abs=8)
