"""LDS, global, flat, scratch, buffer and scalar memory instructions against numpy."""

from __future__ import annotations

import numpy as np
import pcode
import pytest

from tests.emulate import frame
from tkgen.emulate import Kind
from tkgen.emulate.decode import Encoding, mnemonics
from tkgen.targets import load_target

LANE = np.arange(64)
RNG = np.random.default_rng(20)
WORDS = RNG.integers(0, 1 << 32, (8, 64), dtype=np.uint32)  # row r, lane l at byte 256 r + 4 l

LOAD_ROWS = (
    "\n".join(f"  global_load_dword v{10 + r}, v1, s[8:9] offset:{256 * r}" for r in range(8))
    + "\n  s_waitcnt vmcnt(0)\n"
)


def store_rows(*registers: str) -> str:
    return "".join(f"  global_store_dword v1, {r}, s[10:11] offset:{256 * i}\n" for i, r in enumerate(registers))


def run(
    assemble, body: str, *results: str, target: str = "gfx942", inputs: np.ndarray = WORDS, **options
) -> np.ndarray:
    """The contents of `results`; the same if every access is delayed until it is waited for."""
    options = {"lds": 16384} | options
    outputs = []
    for checks in ({}, {"watch": True, "poison": True}):
        out = np.zeros((max(len(results), 16), 64), dtype=np.uint32)
        text = LOAD_ROWS + body + store_rows(*results)
        outcome = frame.run_body(assemble, text, inputs.copy(), out, target, **options, **checks)
        assert outcome.completed
        # Pages of LDS that a test reads without writing them first are not its point.
        assert [str(f) for f in outcome.findings if f.kind is not Kind.UNINITIALISED_LDS] == []
        outputs.append(out)
    np.testing.assert_array_equal(*outputs)
    return outputs[0]


def run_many(assemble, bodies: list[str], results: tuple[str, ...], inputs: np.ndarray) -> np.ndarray:
    """Several bodies in one kernel, each with eight rows of input and sixteen of output."""
    text = "".join(
        f"""{LOAD_ROWS}{body}{store_rows(*results)}
  s_add_u32 s8, s8, 2048
  s_addc_u32 s9, s9, 0
  s_add_u32 s10, s10, 4096
  s_addc_u32 s11, s11, 0
"""
        for body in bodies
    )
    out = np.zeros((len(bodies), 16, 64), dtype=np.uint32)
    outcome = frame.run_body(assemble, text, inputs, out, lds=16384)
    assert outcome.completed and [str(f) for f in outcome.findings] == []
    return out


def rows(bytes_per_lane: np.ndarray) -> np.ndarray:
    """[64, n] bytes -> [n / 4, 64] dwords."""
    return np.ascontiguousarray(bytes_per_lane).view(np.uint32).T


@pytest.mark.parametrize(("width", "registers"), [("b32", 1), ("b64", 2), ("b96", 3), ("b128", 4)])
def test_lds_wide(assemble, width, registers):
    data = f"v[10:{9 + registers}]" if registers > 1 else "v10"
    back = f"v[20:{19 + registers}]" if registers > 1 else "v20"
    body = f"""
  v_lshlrev_b32 v3, 2, v1
  ds_write_{width} v3, {data} offset:64
  s_waitcnt lgkmcnt(0)
  ds_read_{width} {back}, v3 offset:64
  v_sub_u32 v4, 1008, v3
  ds_read_b32 v30, v4 offset:64
  s_waitcnt lgkmcnt(0)
"""
    out = run(assemble, body, *(f"v{20 + i}" for i in range(registers)), "v30", lds=2048)
    np.testing.assert_array_equal(out[:registers], WORDS[:registers])
    np.testing.assert_array_equal(out[registers], WORDS[0][::-1])


