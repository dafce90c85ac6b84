"""Hostile and broken kernels touch nothing outside of the given buffers, end, and crash nothing."""

from __future__ import annotations

import dataclasses
import random
import struct

import numpy as np
import pytest

from tests.emulate import frame
from tkgen.emulate import Buffer, Bytes, CodeObject, EmulateError, Kind, Policy, launch, load

WORDS = np.arange(512, dtype=np.uint32)


def run(assemble, body: str, **options):
    out = np.zeros(1024, dtype=np.uint32)
    options = {"lds": 1024, "scratch": 64, "watch": True, "budget": 20_000} | options
    return frame.run_body(assemble, body, WORDS, out, **options), out


def kinds(outcome) -> set[Kind]:
    return {f.kind for f in outcome.findings}


@pytest.mark.parametrize(
    "address", [0, 8, 0x7FFFFFFFFFFF, 0xFFFFFFFFFFFFFFF8, 0x1000_0000_0000 - 4, 1 << 63, 0xFFFFFFFFFFFFFFFF]
)
def test_wild_pointers(assemble, address):
    body = f"""
  v_mov_b32 v4, 0x{address & 0xFFFFFFFF:x}
  v_mov_b32 v5, 0x{address >> 32:x}
  global_load_dwordx4 v[20:23], v[4:5], off
  flat_load_dword v24, v[4:5]
  global_store_dwordx4 v[4:5], v[20:23], off
  flat_store_dword v[4:5], v24
  global_atomic_add v[4:5], v24, off
  s_mov_b32 s20, 0x{address & 0xFFFFFFFF:x}
  s_mov_b32 s21, 0x{address >> 32:x}
  s_load_dwordx16 s[40:55], s[20:21], 0x0
  s_mov_b32 s22, -1
  s_mov_b32 s23, 0x00020000
  buffer_load_dwordx4 v[20:23], v1, s[20:23], 0 offen
  buffer_store_dwordx4 v[20:23], v1, s[20:23], 0 offen
  s_waitcnt vmcnt(0) lgkmcnt(0)
"""
    outcome, out = run(assemble, body)
    assert Kind.GLOBAL_OUT_OF_BOUNDS in kinds(outcome)
    assert (out == 0).all()


def test_neighbouring_buffers_are_apart(assemble):
    """Running past one buffer never reaches the next."""
    body = """
  v_mov_b32 v10, -1
  s_mov_b32 s20, 0
.Lloop:
  global_store_dword v1, v10, s[8:9] offset:2044
  s_add_u32 s8, s8, 0x10000
  s_addc_u32 s9, s9, 0
  s_add_u32 s20, s20, 1
  s_cmp_lt_u32 s20, 15
  s_cbranch_scc1 .Lloop
"""
    outcome, out = run(assemble, body)
    assert Kind.GLOBAL_OUT_OF_BOUNDS in kinds(outcome)
    assert (out == 0).all()


@pytest.mark.parametrize("policy", list(Policy))
def test_endless_loop(assemble, policy):
    outcome, _ = run(assemble, ".Lloop:\n  s_branch .Lloop\n", policy=policy)
    assert kinds(outcome) == {Kind.BUDGET} and not outcome.completed
    assert outcome.instructions == 20_000


@pytest.mark.parametrize(
    "text",
    [
        "v_mov_b32 v3, -1\n  ds_read_b128 v[20:23], v3 offset:65535",
        "v_mov_b32 v3, 0x7fffffff\n  ds_write_b128 v3, v[20:23] offset:65535",
        "v_mov_b32 v3, -8\n  ds_read2st64_b64 v[20:23], v3 offset0:255 offset1:0",
        "v_mov_b32 v3, -8\n  ds_wrxchg2_rtn_b64 v[20:23], v3, v[24:25], v[26:27] offset0:0 offset1:255",
        "v_mov_b32 v3, -8\n  ds_add_rtn_u64 v[20:21], v3, v[24:25]",
        "s_mov_b32 m0, -1\n  global_load_lds_dword v1, s[8:9]",
        "s_mov_b32 m0, 1020\n  global_load_lds_dword v1, s[8:9]",
        "s_mov_b32 m0, -1\n  ds_append v20",
        "s_mov_b32 m0, -1\n  ds_write_addtid_b32 v20",
    ],
)
def test_giant_lds_offsets(assemble, text):
    outcome, _ = run(assemble, f"  v_mov_b32 v20, 0\n  {text}\n  s_waitcnt vmcnt(0) lgkmcnt(0)\n")
    assert Kind.LDS_OUT_OF_BOUNDS in kinds(outcome)


