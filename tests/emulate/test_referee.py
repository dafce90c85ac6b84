"""Every defect of hand-written kernels is caught and named, whatever order the waves ran in; mended, it passes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate import frame
from tkgen.emulate import Buffer, Kind, Outcome, Policy, Scalar, launch

SIZE = 64


def bf16(x: np.ndarray) -> np.ndarray:
    return ((x.astype(np.float32).view(np.uint32) + 0x8000) >> 16).astype(np.uint16)


def widen(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.uint32) << 16).view(np.float32)


def run(path, k=96, policy=Policy.BARRIER, seed=0, **options) -> tuple[Outcome, float]:
    rng = np.random.default_rng(1)
    a, b = (bf16(rng.standard_normal((SIZE, k))) for _ in range(2))
    c = np.full((SIZE, SIZE), np.nan, dtype=np.float32)
    args = [
        Buffer(a, "A", writable=False),
        Buffer(b, "B", writable=False),
        Buffer(c, "C"),
        Scalar("i32", SIZE),
        Scalar("i32", k),
    ]
    options = {"watch": True} | options
    outcome = launch(path, grid=(1, 1, 1), block=(256, 1, 1), args=args, policy=policy, seed=seed, **options)
    error = np.abs(c - widen(a) @ widen(b).T).max()
    return outcome, float(error)


def kinds(outcome: Outcome) -> set[Kind]:
    return {f.kind for f in outcome.findings}


@pytest.mark.parametrize("policy", list(Policy))
def test_right_kernel_has_no_findings(build, policy):
    outcome, error = run(build("gemm.cpp"), policy=policy, poison=policy is Policy.RANDOM)
    assert [str(f) for f in outcome.findings] == []
    assert error < 1e-4
    assert outcome.completed
    assert outcome.barriers == (6, 6, 6, 6)


@pytest.mark.parametrize("policy", list(Policy))
def test_missing_second_barrier(build, policy):
    outcome, _ = run(build("gemm.cpp", SECOND_BARRIER=0), policy=policy)
    assert kinds(outcome) == {Kind.RACE}
    finding = outcome.findings[0]
    assert {finding.first.access, finding.second.access} == {"reads", "writes"}
    assert finding.first.wave != finding.second.wave
    assert finding.first.file.endswith(("gemm.cpp", "device.h"))
    assert finding.first.line and finding.second.line
    assert "ds_read" in finding.first.text + finding.second.text
    assert "ds_write" in finding.first.text + finding.second.text
    # The writer is a K-step ahead of the reader.
    write, read = sorted((finding.first, finding.second), key=lambda a: a.access != "writes")
    assert write.instance > read.instance == 0


def test_a_run_to_the_first_finding_stops_there(build):
    whole, _ = run(build("gemm.cpp", SECOND_BARRIER=0))
    first, _ = run(build("gemm.cpp", SECOND_BARRIER=0), first_finding=True)
    found = [(f.kind, f.first, f.second) for f in first.findings]
    assert found and found == [(f.kind, f.first, f.second) for f in whole.findings[: len(found)]]
    assert whole.completed and not first.completed and first.instructions < whole.instructions
    right, error = run(build("gemm.cpp"), first_finding=True)
    assert right.completed and right.findings == () and error < 1e-4


def test_missing_second_barrier_is_harmless_with_one_step(build):
    outcome, error = run(build("gemm.cpp", SECOND_BARRIER=0), k=32)
    assert outcome.findings == () and error < 1e-4


def test_adversarial_order_turns_the_race_into_wrong_numbers(build):
    path = build("gemm.cpp", SECOND_BARRIER=0)
    errors = [run(path, policy=Policy.ADVERSARIAL, seed=s, watch=False, poison=True)[1] for s in range(4)]
    assert max(errors) > 0.1


@pytest.mark.parametrize("macro", ["WHOLE_COLLECTIVE", "ALL_WAVES_LOAD"])
def test_incomplete_collective(build, macro):
    outcome, error = run(build("gemm.cpp", **{macro: 0}))
    assert Kind.UNINITIALISED_LDS in kinds(outcome)
    assert not error < 1


def test_two_waves_store_to_the_same_place(build):
    outcome, _ = run(build("gemm.cpp", ONE_OWNER=0))
    assert kinds(outcome) == {Kind.RACE}
    finding = outcome.findings[0]
    assert finding.buffer == "C"
    assert finding.first.access == finding.second.access == "writes"
    c = outcome.written[0].buffer
    assert outcome.unwritten(c)[0] == (128, 256)  # the right half of each row


def test_two_blocks_store_to_the_same_place(build):
    path = build("gemm.cpp", OWN_TILE=0)
    a = bf16(np.ones((64, 32)))
    b = bf16(np.ones((128, 32)))
    c = np.zeros((64, 128), dtype=np.float32)
    args = [Buffer(a), Buffer(b), Buffer(c, "C"), Scalar("i32", 128), Scalar("i32", 32)]
    for workers in (1, 2):
        outcome = launch(path, grid=(2, 1, 1), block=(256, 1, 1), args=args, watch=True, workers=workers)
        assert kinds(outcome) == {Kind.BLOCK_RACE}
        assert outcome.findings[0].buffer == "C"
    outcome = launch(build("gemm.cpp"), grid=(2, 1, 1), block=(256, 1, 1), args=args, watch=True, workers=2)
    assert outcome.findings == () and outcome.unwritten(args[2]) == []
    assert (c == 32).all()


def test_uninitialised_accumulator(build):
    outcome, error = run(build("gemm.cpp", ZERO=0))
    assert Kind.UNINITIALISED_REGISTER in kinds(outcome)
    assert all("mfma" in f.first.text for f in outcome.findings)
    assert not error < 1


def test_waves_that_meet_different_numbers_of_barriers(build):
    outcome, _ = run(build("gemm.cpp", SAME_BARRIERS=0))
    assert kinds(outcome) == {Kind.BARRIER_COUNT}
    finding = outcome.findings[0]
    assert finding.first.wave == 3 and finding.first.text == "s_barrier"
    assert outcome.barriers == (6, 6, 6, 7)


@pytest.mark.parametrize("kernel", ["from_global", "from_lds"])
def test_missing_wait(build, kernel):
    data = np.arange(64, dtype=np.float32)

    def go(wait: int, **options) -> tuple[Outcome, np.ndarray]:
        out = np.zeros(64, dtype=np.float32)
        args = [Buffer(data), Buffer(out)]
        path = build("waits.cpp", WAIT=wait)
        return launch(path, kernel=kernel, grid=(1, 1, 1), block=(64, 1, 1), args=args, **options), out

    outcome, out = go(0, watch=True)
    assert kinds(outcome) == {Kind.READ_BEFORE_WAIT}
    assert "v_add_f32" in outcome.findings[0].first.text
    assert (out == data + 1).all()  # without poison the value is there at once
    assert np.isnan(go(0, poison=True)[1]).all()
    outcome, out = go(1, watch=True, poison=True)
    assert outcome.findings == () and (out == data + 1).all()


def test_direct_to_lds_load_is_complete_at_vmcnt(build):
    data = np.arange(128, dtype=np.float32)

    def go(wait: int, **options) -> tuple[Outcome, np.ndarray]:
        out = np.zeros(128, dtype=np.float32)
        args = [Buffer(data), Buffer(out)]
        path = build("waits.cpp", WAIT=wait)
        return launch(path, kernel="direct", grid=(1, 1, 1), block=(128, 1, 1), args=args, **options), out

    outcome, out = go(1, watch=True, poison=True)
    assert outcome.findings == () and (out == data[::-1]).all()
    outcome, _ = go(0, watch=True)
    assert Kind.RACE in kinds(outcome)
    assert any(f.second.done is None or f.second.done > f.second.epoch for f in outcome.findings if f.kind is Kind.RACE)


UNALIGNED = {
    "global_load_dword v20, v2, s[8:9] offset:2": True,
    "global_load_dwordx4 v[20:23], v2, s[8:9] offset:4": False,
    "global_load_ushort v20, v2, s[8:9] offset:2": False,
    "global_load_ushort v20, v2, s[8:9] offset:1": True,
    "global_atomic_add_x2 v2, v[4:5], s[10:11] offset:4": True,
    "global_atomic_add v2, v4, s[10:11] offset:4": False,
    "ds_read_b64 v[20:21], v2 offset:6": True,
    "ds_read_b64 v[20:21], v2 offset:4": False,
    "ds_add_u64 v2, v[4:5] offset:4": True,
    "flat_load_dword v20, v[6:7] offset:1": True,
    "s_load_dword s20, s[12:13], 0x0": True,
    "s_load_dwordx4 s[20:23], s[8:9], 0x4": False,
}


@pytest.mark.parametrize("text", UNALIGNED)
def test_alignment(assemble, text):
    body = f"""
  v_mov_b32 v2, 0
  v_mov_b32 v4, 1
  v_mov_b32 v5, 0
  v_mov_b32 v6, s8
  v_mov_b32 v7, s9
  s_add_u32 s12, s8, 2
  s_mov_b32 s13, s9
  v_mov_b32 v10, 0
  v_mov_b32 v11, 0
  ds_write_b64 v2, v[10:11]
  ds_write_b64 v2, v[10:11] offset:8
  s_waitcnt lgkmcnt(0)
  {text}
  s_waitcnt vmcnt(0) lgkmcnt(0)
