"""A kernel of probes: each loads its operands, executes, and stores what it wrote.

Every block has inputs and outputs of its own, rows of 64 dwords. Each probe begins with a row of state: VCC, EXEC, SCC,
M0 and s[30:31], as they are before the instruction. It ends with a row of the same after it. Probes are apart by
more wait states than any instruction needs, so that no hazard of the hardware touches them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tkgen.hardware import assembly
from tkgen.hardware.probes.probe import SCALAR, Probe

ROW: Final = 256  # bytes
STATE: Final = 8  # dwords: vcc, exec, scc, m0, s[30:31]
LDS_BYTES: Final = 4096
_REACH: Final = 4096 - ROW  # of the offset of a global access
KERNEL: Final = "probes"
DATA: Final = 8  # dwords of scalar operands: s[40:47]


def rows_in(probe: Probe) -> int:
    """Rows of input that a probe has: state, then registers of sources and outputs, then memory."""
    return 1 + len(loaded(probe)) + probe.rows


def rows_out(probe: Probe) -> int:
    """Rows of output: registers, state, memory."""
    return len(probe.outputs) + 1 + probe.rows


def loaded(probe: Probe) -> list[str]:
    """Registers that have a value before the instruction: sources, then old values of outputs."""
    sources = [f"v{r}" for source in probe.sources for r in source.registers]
    return list(dict.fromkeys([*sources, *(r for r in probe.outputs)]))


@dataclass
class _Cursor:
    """A pointer that walks through rows of memory."""

    low: int  # its first register
    lines: list[str]
    at: int = 0
    total: int = field(default=0)

    def row(self) -> int:
        """The offset of the next row from the pointer."""
        if self.at > _REACH:
            self.step()
        found, self.at, self.total = self.at, self.at + ROW, self.total + ROW
        return found

    def step(self) -> None:
        """Move the pointer to the next row."""
        if self.at:
            low, high = f"s{self.low}", f"s{self.low + 1}"
            self.lines += [f"s_add_u32 {low}, {low}, {self.at}", f"s_addc_u32 {high}, {high}, 0"]
            self.at = 0


def kernel(probes: Sequence[Probe], target: str) -> str:
    """The assembly of a kernel with two arguments: the inputs and the outputs of all blocks."""
    lines: list[str] = []
    source, stored = _Cursor(8, lines), _Cursor(10, lines)
    for probe in probes:
        _probe(probe, lines, source, stored)
    lds = LDS_BYTES if any(p.lds for p in probes) else 0
    scratch = 64 if any("scratch_" in p.text for p in probes) else 0
    body = _PROLOGUE.format(input=source.total, output=stored.total) + "\n".join(f"  {line}" for line in lines)
    return assembly.kernel(target, KERNEL, body, lds=lds, scratch=scratch)


def _probe(probe: Probe, lines: list[str], source: _Cursor, stored: _Cursor) -> None:
    source.step()
    stored.step()
    lines.append(f"s_load_dwordx8 s[16:23], s[8:9], {source.row()}")
    if probe.family == SCALAR:
        lines.append(f"s_load_dwordx8 s[40:47], s[8:9], {4 * STATE}")
    for register in loaded(probe):
        plain = "v31" if register[0] == "a" else register
        at = source.row()
        lines.append(f"global_load_dword {plain}, v1, s[8:9] offset:{at}")
        if register[0] == "a":
            lines += ["s_waitcnt vmcnt(0)", f"v_accvgpr_write_b32 {register}, v31", "s_nop 7"]
    places = [stored.row() for _ in range(len(probe.outputs) + 1)] if probe.rows else []
    if probe.rows:
        _memory(probe, lines, source, stored)
    lines += ["v_mov_b32 v30, 0", "s_waitcnt vmcnt(0) lgkmcnt(0)", "s_mov_b64 vcc, s[16:17]"]
    lines += ["s_mov_b64 s[30:31], s[22:23]", "s_mov_b32 m0, s21", *probe.before.splitlines()]
    lines += ["s_nop 15", "s_cmp_lg_u32 s20, 0", "s_mov_b64 exec, s[18:19]", "s_nop 15"]
    lines += probe.text.splitlines()
    lines += ["s_nop 15", "s_nop 15", "s_cselect_b32 s33, 1, 0", "s_mov_b64 s[34:35], exec", "s_mov_b64 exec, -1"]
    lines += ["s_waitcnt vmcnt(0) lgkmcnt(0)", "s_mov_b32 s36, m0", "s_nop 7"]
    for lane, register in enumerate(("vcc_lo", "vcc_hi", "s34", "s35", "s33", "s36", "s30", "s31")):
        lines.append(f"v_writelane_b32 v30, {register}, {lane}")
    for number, register in enumerate([*probe.outputs, "v30"]):
        at = places[number] if places else stored.row()
        if register[0] == "a":
            lines += [f"v_accvgpr_read_b32 v31, {register}", "s_nop 7"]
        lines.append(f"global_store_dword v1, {'v31' if register[0] == 'a' else register}, s[10:11] offset:{at}")
        if register[0] == "a":
            lines += ["s_waitcnt vmcnt(0)"]
    if probe.lds:
        for row in range(probe.rows):
            lines.append(f"ds_read_b32 v31, v1 offset:{ROW * row}")
            lines += [
                "s_waitcnt lgkmcnt(0)",
                f"global_store_dword v1, v31, s[10:11] offset:{places[-1] + ROW * (row + 1)}",
            ]
            lines.append("s_waitcnt vmcnt(0)")


def _memory(probe: Probe, lines: list[str], source: _Cursor, stored: _Cursor) -> None:
    """Fill the memory that the probe accesses; its address is then in v[4:5], s[48:49] and s[52:55], 0 in LDS.

    v2 is 16 times the number of the lane, and v[4:5] so far into the memory.
    """
    first = 0
    for row in range(probe.rows):
        lines.append(f"global_load_dword v31, v1, s[8:9] offset:{source.row()}")
        at = stored.row()
        first = first if row else at
        put = (
            f"ds_write_b32 v1, v31 offset:{ROW * row}"
            if probe.lds
            else f"global_store_dword v1, v31, s[10:11] offset:{at}"
        )
        lines += ["s_waitcnt vmcnt(0)", put, "s_waitcnt vmcnt(0) lgkmcnt(0)"]
    if first + ROW * probe.rows > _REACH + ROW:
        raise ValueError(f"{probe.name} has too much memory")
    lines += ["v_lshlrev_b32 v2, 2, v1", f"s_add_u32 s48, s10, {first}", "s_addc_u32 s49, s11, 0"]
    lines += ["v_mov_b32 v5, s49", "v_add_co_u32 v4, vcc, s48, v2", "s_nop 7", "v_addc_co_u32 v5, vcc, 0, v5, vcc"]
    # A buffer of 64 * 16 bytes from there on, of raw dwords (DATA_FORMAT 32).
    lines += ["s_mov_b32 s52, s48", "s_and_b32 s53, s49, 0xffff", "s_movk_i32 s54, 0x400", "s_mov_b32 s55, 0x27000"]


_PROLOGUE: Final = """\
  s_load_dwordx4 s[8:11], s[0:1], 0x0
  v_and_b32 v1, 0x3ff, v0
  v_lshlrev_b32 v1, 2, v1
  s_waitcnt lgkmcnt(0)
  s_mul_i32 s3, s2, {input}
  s_mul_hi_u32 s4, s2, {input}
  s_add_u32 s8, s8, s3
  s_addc_u32 s9, s9, s4
  s_mul_i32 s3, s2, {output}
  s_mul_hi_u32 s4, s2, {output}
  s_add_u32 s10, s10, s3
  s_addc_u32 s11, s11, s4
"""