@pytest.mark.parametrize(
    "text",
    [
        "s_mov_b64 s[20:21], 0\n  s_setpc_b64 s[20:21]",
        "s_mov_b64 s[20:21], -1\n  s_setpc_b64 s[20:21]",
        "s_getpc_b64 s[20:21]\n  s_add_u32 s20, s20, 2\n  s_setpc_b64 s[20:21]",
        "s_getpc_b64 s[20:21]\n  s_add_u32 s20, s20, 0x100000\n  s_swappc_b64 s[22:23], s[20:21]",
        "s_branch 32767",
        "s_branch -32768",
        "s_call_b64 s[20:21], 30000",
    ],
)
def test_jumps_out_of_the_code(assemble, text):
    outcome, _ = run(assemble, f"  {text}\n")
    assert kinds(outcome) == {Kind.BAD_JUMP} and not outcome.completed


def test_falling_off_the_end(assemble):
    path = assemble(frame.kernel("  s_nop 0\n"))
    code = load(path)
    start, size = code.text
    image = bytearray(code.image)
    image[start : start + size] = struct.pack("<I", 0xBF800000) * (size // 4)  # nothing but s_nop
    broken = dataclasses.replace(code, image=bytes(image))
    outcome = launch(broken, grid=(1, 1, 1), block=(64, 1, 1), args=[Buffer(WORDS.copy()), Buffer(WORDS.copy())])
    assert kinds(outcome) == {Kind.BAD_JUMP}


def test_code_cannot_be_modified(assemble):
    body = """
  s_getpc_b64 s[20:21]
  v_mov_b32 v10, 0
  global_store_dword v1, v10, s[20:21]
  flat_store_dword v[4:5], v10
  s_waitcnt vmcnt(0) lgkmcnt(0)
  global_load_dword v11, v1, s[20:21]
  s_waitcnt vmcnt(0)
  global_store_dword v1, v11, s[10:11]
"""
    outcome, out = run(assemble, body)
    assert Kind.READ_ONLY_WRITE in kinds(outcome)
    assert outcome.completed and out[0] != 0  # reading code is allowed, and it is still there


@pytest.mark.parametrize(
    "text",
    [
        "s_mov_b32 m0, 0x7fffffff\n  s_nop 0\n  s_movrels_b32 s20, s0",
        "s_mov_b32 m0, 120\n  s_nop 0\n  s_movreld_b64 s[20:21], s[0:1]",
        "s_mov_b32 s20, 200\n  s_set_gpr_idx_on s20, 1\n  v_mov_b32 v3, v100",
        "s_mov_b32 s20, 200\n  s_set_gpr_idx_on s20, 8\n  v_mov_b32 v100, v3",
    ],
)
def test_registers_that_do_not_exist(assemble, text):
    outcome, _ = run(assemble, f"  {text}\n")
    assert kinds(outcome) == {Kind.ILLEGAL_OPERAND}


def patched(assemble, words: list[int]) -> CodeObject:
    """A kernel whose code is these words."""
    code = load(assemble(frame.kernel("  s_nop 0\n" * 400, lds=1024, scratch=64, threads=128)))
    start = code.kernel().entry
    image = bytearray(code.image)
    image[start : start + 4 * len(words)] = struct.pack(f"<{len(words)}I", *words)
    return dataclasses.replace(code, image=bytes(image))


@pytest.mark.parametrize(
    "words",
    [
        [0xD2800000 | 0xFF, 0x1FF | 0x1FF << 9],  # v_add_f64 v[255:256]
        [0xD3E00000 | 0xF8, 0x1FFFFFFF & ~0x1C000000],  # a matrix instruction that runs past v255
        [0xC0100000 | 127 << 6, 0],  # s_load_dwordx16 into s127..
        [0x7E0202D5],  # an operand code that names nothing
        [0xD0410000 | 200, 0x100 | 0x101 << 9],  # v_cmp_lt_f32_e64 into a constant
        [0xD2890000 | 250, 0x100 | 0x80 << 9],  # v_readlane_b32 into a constant
        [0x7E000500 | 200 << 17],  # v_readfirstlane_b32 into a constant
        [0x7E00A200 | 4 << 17 | 5],  # v_swap_b32 with a scalar register
    ],
)
def test_encodings_with_operands_past_the_end(assemble, words):
    args = [Buffer(WORDS.copy()), Buffer(WORDS.copy())]
    for watch in (False, True):
        outcome = launch(patched(assemble, words), grid=(1, 1, 1), block=(64, 1, 1), args=args, watch=watch)
        assert outcome.findings[-1].kind in (Kind.ILLEGAL_OPERAND, Kind.UNKNOWN_INSTRUCTION)
        assert outcome.findings[-1].fatal


def test_unknown_instruction_is_named(assemble):
    outcome = launch(
        patched(assemble, [0xBF800000, 0x7E0000FF | 0xFE << 9]),
        grid=(1, 1, 1),
        block=(64, 1, 1),
        args=[Buffer(WORDS.copy())] * 2,
    )
    (finding,) = outcome.findings
    assert finding.kind is Kind.UNKNOWN_INSTRUCTION and not outcome.completed
    assert finding.first.address == outcome.kernel.entry + 4
    assert "0x7e01fcff" in finding.message and f"0x{finding.first.address:x}" in finding.message


@pytest.mark.parametrize(
    "text",
    ["s_atomic_inc s5, s[8:9], 0x10", "s_buffer_atomic_add s5, s[8:11], 0x4 glc", "s_store_dword s5, s[8:9], 0x0"],
)
def test_scalar_memory_that_is_not_executed_is_refused_by_name(assemble, text):
    outcome = frame.run_body(assemble, f"  {text}\n  s_waitcnt lgkmcnt(0)\n", WORDS.copy(), WORDS.copy())
    (finding,) = outcome.findings
    assert finding.kind is Kind.UNKNOWN_INSTRUCTION and not outcome.completed
    assert f"the emulator does not know `{text.split()[0]}" in finding.message


PREFIXES = [
    (0xBE800000, 9),
    (0xBF000000, 9),
    (0xBF800000, 9),
    (0xB0000000, 4),
    (0x80000000, 2),
    (0x7C000000, 7),
    (0x7E000000, 7),
    (0, 1),
    (0xD3800000, 9),
    (0xD0000000, 6),
    (0xC0000000, 6),
    (0xD8000000, 6),
    (0xDC000000, 6),
    (0xE0000000, 6),
    (0xE8000000, 6),
]


def random_program(seed: int, length: int = 120) -> list[int]:
    rng = random.Random(seed)
    words = []
    while len(words) < length:
        prefix, bits = rng.choice(PREFIXES)
        word = prefix | rng.getrandbits(32 - bits)
        if prefix == 0xBF800000 and word >> 16 & 127 in (1, 18, 13):  # rarely end or trap
            continue
        words += [word, rng.getrandbits(32)]
    return words


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 200), marks=pytest.mark.slow)])
def test_random_programs(assemble, target, seeds):
    """Most of these stop at an illegal operand; skipping over it, the rest gets its turn."""
    path = assemble(
        frame.kernel("  s_nop 0\n" * 400, target, lds=1024, scratch=64 if target != "gfx90a" else 0, threads=128),
        target,
    )
    base = load(path)
    start = base.kernel().entry
    for seed in seeds:
        words = random_program(seed)
        for _ in range(12):
            image = bytearray(base.image)
            image[start : start + 4 * len(words)] = struct.pack(f"<{len(words)}I", *words)
            code = dataclasses.replace(base, image=bytes(image))
            buffers = [Buffer(np.zeros(512, dtype=np.uint32)), Buffer(np.zeros(512, dtype=np.uint32))]
            options = {
                "watch": seed % 2 == 0,
                "poison": seed % 3 == 0,
                "policy": list(Policy)[seed % 4],
                "budget": 3000,
            }
            outcome = launch(code, grid=(1, 1, 1), block=(128, 1, 1), args=buffers, **options)
            fatal = [f for f in outcome.findings if f.fatal]
            index = (fatal[0].first.address - start) // 4 if fatal else len(words)
            if not 0 <= index < len(words):
                break
            words[index : index + 2] = [0xBF800000, 0xBF800000]