"""
    words = np.zeros(64, dtype=np.uint32)
    outcome = frame.run_body(assemble, body, words, words.copy(), lds=64, watch=True)
    assert outcome.completed
    assert (Kind.MISALIGNED in kinds(outcome)) is UNALIGNED[text]
    assert kinds(outcome) <= {Kind.MISALIGNED}


@pytest.mark.parametrize("policy", list(Policy))
def test_deadlock(build, policy):
    data, out = np.ones(64, dtype=np.float32), np.zeros(64, dtype=np.float32)
    options = {
        "grid": (1, 1, 1),
        "block": (128, 1, 1),
        "args": [Buffer(data), Buffer(out)],
        "policy": policy,
        "watch": True,
    }
    outcome = launch(build("roles.cpp"), budget=300_000, **options)
    assert not outcome.completed
    assert Kind.DEADLOCK in kinds(outcome)
    deadlock = next(f for f in outcome.findings if f.kind is Kind.DEADLOCK)
    assert (deadlock.first.wave, deadlock.second.wave) == (1, 0)
    # A flag lets it end, but orders nothing that the barrier calculus knows.
    outcome = launch(build("roles.cpp", PUBLISH=1), budget=300_000, **options)
    assert outcome.completed and kinds(outcome) == {Kind.RACE}
    outcome = launch(build("roles.cpp", BARRIER=1), budget=300_000, **options)
    assert outcome.completed and outcome.findings == () and (out == 1).all()


@pytest.mark.parametrize(
    ("second", "found"), [("ds_read_b32 v20, v2", True), ("global_load_dword v20, v1, s[8:9]", False)]
)
def test_two_loads_on_their_way_into_one_register(assemble, second, found):
    """One queue returns in order, two have none: which of the loads is last is chance."""
    body = f"""
  v_mov_b32 v2, 0
  ds_write_b32 v2, v1
  s_waitcnt lgkmcnt(0)
  global_load_dword v20, v1, s[8:9]
  {second}
  s_waitcnt vmcnt(0) lgkmcnt(0)
  global_store_dword v1, v20, s[10:11]
