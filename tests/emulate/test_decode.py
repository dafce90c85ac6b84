"""The decoder against LLVM's disassembler, on compiled kernels and on every opcode number."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tkgen.emulate import EmulateError, load, native
from tkgen.emulate.decode import Encoding, decode
from tkgen.emulate.disassemble import disassemble

OBJDUMP = next(
    (p for n in ("llvm-objdump-22", "llvm-objdump-21", "llvm-objdump-20", "llvm-objdump") if (p := shutil.which(n))),
    None,
)
needs_objdump = pytest.mark.skipif(OBJDUMP is None, reason="no llvm-objdump to compare with: install llvm-22")


def by_llvm(path) -> dict[int, tuple[str, int]]:
    """Address -> mnemonic without its encoding suffix, and size."""
    text = subprocess.run([OBJDUMP, "-d", str(path)], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in text.splitlines():
        m = re.match(r"\s+(\S+).*// ([0-9A-F]{12}):((?: [0-9A-F]{8})+)", line)
        if m:
            found[int(m[2], 16)] = (re.sub(r"_(e32|e64|sdwa|dpp)$", "", m[1]), 4 * len(m[3].split()))
    return found


@needs_objdump
@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize("name", ["gemm.cpp", "arithmetic.cpp"])
def test_compiled_kernels(build, name, target):
    code = load(build(name, target))
    program = decode(code.code, target)
    theirs = by_llvm(build(name, target))
    assert len(theirs) > 100
    for i in program.starts():
        address = code.text[0] + 4 * i
        if address in theirs and not theirs[address][0].startswith("v_mfma"):
            assert (program.mnemonic(i), int(program.ops["size"][i])) == theirs[address]


def samples() -> list[list[int]]:
    """One instruction per opcode number of every encoding, with operands that exist."""
    out: list[list[int]] = []
    for n in range(256):
        out += [
            [0xBE800000 | 4 << 16 | n << 8 | 6],
            [0x7E000000 | 4 << 17 | n << 9 | 262],
            [0x7C000000 | n << 17 | 8 << 9 | 262],
        ]
        out += [
            [0xD8000000 | n << 17, 4 << 24 | 6 | 8 << 8 | 10 << 16],
            [0xD8000000 | n << 17, 4 << 24 | 6],
            [0xC0000000 | n << 18 | 1 << 17 | 8 << 6 | 2, 16],
        ]
    for n in range(128):
        out += [
            [0xBF000000 | n << 16 | 8 << 8 | 6],
            [0xBF800000 | n << 16 | 1],
            [0xE0000000 | n << 18 | 1 << 12, 6 | 8 << 8 | 2 << 16 | 4 << 24],
        ]
        out += [
            [0xD3800000 | n << 16 | 4 | 0x4000, 262 | 264 << 9 | 266 << 18 | 0x18000000],
            [0xD3800000 | n << 16 | 4, 288 | 320 << 9 | 260 << 18],
        ]
        for segment in (0, 1, 2):
            base = 0xDC000000 | n << 18 | segment << 14
            out += [
                [base, 4 << 24 | 6 | 8 << 8 | 127 << 16],
                [base, 6 | 8 << 8 | 127 << 16],
                [base, 4 << 24 | 6 | 127 << 16],
            ]
    for n in range(96):
        out.append([0x80000000 | n << 23 | 4 << 16 | 8 << 8 | 6])
    for n in range(32):
        out.append([0xB0000000 | n << 23 | 4 << 16 | 0x1234, *([0x11223344] if n == 20 else [])])
    for n in range(62):
        out.append([n << 25 | 4 << 17 | 8 << 9 | 262, *([0x3F800000] if n in (23, 24, 36, 37) else [])])
    for n in range(1024):
        for tail in (262 | 264 << 9 | 266 << 18, 262 | 264 << 9, 262 | 8 << 9):
            out.append([0xD0000000 | n << 16 | 4, tail])
        out.append([0xD0000000 | n << 16 | 4 | 6 << 8, 262 | 264 << 9 | 106 << 18])
    return out


# What no compiler emits for a kernel, or nothing here has needed: refused by name when executed.
NOT_IMPLEMENTED = re.compile(
    r"s_(buffer_)?(atomic|store|scratch|atc)|s_(cbranch_(g|i)_fork|cbranch_join|dcache_discard|rfe|sendmsg|setkill|setvskip|endpgm_)"
    r"|t?buffer_(load|store)_format|ds_(condxchg|gws)|v_screen_partition|v_trig_preop|v_m?qsad|v_cvt_scalef32|v_smfmac|v_mqsad"
)


@needs_objdump
@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_every_opcode(assemble, tmp_path, target):
    """Same name and size as LLVM's, and implemented unless listed above."""
    words = samples()
    filler = 0xBF800000
    slots = [(w + [filler] * 6)[:6] for w in words]
    text = ".text\n.globl k\nk:\n" + "\n".join(".long " + ",".join(map(hex, s)) for s in slots)
    path = assemble(text, target)
    theirs = by_llvm(path)
    base = min(theirs)
    implemented = set(native.operations())
    program = decode(b"".join(x.to_bytes(4, "little") for slot in slots for x in slot), target)
    checked = 0
    for i, w in enumerate(words):
        name, size = theirs.get(base + 24 * i, (".long", 0))
        if name == ".long":
            continue
        mine = program.mnemonic(6 * i)
        if target == "gfx90a" and name.startswith("v_mfma"):  # spelled without underscores, blocks implied
            name = mine
        assert (mine, int(program.ops["size"][6 * i])) == (name, size), hex(w[0])
        assert mine in implemented or NOT_IMPLEMENTED.match(mine), mine
        checked += 1
    assert checked > 2000


def test_odd_bytes():
    program = decode(b"\xff" * 7, "gfx942")
    assert len(program.ops) == 1 and program.ops["encoding"][0] == Encoding.UNKNOWN
    assert program.mnemonic(0) == "unknown UNKNOWN instruction 0xffffffff"
    assert decode(b"", "gfx942").starts() == []
    with pytest.raises(EmulateError, match="gfx90a, gfx942, gfx950"):
        decode(b"", "gfx1100")


def test_text_names_operands(build):
    code = load(build("gemm.cpp"))
    program = decode(code.code, code.target)
    lines = [disassemble(program, i) for i in program.starts()]
    assert any(
        re.fullmatch(r"v_mfma_f32_16x16x16_bf16 [va]\[\d+:\d+\], v\[\d+:\d+\], v\[\d+:\d+\], [va]\[\d+:\d+\]", x)
        for x in lines
    )
    assert any(re.fullmatch(r"s_waitcnt (vmcnt\(\d+\) ?)?(lgkmcnt\(\d+\))?", x) for x in lines)
    assert any(x.startswith("ds_read") for x in lines) and any(x.startswith("global_store_dword ") for x in lines)