def test_memory_is_bounded(assemble):
    code = load(assemble(frame.kernel("  s_nop 0\n", lds=1024)))
    greedy = dataclasses.replace(code.kernels[0].descriptor, private_bytes=1 << 31)
    big = dataclasses.replace(code, kernels=(dataclasses.replace(code.kernels[0], descriptor=greedy),))
    args = [Buffer(WORDS.copy()), Buffer(WORDS.copy())]
    with pytest.raises(EmulateError, match="scratch"):
        launch(big, grid=(1, 1, 1), block=(64, 1, 1), args=args)
    with pytest.raises(EmulateError, match="LDS"):
        launch(code, grid=(1, 1, 1), block=(64, 1, 1), args=args, lds_bytes=1 << 20)
    with pytest.raises(EmulateError, match="threads"):
        launch(code, grid=(1, 1, 1), block=(2048, 1, 1), args=args)


def test_broken_files(assemble):
    data = assemble(frame.kernel("  s_nop 0\n")).read_bytes()
    for bad in (
        b"",
        b"\x7fELF",
        data[:100],
        data[:1000],
        b"MZ" + data[2:],
        b"CCOB1234",
        b"__CLANG_OFFLOAD_BUNDLE__" + b"\xff" * 40,
    ):
        with pytest.raises(EmulateError):
            load(bad).kernel()
    rng = random.Random(5)
    for _ in range(100):
        broken = bytearray(data)
        for _ in range(rng.randrange(1, 8)):
            broken[rng.randrange(len(broken) if rng.random() < 0.5 else 1200)] = rng.getrandbits(8)
        try:
            code = load(bytes(broken))
            args = [Buffer(WORDS.copy()), Buffer(WORDS.copy())]
            launch(code, grid=(1, 1, 1), block=(64, 1, 1), args=args, budget=1000)
            code.line(code.text[0])
        except EmulateError:
            pass


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_a_code_segment_that_holds_no_instruction(assemble, size):
    data = bytearray(assemble(frame.kernel("  s_nop 0\n")).read_bytes())
    table, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    (text,) = (at for at in range(table, table + 56 * count, 56) if struct.unpack_from("<II", data, at) == (1, 5))
    struct.pack_into("<Q", data, text + 40, size)
    with pytest.raises(EmulateError, match="outside of the code" if size else "holds no code"):
        launch(bytes(data), grid=(1, 1, 1), block=(64, 1, 1), args=[Buffer(WORDS.copy()), Buffer(WORDS.copy())])


