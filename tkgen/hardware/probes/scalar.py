"""Probes of the scalar ALU and of branches: their operands are in s[40:47], their results in s[30:31]."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tkgen.hardware.probes.probe import SCALAR, Probe
from tkgen.hardware.probes.vector import Operands, tables

_IMMEDIATES = ("0", "1", "0x7fff", "0x8000", "0xffff", "0x1234")


def probes(names: frozenset[str]) -> Iterator[Probe]:
    """Candidates for all of these mnemonics."""
    by_encoding = tables()
    for kind in ("SOP1", "SOP2", "SOPC", "SOPK"):
        for name, operands in sorted(by_encoding[kind].items()):
            if name in names and not re.match(r"s_(getpc|setpc|swappc|call|set_gpr|setreg|cbranch)", name):
                for text in _texts(kind, name, operands):
                    yield _probe(name, text)
    for name in ("s_cbranch_scc0", "s_cbranch_scc1", "s_cbranch_vccz", "s_cbranch_vccnz", "s_cbranch_execz",
                 "s_cbranch_execnz", "s_branch"):  # fmt: skip
        yield _probe(name, f"{name} 1f\ns_movk_i32 s30, 0x55\n1:")
    for name, register in (("s_load_dword", "s40"), ("s_load_dwordx2", "s[40:41]"), ("s_load_dwordx4", "s[40:43]")):
        yield _probe(name, f"{name} {register}, s[8:9], 0x4\ns_waitcnt lgkmcnt(0)\ns_mov_b64 s[30:31], s[40:41]")
    for name, register in (("s_load_dwordx8", "s[40:47]"), ("s_load_dwordx16", "s[56:71]")):
        first = "s[44:45]" if "x8" in name else "s[64:65]"
        yield _probe(name, f"{name} {register}, s[8:9], 0x0\ns_waitcnt lgkmcnt(0)\ns_mov_b64 s[30:31], {first}")

    yield from _buffer_loads()


def _buffer_loads() -> Iterator[Probe]:
    """Loads by a descriptor of the first 40 bytes of the probe's input: all dwords in range, a part, and none."""
    before = "s_mov_b32 s72, s8\ns_and_b32 s73, s9, 0xffff\ns_movk_i32 s74, 40\ns_mov_b32 s75, 0x27000"
    before += "\ns_movk_i32 s76, 8"
    for dwords in (1, 2, 4, 8, 16):
        name = f"s_buffer_load_dword{f'x{dwords}' if dwords > 1 else ''}"
        register = "s56" if dwords == 1 else f"s[56:{55 + dwords}]"
        last = dwords - 1 if dwords < 3 else dwords - 2  # of the dwords that the probe stores
        for place in ("0x0", "0x4", "s76", "0x20", "0x28"):
            if place == "0x28" and dwords > 1:
                continue
            text = f"{name} {register}, s[72:75], {place}\ns_waitcnt lgkmcnt(0)\n"
            yield _probe(name, f"{text}s_mov_b32 s30, s56\ns_mov_b32 s31, s{56 + last}", before)


def _probe(name: str, text: str, before: str = "") -> Probe:
    return Probe(name, text, SCALAR, (), (), "B64", before)


def _register(first: int, bits: int) -> str:
    return f"s[{first}:{first + 1}]" if bits == 64 else f"s{first}"


def _texts(kind: str, name: str, operands: Operands) -> Iterator[str]:
    result = [_register(30, operands["sdst"][1])] if "sdst" in operands else []
    if kind == "SOPK":
        if name == "s_getreg_b32":
            yield "s_getreg_b32 s30, hwreg(HW_REG_MODE, 0, 10)"
            return
        for immediate in _IMMEDIATES:
            yield f"{name} s30, {immediate}"
        return
    given = [_register(40 + 2 * n, operands[f][1]) for n, f in enumerate(("ssrc0", "ssrc1")) if f in operands]
    yield f"{name} {', '.join([*result, *given])}"
    for constant in ("-3", "0x12345678"):
        yield f"{name} {', '.join([*result, *given[:-1], constant])}"