def test_lds_narrow(assemble):
    body = """
  ds_write_b32 v1, v10
  ds_write_b8 v1, v11 offset:1
  ds_write_b16 v1, v12 offset:2
  ds_write_b32 v1, v10 offset:256
  ds_write_b8_d16_hi v1, v13 offset:256
  ds_write_b16_d16_hi v1, v14 offset:258
  v_mov_b32 v24, v15
  v_mov_b32 v25, v15
  v_mov_b32 v26, v15
  v_mov_b32 v27, v15
  s_waitcnt lgkmcnt(0)
  ds_read_b32 v20, v1
  ds_read_b32 v21, v1 offset:256
  ds_read_u8 v22, v1 offset:3
  ds_read_i8 v23, v1 offset:3
  ds_read_u8_d16 v24, v1
  ds_read_i8_d16_hi v25, v1
  ds_read_u16_d16 v26, v1 offset:2
  ds_read_u16_d16_hi v27, v1 offset:2
  ds_read_u16 v28, v1 offset:2
  ds_read_i16 v29, v1 offset:2
  s_waitcnt lgkmcnt(0)
"""
    out = run(assemble, body, *(f"v{n}" for n in range(20, 30)), lds=512)
    w = WORDS.astype(np.int64)
    first = w[0] & 0xFF | (w[1] & 0xFF) << 8 | (w[2] & 0xFFFF) << 16
    signed8 = (first >> 24) - (first >> 31 << 8)
    low8 = first & 0xFF
    want = [
        first,
        w[0] & 0xFF00 | w[3] >> 16 & 0xFF | (w[4] >> 16) << 16,
        first >> 24,
        signed8,
        w[5] & 0xFFFF0000 | low8,
        w[5] & 0xFFFF | ((low8 - (low8 >> 7 << 8)) & 0xFFFF) << 16,
        w[5] & 0xFFFF0000 | first >> 16,
        w[5] & 0xFFFF | (first >> 16) << 16,
        first >> 16,
        (first >> 16) - (first >> 31 << 16),
    ]
    for i, x in enumerate(want):
        np.testing.assert_array_equal(out[i], (x & 0xFFFFFFFF).astype(np.uint32), err_msg=str(i))


def test_lds_pairs(assemble):
    body = """
  ds_write2_b32 v1, v10, v11 offset0:0 offset1:64
  v_lshlrev_b32 v3, 1, v1
  ds_write2st64_b64 v3, v[12:13], v[14:15] offset0:2 offset1:4
  s_waitcnt lgkmcnt(0)
  ds_read2_b32 v[20:21], v1 offset0:64 offset1:0
  ds_read2st64_b32 v[22:23], v1 offset0:1 offset1:0
  ds_read2_b64 v[24:27], v3 offset0:128 offset1:129
  ds_read_b32 v28, v1 offset:1024
  s_waitcnt lgkmcnt(0)
"""
    out = run(assemble, body, *(f"v{n}" for n in range(20, 29)), lds=4096, inputs=WORDS)
    np.testing.assert_array_equal(out[:4], WORDS[[1, 0, 1, 0]])
    pairs = WORDS[2:6].T.reshape(64, 4)
    first, second = pairs[:, :2], pairs[:, 2:]
    flat = np.concatenate([first.reshape(-1), second.reshape(-1)])  # at 1024 and at 2048, eight bytes per lane
    inside = LANE < 63  # the last lane reads past what was written
    np.testing.assert_array_equal(out[7][inside], flat[2 * LANE + 3][inside])
    np.testing.assert_array_equal(out[4], flat[2 * LANE])
    np.testing.assert_array_equal(out[8], flat[LANE])


def f32(x: int) -> pcode.F:
    return pcode.F(32, pcode.float_of(x & 0xFFFFFFFF, 32))


def halves(add):
    return lambda o, d, c: add(o & 0xFFFF, d & 0xFFFF) | add(o >> 16, d >> 16) << 16


def add_half(a: int, b: int) -> int:
    return pcode.bits_of(pcode.rounded(pcode.float_of(a, 16) + pcode.float_of(b, 16), 16).value, 16)


def add_bfloat(a: int, b: int) -> int:
    return pcode.bfloat(pcode.rounded(pcode.float_of(a << 16, 32) + pcode.float_of(b << 16, 32), 32)).value & 0xFFFF


def signed(x: int, bits: int) -> int:
    return x - (1 << bits) if x >> (bits - 1) else x


def integer_atomics(bits: int) -> dict[str, object]:
    mask = (1 << bits) - 1
    return {
        "add": lambda o, d, c: (o + d) & mask,
        "sub": lambda o, d, c: (o - d) & mask,
        "inc": lambda o, d, c: 0 if o >= d else o + 1,
        "dec": lambda o, d, c: d if o == 0 or o > d else o - 1,
        "smin": lambda o, d, c: o if signed(o, bits) < signed(d, bits) else d,
        "smax": lambda o, d, c: o if signed(o, bits) > signed(d, bits) else d,
        "umin": lambda o, d, c: min(o, d),
        "umax": lambda o, d, c: max(o, d),
        "and": lambda o, d, c: o & d,
        "or": lambda o, d, c: o | d,
        "xor": lambda o, d, c: o ^ d,
        "swap": lambda o, d, c: d,
        "cmpswap": lambda o, d, c: d if o == c else o,
    }


