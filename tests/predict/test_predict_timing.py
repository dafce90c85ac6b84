"""The model of a compute unit on streams whose timing can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tkgen.predict.stream import Instruction, Unit, WaveStream
from tkgen.predict.timing import Cause, CuTiming, Machine, Memory, simulate
from tkgen.targets import load_target

TARGET = load_target("gfx942")
MFMA = Instruction(Unit.MFMA, 16, flops=8192, writes=(512,))
READ = Instruction(Unit.LDS, lds_cycles=8, lds_bytes=1024)
LOAD = Instruction(Unit.VMEM, 16, bytes=1024, pieces=16)
VALU = Instruction(Unit.VALU, 4)
WAIT_LDS = Instruction(Unit.WAIT, lgkm=0)
WAIT_MEMORY = Instruction(Unit.WAIT, vector=0)
BARRIER = Instruction(Unit.BARRIER)
END = Instruction(Unit.END)


def machine(latency: float = 1000, rate: float = 32, fetch: float = 0, free: frozenset[str] = frozenset()) -> Machine:
    return Machine.of(TARGET, Memory(latency, rate, rate), fetch, free)


def run(*bodies: list[Instruction], passes: int = 50, blocks: int = 1, on: Machine | None = None) -> CuTiming:
    """One wave per body: waves go to the four SIMDs in turn."""
    streams = [WaveStream((), tuple(body), passes, (END,)) for body in bodies]
    return simulate(streams, blocks, on or machine())


def test_multiplies_alone_keep_the_matrix_unit_busy() -> None:
    timing = run(*[[MFMA] * 8] * 4)
    assert timing.busy == 8 * 16
    assert timing.pass_cycles == pytest.approx(128 / 0.94)  # no kernel is known to keep them busier
    assert timing.lost[Cause.ARCHITECTURE] == sum(timing.lost.values()) == pytest.approx(timing.pass_cycles - 128)
    assert timing.cycles == pytest.approx(50 * 128 / 0.94, abs=40)


def test_two_waves_on_a_simd_share_its_matrix_unit() -> None:
    assert run(*[[MFMA] * 8] * 8).pass_cycles == pytest.approx(2 * 8 * 16 / 0.94, abs=16)


def test_other_instructions_of_another_wave_cost_nothing() -> None:
    """Four instructions per matrix instruction fit under it, where they come from another wave."""
    timing = run(*[[MFMA] * 8] * 4, *[[VALU] * 16] * 4)
    assert timing.pass_cycles == pytest.approx(8 * 16, rel=0.2)


def test_one_wave_issues_once_in_four_cycles() -> None:
    timing = run(*[[MFMA] + [VALU] * 9] * 4)
    assert timing.pass_cycles == 40
    assert timing.lost[Cause.ISSUE] == pytest.approx(24)


def test_an_lds_read_that_is_waited_for_costs_its_latency_and_transfer() -> None:
    timing = run([READ, WAIT_LDS, MFMA])
    alone = 48 + 1024 / 64  # measured: 64 cycles for 16 bytes a lane
    assert timing.pass_cycles == pytest.approx(alone + 2 * 4, abs=8)
    assert timing.lost[Cause.LDS] > 0.6 * timing.pass_cycles / 4


def test_bank_conflicts_take_the_time_of_the_banks() -> None:
    free, conflicted = READ, replace(READ, lds_cycles=64)
    fast = run(*[[free] * 16 + [WAIT_LDS, MFMA]] * 4)
    slow = run(*[[conflicted] * 16 + [WAIT_LDS, MFMA]] * 4)
    assert fast.pass_cycles == pytest.approx(4 * 16 * 8, rel=0.2)
    assert slow.pass_cycles == pytest.approx(4 * 16 * 64, rel=0.1)


def test_pairs_of_simds_have_paths_of_their_own() -> None:
    """Two waves of one pair get 64 bytes a cycle between them, two waves of different pairs 128."""
    reads = [READ] * 16 + [WAIT_LDS, MFMA]
    same_pair = run(reads, reads, [MFMA], [MFMA])
    both_pairs = run(reads, [MFMA], reads, [MFMA])
    assert same_pair.pass_cycles > 1.5 * both_pairs.pass_cycles


def test_loads_wait_for_latency_then_bandwidth() -> None:
    one = run([LOAD, WAIT_MEMORY, MFMA])
    many = run([LOAD] * 64 + [WAIT_MEMORY, MFMA])
    assert one.pass_cycles == pytest.approx(1000 + 1024 / 32, abs=24)
    assert many.pass_cycles == pytest.approx(1000 + 64 * 1024 / 32, rel=0.02)
    assert one.lost[Cause.MEMORY] == pytest.approx(one.pass_cycles / 4, rel=0.05)


def test_a_count_lets_later_loads_stay_in_flight() -> None:
    ahead = Instruction(Unit.WAIT, vector=1)
    assert run([LOAD, ahead, *[MFMA] * 64]).pass_cycles == pytest.approx(64 * 16, abs=24)
    assert run([LOAD, WAIT_MEMORY, *[MFMA] * 64]).pass_cycles > 1000 + 64 * 16


def test_a_barrier_waits_for_the_slowest_and_charges_its_cause() -> None:
    slow = [LOAD, WAIT_MEMORY, BARRIER, MFMA]
    quick = [BARRIER, MFMA]
    timing = run(slow, quick, quick, quick)
    assert timing.pass_cycles == pytest.approx(1000 + 32, abs=32)
    assert timing.lost[Cause.MEMORY] > 0.9 * (timing.pass_cycles - 16)


def test_uneven_waves_lose_at_barriers() -> None:
    timing = run([MFMA] * 32 + [BARRIER], *[[MFMA, BARRIER]] * 3)
    assert timing.pass_cycles == pytest.approx(32 * 16, abs=16)
    assert timing.lost[Cause.BARRIERS] > 0.5 * timing.pass_cycles


def test_a_wave_that_ends_leaves_the_others_to_meet() -> None:
    streams = [WaveStream((BARRIER,), (), 0, (END,)), WaveStream((BARRIER, BARRIER, MFMA), (), 0, (END,))]
    assert simulate(streams, 1, machine()).cycles < 100


def test_priority_decides_who_multiplies() -> None:
    """Of two waves of a SIMD the one with the higher priority finishes its multiplies first."""
    raise_priority = Instruction(Unit.PRIORITY, value=1)
    low, high = [MFMA] * 40 + [BARRIER], [raise_priority] + [MFMA] * 40 + [BARRIER]
    idle = [BARRIER]
    timing = run(low, idle, idle, idle, high, idle, idle, idle)
    assert timing.pass_cycles == pytest.approx(80 * 16, abs=40)


def test_results_are_read_after_their_wait_states() -> None:
    reader = Instruction(Unit.VALU, 4, reads=(512,))
    timing = run([MFMA, reader])
    assert timing.pass_cycles == pytest.approx(16 + 4 * 4 + 4, abs=4)


def test_new_code_is_fetched_line_by_line() -> None:
    code = [replace(VALU, address=2 * i) for i in range(160)]
    streams = [WaveStream((*code, MFMA), (), 0, (END,))]
    warm, cold = (simulate(streams, 1, machine(fetch=f)).cycles for f in (0, 400))
    lines = 160 * 8 / 128
    assert warm == pytest.approx(160 * 4, abs=64)
    # One line ahead: each costs the latency less the 16 instructions that run meanwhile.
    assert cold - warm == pytest.approx(400 + (lines - 1) * (400 - 16 * 4), rel=0.15)


def test_passes_that_are_not_simulated_are_extended() -> None:
    few, many = run([READ, WAIT_LDS, MFMA], passes=10), run([READ, WAIT_LDS, MFMA], passes=1000)
    assert many.cycles - few.cycles == pytest.approx(990 * few.pass_cycles, rel=0.01)


@pytest.mark.parametrize("resource", ["LDS", "issue", "memory", "MFMA"])
def test_a_free_resource_never_makes_it_slower(resource: str) -> None:
    body = [LOAD, VALU, READ, READ, WAIT_LDS, BARRIER, *[MFMA] * 4, WAIT_MEMORY, BARRIER]
    base = run(*[body] * 8)
    assert run(*[body] * 8, on=machine(free=frozenset({resource}))).pass_cycles <= base.pass_cycles


def test_blocks_hide_each_others_waiting() -> None:
    body = [LOAD, WAIT_MEMORY, *[MFMA] * 16]
    one, two = run(*[body] * 4), run(*[body] * 4, blocks=2)
    assert two.pass_cycles < 1.3 * one.pass_cycles
    assert two.busy == pytest.approx(2 * one.busy)