"""
    words = np.zeros(64, dtype=np.uint32)
    outcome = frame.run_body(assemble, body.replace("v2, v1", "v2, v2", 1), words, words.copy(), lds=64, watch=True)
    assert outcome.completed
    assert kinds(outcome) == ({Kind.OVERWRITE_BEFORE_WAIT} if found else set())


BUFFER = "buffer_load_dword v{}, v2, s[12:15], 0 offen"
STORE = "buffer_store_dword v3, v2, s[16:19], 0 offen"


@pytest.mark.parametrize(
    ("loads", "last", "found"),
    [
        # 63 of vector memory are all that the counter holds, 15 of LDS; with one more the oldest is back.
        ([BUFFER.format(20 + i) for i in range(63)], "v_mov_b32 v4, v20", True),
        ([BUFFER.format(20 + i) for i in range(64)], "v_mov_b32 v4, v20", False),
        ([BUFFER.format(20), *[STORE] * 62], "v_mov_b32 v4, v20", True),
        ([BUFFER.format(20), *[STORE] * 63], "v_mov_b32 v4, v20", False),
        ([f"ds_read_b32 v{20 + i}, v2" for i in range(15)], "v_mov_b32 v4, v20", True),
        ([f"ds_read_b32 v{20 + i}, v2" for i in range(16)], "v_mov_b32 v4, v20", False),
        # The wave stalls before the access that finds no room reads its registers.
        ([BUFFER.format(20 + i) for i in range(62)], "buffer_load_dword v4, v20, s[12:15], 0 offen", True),
        ([BUFFER.format(20 + i) for i in range(63)], "buffer_load_dword v4, v20, s[12:15], 0 offen", False),
        # Flat accesses of LDS and scalar ones return in any order: that one is back says nothing of another. A flat
        # access of global memory is one of vector memory.
        ([BUFFER.format(20), *(f"flat_load_dword v{21 + i}, v[10:11]" for i in range(63))], "v_mov_b32 v4, v20", True),
        ([BUFFER.format(20), *(f"flat_load_dword v{21 + i}, v[8:9]" for i in range(63))], "v_mov_b32 v4, v20", False),
        (["s_load_dword s20, s[8:9], 0", *["ds_read_b32 v21, v2"] * 16], "s_mov_b32 s21, s20", True),
        ([f"s_load_dword s{40 + i}, s[8:9], 0" for i in range(17)], "s_mov_b32 s21, s40", True),
    ],
)
def test_a_full_counter_stalls_the_wave(assemble, loads, last, found):
    body = f"""
  v_mov_b32 v2, 0
  v_mov_b32 v3, 0
  ds_write_b32 v2, v2
  s_mov_b64 s[12:13], s[8:9]
  s_mov_b32 s14, 256
  s_mov_b32 s15, 0x20000
  s_mov_b64 s[16:17], s[10:11]
  s_mov_b64 s[18:19], s[14:15]
  v_mov_b32 v8, s8
  v_mov_b32 v9, s9
  s_mov_b64 s[22:23], src_shared_base
  v_mov_b32 v10, 0
  v_mov_b32 v11, s23
  s_waitcnt lgkmcnt(0)
  {chr(10).join(loads)}
  {last}
  s_waitcnt vmcnt(0) lgkmcnt(0)