FLOAT_ATOMICS = {
    "add_f32": lambda o, d, c: pcode.bits_of(pcode.binary("+", f32(o), f32(d)).value, 32),
    "pk_add_f16": halves(add_half),
    "pk_add_bf16": halves(add_bfloat),
}


def atomic_inputs(name: str) -> np.ndarray:
    inputs = WORDS.copy()
    if "f32" in name:
        inputs[:] = RNG.standard_normal((8, 64)).astype(np.float32).view(np.uint32)
    elif "f16" in name:
        kind = np.float16 if "bf16" not in name else np.float32
        values = RNG.standard_normal((8, 64, 2)).astype(kind)
        inputs[:] = (
            values.view(np.uint32)[..., 0]
            if kind is np.float16
            else (values.view(np.uint32) >> 16)[..., 0] | values.view(np.uint32)[..., 1] & 0xFFFF0000
        )
    if "cmp" in name:
        inputs[4:6, ::2] = inputs[0:2, ::2]  # half of the comparisons succeed
    return inputs


def check_atomic(name: str, bits: int, function, inputs: np.ndarray, old: np.ndarray, new: np.ndarray) -> None:
    def number(row: int, lane: int) -> int:
        return int(inputs[row, lane]) | (int(inputs[row + 1, lane]) << 32 if bits == 64 else 0)

    for lane in LANE:
        before = number(0, lane)
        got_old, got_new = (int(x[0, lane]) | (int(x[1, lane]) << 32 if bits == 64 else 0) for x in (old, new))
        assert got_old == before, name
        assert got_new == function(before, number(2, lane), number(4, lane)), (name, lane)


def memory_atomic(space: str, name: str, bits: int) -> str:
    """One atomic per lane at byte 2048 of the output; leaves the old value in v20, the new one in v22."""
    wide = bits == 64
    suffix, result, old, new = ("_x2", "v[20:21]", "v[10:11]", "v[22:23]") if wide else ("", "v20", "v10", "v22")
    compares = name == "cmpswap"
    data = "v[12:15]" if wide and compares else "v[12:13]" if wide or compares else "v12"
    instruction = {
        "global": f"global_atomic_{name}{suffix} {result}, v3, {data}, s[10:11] offset:2048 sc0",
        "flat": f"flat_atomic_{name}{suffix} {result}, v[4:5], {data} sc0",
        "buffer": f"buffer_atomic_{name}{suffix} {data}, v3, s[12:15], 0 offen offset:2048 sc0",
    }[space]
    return f"""
  v_lshlrev_b32 v3, {bits // 32 - 1}, v1
  s_mov_b64 s[12:13], s[10:11]
  s_mov_b32 s14, 0x10000
  s_mov_b32 s15, 0x00020000
  v_mov_b32 v5, s11
  v_add_co_u32 v4, vcc, s10, v3
  v_addc_co_u32 v5, vcc, 0, v5, vcc
  v_add_co_u32 v4, vcc, 0x800, v4
  v_addc_co_u32 v5, vcc, 0, v5, vcc
  global_store_dword{suffix.replace("_", "")} v3, {old}, s[10:11] offset:2048
  {"v_mov_b32 v13, v14" if compares and not wide else ""}
  s_waitcnt vmcnt(0)
  {instruction}
  s_waitcnt vmcnt(0) lgkmcnt(0)
  {"" if space != "buffer" else "v_mov_b32 v20, v12"}
  {"" if space != "buffer" else "v_mov_b32 v21, v13"}
  global_load_dword{suffix.replace("_", "")} {new}, v3, s[10:11] offset:2048
  s_waitcnt vmcnt(0)
"""


@pytest.mark.parametrize("space", ["global", "flat", "buffer"])
@pytest.mark.parametrize("bits", [32, 64])
def test_memory_atomics(assemble, space, bits):
    table = integer_atomics(bits) | (FLOAT_ATOMICS if bits == 32 else {})
    if space == "buffer":
        table.pop("pk_add_bf16", None)  # gfx950 only
    inputs = np.stack([atomic_inputs(name) for name in table])
    bodies = [memory_atomic(space, name, bits) for name in table]
    out = run_many(assemble, bodies, ("v20", "v21", "v22", "v23"), inputs)
    for i, (name, function) in enumerate(table.items()):
        check_atomic(f"{space} {name}", bits, function, inputs[i], out[i, 0:2], out[i, 2:4])