def survives(data: bytes) -> None:
    """Loads, runs a little and shows what it found, or raises EmulateError."""
    try:
        code = load(data)
        kernel = code.kernels[0] if code.kernels else code.kernel()
        args = [Buffer(WORDS.copy()) if a.size == 8 else Bytes(bytes(a.size), 1) for a in kernel.explicit_arguments]
        outcome = launch(code, kernel=kernel.name, grid=(1, 1, 1), block=(64, 1, 1), args=args, budget=2000, watch=True)
        assert all(str(f) for f in outcome.findings)
        code.line(code.text[0])
    except EmulateError:
        pass


def test_strings_that_do_not_end(build):
    """Each section in turn is said to stand at the last byte of the file."""
    data = build("gemm.cpp").read_bytes() + b"x"
    table, entry = struct.unpack_from("<Q", data, 40)[0], 64
    for number in range(struct.unpack_from("<H", data, 60)[0]):
        broken = bytearray(data)
        struct.pack_into("<Q", broken, table + entry * number + 24, len(data) - 1)
        survives(bytes(broken))


@pytest.mark.parametrize("count", [60, pytest.param(1500, marks=pytest.mark.slow)])
def test_mutated_files(build, count):
    """Bytes, words and runs of a real code object changed: headers, tables, metadata, debug information, code."""
    data = build("gemm.cpp").read_bytes()
    extremes = [0, 1, 4096, 1 << 31, 1 << 32, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, len(data)]
    for seed in range(count):
        rng = random.Random(seed)
        broken = bytearray(data)
        for _ in range(rng.choice([1, 1, 2, 8, 32])):
            if len(broken) < 64:
                break
            at = rng.randrange(min(rng.choice([600, 4000, 1 << 30]), len(broken)))
            match rng.randrange(4):
                case 0:
                    broken[at] = rng.randrange(256)
                case 1:
                    struct.pack_into("<Q", broken, min(at // 8 * 8, len(broken) - 8), rng.choice(extremes))
                case 2:
                    start, length = rng.randrange(len(broken)), rng.randrange(1, 800)
                    broken[at : at + length] = broken[start : start + length]
                case 3:
                    del broken[max(at, 64) :]
        survives(bytes(broken))


def test_missing_file(tmp_path):
    with pytest.raises(EmulateError, match="cannot read"):
        load(tmp_path / "nothing.hsaco")