"""
    words = np.zeros(64, dtype=np.uint32)
    outcome = frame.run_body(assemble, body, words, words.copy(), lds=64, watch=True, poison=True)
    assert outcome.completed
    assert kinds(outcome) - {Kind.LANE_RACE} == ({Kind.READ_BEFORE_WAIT} if found else set())


GLOBAL, SHARED = "v[4:5]", "v[6:7]"  # addresses; in `both` lane 0 has one of LDS, the others have global ones
FLAT_WAITS = {
    ("flat_load_dword v20, {}", GLOBAL): {"vmcnt(0)"},
    ("flat_load_dword v20, {}", SHARED): {"lgkmcnt(0)"},
    ("flat_load_dword v20, {}", "both"): {"vmcnt(0) lgkmcnt(0)"},
    ("flat_atomic_add v20, {}, v10 sc0", GLOBAL): {"vmcnt(0)"},
    ("flat_atomic_add v20, {}, v10 sc0", SHARED): {"lgkmcnt(0)"},
    ("flat_load_dword v20, {}\n  global_load_dword v21, v[4:5], off", GLOBAL): {"vmcnt(1)", "vmcnt(0)"},
    ("flat_load_dword v20, {}\n  ds_read_b32 v21, v1", SHARED): {"lgkmcnt(0)"},
}


@pytest.mark.parametrize("poison", [False, True])
@pytest.mark.parametrize("accesses", FLAT_WAITS)
def test_a_flat_access_is_complete_by_the_way_of_its_address(assemble, accesses, poison):
    """It counts in vmcnt and lgkmcnt, and which of them says that it is back is decided by the address of the run."""
    text, address = accesses
    enough = FLAT_WAITS[accesses] | {"vmcnt(0) lgkmcnt(0)"}
    for wait in ("", "vmcnt(0)", "lgkmcnt(0)", "vmcnt(1)", "lgkmcnt(1)", "vmcnt(0) lgkmcnt(0)"):
        body = f"""
  v_mov_b32 v10, 0
  v_mov_b32 v2, s11
  v_add_co_u32 v4, vcc, s10, v1
  s_nop 1
  v_addc_co_u32 v5, vcc, 0, v2, vcc
  s_mov_b64 s[22:23], src_shared_base
  v_mov_b32 v6, v1
  v_mov_b32 v7, s23
  ds_write_b32 v1, v1
  v_mov_b32 v8, v4
  v_mov_b32 v9, v5
  s_mov_b64 exec, 1
  v_mov_b32 v8, v6
  v_mov_b32 v9, v7
  s_mov_b64 exec, -1
  s_waitcnt lgkmcnt(0)
  {text.format("v[8:9]" if address == "both" else address)}
  {"s_waitcnt " + wait if wait else ""}
  v_mov_b32 v12, v20
  s_waitcnt vmcnt(0) lgkmcnt(0)