def lds_atomic(name: str, bits: int) -> str:
    """One atomic on LDS; operands as in memory_atomic."""

    def registers(first: int) -> str:
        return f"v[{first}:{first + 1}]" if bits == 64 else f"v{first}"

    a, b, out = registers(12), registers(14), registers(20)
    special = {
        "swap": f"ds_wrxchg_rtn_b{bits} {out}, v3, {a}",
        "cmpswap": f"ds_cmpst_rtn_b{bits} {out}, v3, {b}, {a}",
        "mskor": f"ds_mskor_rtn_b{bits} {out}, v3, {a}, {b}",
    }
    if name in FLOAT_ATOMICS:
        text = f"ds_{name.replace('add_', 'add_rtn_')} {out}, v3, {a}"
    elif name[1:] in ("min", "max"):
        text = f"ds_{name[1:]}_rtn_{'i' if name[0] == 's' else 'u'}{bits} {out}, v3, {a}"
    else:
        kind = "b" if name in ("and", "or", "xor") else "u"
        text = special.get(name, f"ds_{name}_rtn_{kind}{bits} {out}, v3, {a}")
    return f"""
  v_lshlrev_b32 v3, {bits // 32 - 1}, v1
  ds_write_b{bits} v3, {registers(10)}
  s_waitcnt lgkmcnt(0)
  {text}
  ds_read_b{bits} {registers(22)}, v3
  s_waitcnt lgkmcnt(0)
"""


@pytest.mark.parametrize("bits", [32, 64])
def test_lds_atomics(assemble, bits):
    mask = (1 << bits) - 1
    table = integer_atomics(bits) | (FLOAT_ATOMICS if bits == 32 else {})
    table |= {"rsub": lambda o, d, c: (d - o) & mask, "mskor": lambda o, d, c: (o & ~d) & mask | c}
    inputs = np.stack([atomic_inputs(name) for name in table])
    out = run_many(assemble, [lds_atomic(name, bits) for name in table], ("v20", "v21", "v22", "v23"), inputs)
    for i, (name, function) in enumerate(table.items()):
        check_atomic(name, bits, function, inputs[i], out[i, 0:2], out[i, 2:4])


def test_lanes_that_meet_at_one_address(assemble):
    """All lanes add to one counter: LDS, global, append."""
    body = """
  v_mov_b32 v3, 0
  v_mov_b32 v4, 1
  v_mov_b32 v22, 0
  ds_write_b32 v3, v3
  s_mov_b32 m0, 256
  ds_write_b32 v3, v3 offset:256
  s_waitcnt lgkmcnt(0)
  ds_add_u32 v3, v4
  ds_append v21
  s_mov_b64 exec, 0xff00
  ds_consume v22
  s_mov_b64 exec, -1
  ds_read_b32 v20, v3
  ds_read_b32 v23, v3 offset:256
  global_atomic_add v3, v4, s[10:11] offset:2048
  s_waitcnt vmcnt(0) lgkmcnt(0)
  global_load_dword v24, v3, s[10:11] offset:2048
  s_waitcnt vmcnt(0)
"""
    out = run(assemble, body, "v20", "v21", "v22", "v23", "v24", lds=1024)
    assert (out[0] == 64).all() and (out[1] == 0).all() and (out[3] == 56).all() and (out[4] == 64).all()
    assert (out[2, 8:16] == 64).all()