"""
        words = np.zeros(64, dtype=np.uint32)
        outcome = frame.run_body(assemble, body, words, words.copy(), lds=512, watch=True, poison=poison)
        assert outcome.completed
        assert kinds(outcome) == (set() if wait in enough else {Kind.READ_BEFORE_WAIT}), wait


@pytest.mark.parametrize("poison", [False, True])
@pytest.mark.parametrize("policy", list(Policy))
def test_global_memory_of_a_block_is_served_in_order_of_issue(assemble, policy, poison):
    """Stores that nobody waited for are seen after the barrier, and loads before it see what was there."""
    body = """
  v_lshlrev_b32 v2, 2, v0
  v_sub_u32 v3, 508, v2
  global_load_dword v20, v3, s[10:11]
  s_barrier
  global_store_dword v2, v0, s[10:11]
  s_barrier
  global_load_dword v21, v3, s[10:11]
  s_waitcnt vmcnt(0)
  v_add_u32 v21, v20, v21
  global_store_dword v2, v21, s[10:11] offset:512
"""
    out = np.full(256, 1000, dtype=np.uint32)
    options = {"threads": 128, "policy": policy, "watch": True, "poison": poison}
    outcome = frame.run_body(assemble, body, np.zeros(64, dtype=np.uint32), out, **options)
    assert outcome.completed and [str(f) for f in outcome.findings] == []
    assert (out[128:] == 1000 + np.arange(128)[::-1]).all()


def test_writes_of_the_same_value_are_said_to_be(assemble):
    body = "  v_mov_b32 v2, 7\n  global_store_dword v1, {} , s[10:11]\n"
    for value, same in (("v2", True), ("v3", False)):
        text = body.format(value) if same else "  v_mov_b32 v3, v0\n" + body.format(value)
        words = np.zeros(256, dtype=np.uint32)
        text = "  v_and_b32 v1, 252, v1\n" + text
        outcome = frame.run_body(assemble, text, words, words.copy(), threads=128, watch=True)
        assert [(f.kind, f.same_values) for f in outcome.findings] == [(Kind.RACE, same)]


PAGES = 41_200  # of a KiB, more than the referee keeps
WRITES = """
  s_mov_b32 s20, 0
  v_mov_b32 v6, v1
  v_mov_b32 v7, 0
.Lloop:
  global_store_dword v6, v7, s[10:11]
  v_add_u32 v6, 0x400, v6
{meet}
  s_add_i32 s20, s20, 1
  s_cmp_lt_u32 s20, {pages}
  s_cbranch_scc1 .Lloop
{after}
"""


@pytest.mark.parametrize(
    "meet, after, found",
    [
        ("  s_barrier", "", set()),
        ("", "", {Kind.WATCH_LIMIT}),
        ("  s_barrier", "  v_xor_b32 v1, 0x100, v6\n  global_store_dword v6, v7, s[10:11]\n"
         "  global_store_dword v1, v7, s[10:11]\n", {Kind.RACE}),
    ],
    ids=["behind barriers", "at once", "and a race after them"],
)  # fmt: skip
def test_memory_behind_a_barrier_is_put_away(assemble, meet, after, found):
    code = assemble(frame.kernel(WRITES.format(meet=meet, after=after, pages=PAGES), threads=128))
    args = [Buffer(np.zeros(1, np.uint32)), Buffer(np.zeros(1024 * (PAGES + 1), np.uint8))]
    outcome = launch(code, grid=(1, 1, 1), block=(128, 1, 1), args=args, watch=True)
    assert kinds(outcome) == found
    assert outcome.completed is (Kind.WATCH_LIMIT not in found)


def test_blocks_that_write_what_another_put_away_race(assemble):
    code = assemble(frame.kernel(WRITES.format(meet="  s_barrier", after="", pages=PAGES), threads=128))
    args = [Buffer(np.zeros(1, np.uint32)), Buffer(np.zeros(1024 * (PAGES + 1), np.uint8))]
    outcome = launch(code, grid=(2, 1, 1), block=(128, 1, 1), args=args, watch=True)
    assert kinds(outcome) == {Kind.BLOCK_RACE}