@pytest.mark.parametrize("space", ["global", "flat", "scratch", "buffer"])
def test_loads_and_stores(assemble, space):
    """Every width, at odd offsets, written in one way and read back in bytes."""
    body = """
  s_mov_b64 s[12:13], s[10:11]
  s_mov_b32 s14, 0x10000
  s_mov_b32 s15, 0x00020000
  v_lshlrev_b32 v3, 3, v1
  v_mov_b32 v5, s11
  v_add_co_u32 v4, vcc, s10, v3
  v_addc_co_u32 v5, vcc, 0, v5, vcc
"""
    if space == "scratch":
        body += "  v_mov_b32 v3, 0\n"

    def op(kind: str, data: str, offset: int) -> str:
        load = "load" in kind
        if space == "flat":
            return f"  flat_{kind} {f'{data}, v[4:5]' if load else f'v[4:5], {data}'} offset:{2048 + offset}\n"
        if space == "buffer":
            return f"  buffer_{kind} {data}, v3, s[12:15], 0 offen offset:{2048 + offset}\n"
        tail = f"s[10:11] offset:{2048 + offset}" if space == "global" else f"off offset:{offset}"
        return f"  {space}_{kind} {f'{data}, v3' if load else f'v3, {data}'}, {tail}\n"

    body += op("store_dwordx4", "v[10:13]", 0) + op("store_dwordx3", "v[10:12]", 16)
    body += "  s_waitcnt vmcnt(0) lgkmcnt(0)\n" if space == "flat" else ""
    body += op("store_byte", "v14", 1) + op("store_short", "v15", 2) + op("store_byte_d16_hi", "v14", 16)
    body += op("store_short_d16_hi", "v15", 18) + op("store_dword", "v16", 20) + op("store_dwordx2", "v[16:17]", 24)
    body += "  s_waitcnt vmcnt(0) lgkmcnt(0)\n  v_mov_b32 v28, v10\n  v_mov_b32 v29, v10\n"
    reads = [("load_dwordx4", "v[20:23]", 0), ("load_dwordx2", "v[24:25]", 16), ("load_dwordx3", "v[40:42]", 20)]
    reads += [
        ("load_ubyte", "v26", 1),
        ("load_sbyte", "v27", 1),
        ("load_short_d16", "v28", 2),
        ("load_short_d16_hi", "v29", 2),
    ]
    reads += [("load_ushort", "v30", 18), ("load_sshort", "v31", 18), ("load_dword", "v32", 28)]
    body += "".join(op(*r) for r in reads) + "  s_waitcnt vmcnt(0) lgkmcnt(0)\n"
    results = [f"v{n}" for n in (*range(20, 33), 40, 41, 42)]
    out = np.zeros((32 + 16, 64), dtype=np.uint32)
    outcome = frame.run_body(assemble, LOAD_ROWS + body + _late_stores(results), WORDS, out, scratch=64)
    assert outcome.completed and [str(f) for f in outcome.findings] == []
    out = out[-16:]
    w = WORDS.T  # [lane, row]
    memory = np.zeros((64, 32), dtype=np.uint8)
    memory[:, 0:16] = np.ascontiguousarray(w[:, 0:4]).view(np.uint8)
    memory[:, 16:28] = np.ascontiguousarray(w[:, 0:3]).view(np.uint8)
    memory[:, 1] = w[:, 4] & 255
    memory[:, 2:4] = np.ascontiguousarray(w[:, 5] & 0xFFFF).astype(np.uint16).view(np.uint8).reshape(64, 2)
    memory[:, 16] = w[:, 4] >> 16 & 255
    memory[:, 18:20] = np.ascontiguousarray(w[:, 5] >> 16).astype(np.uint16).view(np.uint8).reshape(64, 2)
    memory[:, 20:24] = np.ascontiguousarray(w[:, 6]).view(np.uint8).reshape(64, 4)
    memory[:, 24:32] = np.ascontiguousarray(w[:, 6:8]).view(np.uint8)

    def word(at: int) -> np.ndarray:
        return np.ascontiguousarray(memory[:, at : at + 4]).view(np.uint32)[:, 0]

    byte, short = (
        memory[:, 1].astype(np.int64),
        np.ascontiguousarray(memory[:, 2:4]).view(np.uint16)[:, 0].astype(np.int64),
    )
    upper = np.ascontiguousarray(memory[:, 18:20]).view(np.uint16)[:, 0].astype(np.int64)
    old = w[:, 0].astype(np.int64)
    want = [
        word(0),
        word(4),
        word(8),
        word(12),
        word(16),
        word(20),
        byte,
        byte - (byte >> 7 << 8),
        old & 0xFFFF0000 | short,
    ]
    want += [old & 0xFFFF | short << 16, upper, upper - (upper >> 15 << 16), word(28), word(20), word(24), word(28)]
    for i, x in enumerate(want):
        np.testing.assert_array_equal(
            out[i], (np.asarray(x, dtype=np.int64) & 0xFFFFFFFF).astype(np.uint32), err_msg=f"{space} {results[i]}"
        )


def _late_stores(results: list[str]) -> str:
    """Stores to the last sixteen rows of a buffer of 48."""
    head = f"  s_add_u32 s10, s10, {32 * 256}\n  s_addc_u32 s11, s11, 0\n"
    return head + "".join(
        f"  global_store_dword v1, {r}, s[10:11] offset:{256 * (i % 8)}\n"
        + ("  s_add_u32 s10, s10, 2048\n  s_addc_u32 s11, s11, 0\n" if i == 7 else "")
        for i, r in enumerate(results)
    )


def test_flat_reaches_lds_and_scratch_through_apertures(assemble):
    body = """
  s_mov_b64 s[12:13], src_shared_base
  s_mov_b64 s[14:15], src_private_base
  v_mov_b32 v5, s13
  v_mov_b32 v4, v1
  flat_store_dword v[4:5], v10
  v_mov_b32 v7, s15
  v_mov_b32 v6, 8
  flat_store_dword v[6:7], v11
  s_waitcnt vmcnt(0) lgkmcnt(0)
  ds_read_b32 v20, v1
  scratch_load_dword v21, off, off offset:8
  flat_load_dword v22, v[4:5]
  flat_load_dword v23, v[6:7]
  s_waitcnt vmcnt(0) lgkmcnt(0)
"""
    out = run(assemble, body, "v20", "v21", "v22", "v23", scratch=32)
    np.testing.assert_array_equal(out[:4], WORDS[[0, 1, 0, 1]])


def test_buffer_bounds(assemble):
    """Out of range reads give zero and writes are dropped; of a wide access each dword counts."""
    body = """
  s_mov_b64 s[12:13], s[8:9]
  s_mov_b32 s14, 200
  s_mov_b32 s15, 0x00020000
  v_lshlrev_b32 v3, 2, v1
  buffer_load_dwordx4 v[20:23], v3, s[12:15], 0 offen offset:4
  buffer_load_ushort v24, v1, s[12:15], 0 offen
  s_mov_b32 s20, 100
  buffer_load_dword v25, v1, s[12:15], s20 offen
  s_mov_b64 s[12:13], s[10:11]
  s_mov_b32 s14, 2148
  buffer_store_dword v10, v1, s[12:15], 0 offen offset:2048
  s_waitcnt vmcnt(0)
  global_load_dword v26, v1, s[10:11] offset:2048
  s_waitcnt vmcnt(0)
"""
    out = run(assemble, body, *(f"v{n}" for n in range(20, 27)))
    flat = WORDS.reshape(-1)
    for i in range(4):
        at = 16 * LANE + 4 + 4 * i
        np.testing.assert_array_equal(out[i], np.where(at + 4 <= 200, flat[np.minimum(at, 196) // 4], 0))
    np.testing.assert_array_equal(out[4], np.where(4 * LANE + 2 <= 200, WORDS[0] & 0xFFFF, 0))
    np.testing.assert_array_equal(out[5], np.where(4 * LANE + 4 <= 100, flat[LANE + 25], 0))
    np.testing.assert_array_equal(out[6], np.where(4 * LANE + 4 <= 100, WORDS[0], 0))


def test_structured_and_swizzled_buffers(assemble):
    """stride 16, index_stride 8: with IDXEN and a stride records count; ADD_TID_ENABLE alone swizzles, unchecked."""
    body = """
  s_mov_b32 s12, s8
  s_or_b32 s13, s9, 0x00100000
  s_mov_b32 s14, 40
  s_mov_b32 s15, 0x00020000
  v_mov_b32 v3, v0
  buffer_load_dword v20, v3, s[12:15], 0 idxen offset:8
  s_or_b32 s13, s13, 0x80000000
  buffer_load_dword v21, v3, s[12:15], 0 idxen offset:8
  s_mov_b32 s15, 0x00800000
  buffer_load_dword v22, off, s[12:15], 0 offset:8
  v_mov_b32 v4, 1
  buffer_load_dword v23, v4, s[12:15], 0 idxen offset:8
  s_and_b32 s13, s13, 0x7fffffff
  buffer_load_dword v24, off, s[12:15], 0 offset:8
  buffer_load_dword v25, v3, s[12:15], 0 idxen offset:8
  s_waitcnt vmcnt(0)
"""
    out = run(assemble, body, *(f"v{n}" for n in range(20, 26)))
    flat = WORDS.reshape(-1)
    linear = flat[(16 * LANE + 8) // 4]
    for row in (0, 1, 5):  # ADD_TID_ENABLE adds nothing where there is IDXEN and no swizzling
        np.testing.assert_array_equal(out[row], np.where(LANE < 40, linear, 0))
    for row, index in ((2, LANE), (3, LANE + 1)):
        np.testing.assert_array_equal(out[row], flat[((index // 8 * 16 + 8) * 8 + index % 8 * 4) // 4])
    np.testing.assert_array_equal(out[4], linear)


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_an_access_without_an_index_is_linear_whatever_the_descriptor_says(assemble, target):
    """A descriptor with a stride of 256 bytes and the swizzle bit, as kernels write to spread cache banks; no idxen."""
    body = """
  s_mov_b32 s12, s8
  s_or_b32 s13, s9, 0x81000000
  s_mov_b32 s14, 1024
  s_mov_b32 s15, 0x000a0000
  v_mul_u32_u24 v3, 12, v0
  v_add_u32 v3, 4, v3
  buffer_load_dword v20, v3, s[12:15], 0 offen
  buffer_load_dwordx2 v[22:23], v3, s[12:15], 0 offen offset:252
  s_mov_b32 s16, 512
  buffer_load_dword v21, off, s[12:15], s16 offset:508
  s_waitcnt vmcnt(0)
"""
    out = run(assemble, body, "v20", "v22", "v23", "v21", target=target)
    flat = WORDS.reshape(-1)
    for row, more in ((0, 0), (1, 252), (2, 256)):
        at = 12 * LANE + 4 + more
        np.testing.assert_array_equal(out[row], np.where(at + 4 <= 1024, flat[at // 4], 0))
    np.testing.assert_array_equal(out[3], np.full(64, flat[1020 // 4]))


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_direct_to_lds(assemble, target):
    """Lane l's value goes to M0 + offset + l * size; the destination ignores the vector address."""
    body = """
  v_sub_u32 v3, 252, v1
  s_mov_b32 m0, 512
  s_nop 0
  global_load_lds_dword v3, s[8:9] offset:0
  s_mov_b64 s[12:13], s[8:9]
  s_mov_b32 s14, 0x10000
  s_mov_b32 s15, 0x00020000
  s_mov_b32 m0, 1024
  s_nop 0
  buffer_load_dword v3, s[12:15], 0 offen offset:256 lds
  s_waitcnt vmcnt(0)
  ds_read_b32 v20, v1 offset:512
  ds_read_b32 v21, v1 offset:1280
  s_waitcnt lgkmcnt(0)
"""
    extra = ()
    if target == "gfx950":
        body += """
  v_lshlrev_b32 v4, 2, v1
  s_mov_b32 m0, 4096
  s_nop 0
  global_load_lds_dwordx4 v4, s[8:9]
  s_waitcnt vmcnt(0)
  ds_read_b128 v[22:25], v4 offset:4096
  s_waitcnt lgkmcnt(0)
"""
        extra = ("v22", "v23", "v24", "v25")
    out = run(assemble, body, "v20", "v21", *extra, target=target, lds=8192)
    np.testing.assert_array_equal(out[0], WORDS[0][::-1])
    np.testing.assert_array_equal(out[1], WORDS[1][::-1])
    if target == "gfx950":
        np.testing.assert_array_equal(out[2:6].T.reshape(-1), WORDS.reshape(-1)[:256])


def test_three_dwords_into_lds_leave_a_fourth_free(assemble):
    body = """
  v_lshlrev_b32 v4, 2, v1
  v_mov_b32 v20, 7
  v_mov_b32 v21, 7
  v_mov_b32 v22, 7
  v_mov_b32 v23, 7
  ds_write_b128 v4, v[20:23] offset:16
  s_waitcnt lgkmcnt(0)
  s_mov_b32 m0, 0xffd00010
  s_nop 0
  global_load_lds_dwordx3 v4, s[8:9]
  s_waitcnt vmcnt(0)
  ds_read_b128 v[20:23], v4 offset:16
  s_waitcnt lgkmcnt(0)
"""
    out = run(assemble, body, "v20", "v21", "v22", "v23", target="gfx950", lds=2048)
    np.testing.assert_array_equal(out[:3].T, WORDS.reshape(-1)[:256].reshape(64, 4)[:, :3])
    assert (out[3] == 7).all()


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_buffer_loads_that_do_not_go_to_lds(assemble, target):
    """The assembler has no such forms, and nothing says what the bit does in them."""
    numbers = {name: n for n, name in mnemonics(load_target(target).architecture)[Encoding.MUBUF].items()}
    wide = () if target == "gfx950" else ("dwordx3", "dwordx4")
    for name in ("short_d16", "ubyte_d16_hi", "dwordx2", *wide):
        word = 0b111000 << 26 | numbers[f"buffer_load_{name}"] << 18 | 1 << 16
        body = f"  .long 0x{word:08x}\n  .long 0x{20 << 8 | 3 << 16 | 128 << 24:08x}\n"
        outcome = frame.run_body(assemble, body, WORDS, WORDS.copy(), target, lds=4096)
        assert [f.kind for f in outcome.findings] == [Kind.ILLEGAL_OPERAND], name


@pytest.mark.parametrize(
    ("name", "bits"), [("ds_read_b64_tr_b16", 16), ("ds_read_b64_tr_b8", 8), ("ds_read_b64_tr_b4", 4)]
)
def test_transposing_reads(assemble, name, bits):
    """Sixteen lanes read a (64 / bits) x 16 tile, row by row; each receives a column."""
    body = f"""
  v_lshlrev_b32 v3, 1, v1
  ds_write_b64 v3, v[10:11]
  s_waitcnt lgkmcnt(0)
  {name} v[20:21], v3
  s_waitcnt lgkmcnt(0)
"""
    out = run(assemble, body, "v20", "v21", target="gfx950")
    raw = np.ascontiguousarray(WORDS[:2].T).view(np.uint8).reshape(4, 128)
    if bits == 4:
        elements = np.stack([raw & 15, raw >> 4], axis=-1).reshape(4, -1)
    else:
        elements = raw.view(np.uint16 if bits == 16 else np.uint8)
    columns = elements.reshape(4, -1, 16).transpose(0, 2, 1)
    want = np.ascontiguousarray(columns).astype(np.uint64)
    packed = (want << (np.arange(want.shape[2], dtype=np.uint64) * np.uint64(bits))).sum(axis=2).reshape(64)
    np.testing.assert_array_equal(out[0] | out[1].astype(np.uint64) << np.uint64(32), packed)


def test_scalar_loads(assemble):
    body = """
  s_load_dword s20, s[8:9], 0x104
  s_mov_b32 s40, 16
  s_load_dwordx2 s[22:23], s[8:9], s40
  s_load_dwordx16 s[48:63], s[8:9], 0x40
  s_mov_b64 s[12:13], s[8:9]
  s_mov_b32 s14, 20
  s_mov_b32 s15, 0x00020000
  s_buffer_load_dwordx4 s[24:27], s[12:15], 0x8
  s_waitcnt lgkmcnt(0)
  v_mov_b32 v20, s20
  v_mov_b32 v21, s23
  v_mov_b32 v22, s63
  v_mov_b32 v23, s25
  v_mov_b32 v24, s27
"""
    out = run(assemble, body, "v20", "v21", "v22", "v23", "v24")
    flat = WORDS.reshape(-1)
    assert [int(x[0]) for x in out[:5]] == [flat[65], flat[5], flat[31], flat[3], 0]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ds_read_b32 v20, v1 offset:1024", Kind.LDS_OUT_OF_BOUNDS),
        ("v_mov_b32 v3, -4\nds_write_b32 v3, v1", Kind.LDS_OUT_OF_BOUNDS),
        ("global_load_dword v20, v1, s[8:9] offset:4000", Kind.GLOBAL_OUT_OF_BOUNDS),
        ("global_store_dword v1, v10, s[0:1]", Kind.READ_ONLY_WRITE),
        ("scratch_load_dword v20, off, off offset:64", Kind.SCRATCH_OUT_OF_BOUNDS),
        ("v_add_u32 v3, 2, v1\nds_read_b32 v20, v3", Kind.MISALIGNED),
        ("v_add_u32 v3, 2, v1\nglobal_load_dword v20, v3, s[8:9]", Kind.MISALIGNED),
        ("v_lshlrev_b32 v3, 1, v1\nv_add_u32 v3, 4, v3\nds_add_u64 v3, v[10:11]", Kind.MISALIGNED),
        ("s_mov_b32 m0, 2\nds_append v20", Kind.MISALIGNED),
        ("v_lshlrev_b32 v3, 1, v1\nds_read_b64_tr_b8 v[20:21], v3 offset:4", Kind.MISALIGNED),
        ("v_lshlrev_b32 v3, 1, v1\nds_read_b96_tr_b6 v[20:22], v3", Kind.MISALIGNED),
    ],
)
def test_bad_addresses_are_findings(assemble, text, kind):
    out = np.zeros((8, 64), dtype=np.uint32)
    body = LOAD_ROWS + text + "\ns_waitcnt vmcnt(0) lgkmcnt(0)\n"
    target = "gfx950" if "_tr_b" in text else "gfx942"
    outcome = frame.run_body(assemble, body, WORDS, out, target, lds=1024, scratch=64)
    assert kind in {f.kind for f in outcome.findings}
    finding = next(f for f in outcome.findings if f.kind is kind)
    assert finding.first.text.split()[0] in text
    assert outcome.completed
