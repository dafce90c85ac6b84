"""Machine code of CDNA2/3/4 (gfx90a, gfx942, gfx950) into a compact array of operations, one numpy pass per kernel.

Opcode numbers and mnemonics come from the tables that tinygrad generates from AMD's machine-readable ISA
(`tinygrad.runtime.autogen.amd.cdna.enum`); the field positions are those of the "Microcode formats" chapter of AMD's
CDNA3 ISA document. tinygrad's own decoder builds one Python object per instruction; here all 4-byte positions of the
code are decoded at once, also those inside an instruction, so that a jump to any address finds what the hardware
would find there.

    program = decode(code, "gfx942")
    [disassemble(program, i) for i in program.starts()]
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tkgen.emulate import native
from tkgen.emulate.errors import EmulateError
from tkgen.packages import install_line
from tkgen.targets import load_target, target_names

# Whose instructions are known; the numbers are shared with `core/abi.h`.
ARCHITECTURES: Final = ("CDNA2", "CDNA3", "CDNA4")
TARGETS: Final = tuple(name for name in target_names() if load_target(name).architecture in ARCHITECTURES)


# Instruction formats; the numbers are shared with `core/abi.h`.
Encoding = IntEnum(
    "Encoding",
    "UNKNOWN SOP1 SOP2 SOPC SOPK SOPP SMEM VOP1 VOP2 VOPC VOP3 VOP3P MFMA DS FLAT GLOBAL SCRATCH MUBUF MTBUF",
    start=0,
)
# Bits of `flags`; shared with `core/abi.h`.
Flag = IntFlag("Flag", "DPP SDWA LITERAL LDS OFFEN IDXEN SC0 SADDR TRUNCATED SDST GDS SCALED SC1")

# `opcode` is an index into Program.names, `size` counts bytes, `control` is the DPP or SDWA word.
OP: Final = np.dtype(native.Op)

_LITERAL: Final = 255
_SDWA: Final = 249
_DPP: Final = 250
_VCC: Final = 106
# VOP3 encodings with a scalar destination in bits 8..14 (the carry of an addition, the flag of v_div_scale).
_VOP3_SDST: Final = (281, 282, 283, 284, 285, 286, 480, 481, 488, 489)
_READFIRSTLANE: Final = 2
_ACCVGPR_MOV: Final = 82
_VOP3_OF_VOP1: Final = 320  # a VOP1 opcode in its 64-bit form
_VOP3_SCALAR: Final = (_VOP3_OF_VOP1 + _READFIRSTLANE, 649)  # and v_readlane_b32
# VOP2 operations with a mandatory 32-bit constant: v_fmamk/v_fmaak (v_madmk/v_madak), f32 and f16.
_VOP2_LITERAL: Final = (23, 24, 36, 37)

# Where gfx90a differs from the CDNA3/4 tables (LLVM's VOP3PInstructions.td, VOP2Instructions.td, BUFInstructions.td).
_GFX90A: Final[dict[Encoding, dict[int, str]]] = {
    Encoding.VOP2: {22: "v_mac_f32", 23: "v_madmk_f32", 24: "v_madak_f32"},
    Encoding.VOP3: {278: "v_mac_f32", 448: "v_mad_legacy_f32", 449: "v_mad_f32"},
    Encoding.MUBUF: {40: "buffer_wbl2", 41: "buffer_invl2", 62: "buffer_wbinvl1", 63: "buffer_wbinvl1_vol"},
    Encoding.MFMA: {
        84: "v_mfma_i32_32x32x8_i8",
        85: "v_mfma_i32_16x16x16_i8",
        99: "v_mfma_f32_32x32x4_2b_bf16",
        100: "v_mfma_f32_16x16x4_4b_bf16",
        101: "v_mfma_f32_4x4x4_16b_bf16",
        102: "v_mfma_f32_32x32x8_bf16",
        103: "v_mfma_f32_16x16x16_bf16",
        104: "v_mfma_f32_32x32x2_2b_bf16",
        105: "v_mfma_f32_16x16x2_4b_bf16",
        107: "v_mfma_f32_4x4x2_16b_bf16",
        108: "v_mfma_f32_32x32x4_bf16",
        109: "v_mfma_f32_16x16x8_bf16",
    },
}
_SCRATCH_TO_LDS: Final = range(38, 43)  # scratch_load_lds_*, from gfx942 on (LLVM's FLATInstructions.td)
# Opcodes of the shared table that only gfx950 has.
_GFX950_ONLY: Final[dict[Encoding, tuple[int, ...]]] = {
    Encoding.MFMA: (44, 45, 46, 53, 54, 55, 56, 57, 58, 59, 60, 61, 67, 70, 71, 75, 78, 79, 83, 84, 85, 90, 91),
    Encoding.VOP1: (88, 89, 90, 91),
    Encoding.VOP2: (22,),
    Encoding.VOP3: (278, *range(563, 620), 678, 679, 680, 681),
    Encoding.VOP3P: (26, 27, 28),
    Encoding.DS: (224, 225, 226, 227),
    Encoding.GLOBAL: (125, 126),
}


@cache
def mnemonics(architecture: str) -> dict[Encoding, dict[int, str]]:
    """Opcode number -> mnemonic per encoding."""
    try:
        from tinygrad.runtime.autogen.amd.cdna import enum as isa
    except ImportError as error:
        raise EmulateError(
            f"the emulator takes AMD's instruction tables from tinygrad; `{install_line('emulate')}` adds it"
        ) from error

    def names(table: Any) -> dict[int, str]:
        return {int(m.value): m.name.lower().removesuffix("_e32").removesuffix("_e64") for m in table}

    vop3p = names(isa.VOP3POp)
    matrix = {n: name for n, name in vop3p.items() if name.startswith(("v_mfma", "v_smfmac"))}
    tables: dict[Encoding, dict[int, str]] = {
        e: names(getattr(isa, f"{e.name}Op", isa.VOP3POp)) for e in Encoding if e is not Encoding.UNKNOWN
    }
    tables[Encoding.VOP3] |= names(isa.VOP3SDOp)
    tables[Encoding.VOP3P] = {n: name for n, name in vop3p.items() if n not in matrix}
    tables[Encoding.MFMA] = matrix
    # The table has GFX9's names; from gfx90a on these fuse, and LLVM writes the accumulator moves with their width.
    tables[Encoding.VOP3P] |= {32: "v_fma_mix_f32", 33: "v_fma_mixlo_f16", 34: "v_fma_mixhi_f16"}
    tables[Encoding.VOP3P] |= {88: "v_accvgpr_read_b32", 89: "v_accvgpr_write_b32"}
    tables[Encoding.DS] |= {153: "ds_gws_init", 155: "ds_gws_sema_br", 157: "ds_gws_barrier"}  # DSInstructions.td
    tables[Encoding.VOP3].pop(_VOP3_OF_VOP1 + _ACCVGPR_MOV)  # it has no 64-bit form (LLVM's VOP1Instructions.td)
    if architecture != "CDNA4":
        for encoding, numbers in _GFX950_ONLY.items():
            for number in numbers:
                tables[encoding].pop(number, None)
    if architecture == "CDNA2":
        for encoding, extra in _GFX90A.items():
            tables[encoding] |= extra
        for number in _SCRATCH_TO_LDS:
            tables[Encoding.SCRATCH].pop(number)
    return tables


@cache
def _numbering(target: str) -> tuple[tuple[str, ...], dict[Encoding, npt.NDArray[np.uint16]]]:
    """All mnemonics of a target in one list, and per encoding a map from opcode number to its place in it."""
    tables = mnemonics(load_target(target).architecture)
    names = ["unknown"]
    index = {"unknown": 0}
    maps: dict[Encoding, npt.NDArray[np.uint16]] = {}
    for encoding, table in tables.items():
        lut = np.zeros(1024, dtype=np.uint16)
        for number, name in table.items():
            if name not in index:
                index[name] = len(names)
                names.append(name)
            lut[number] = index[name]
        maps[encoding] = lut
    return tuple(names), maps


@dataclass(frozen=True)
class Program:
    """Decoded code: `ops[i]` is what executes at byte offset `4 * i` of `code`."""

    target: str
    code: bytes
    ops: npt.NDArray[Any]
    names: tuple[str, ...]

    def starts(self, first: int = 0, end: int | None = None) -> list[int]:
        """Indices of the instructions met when walking straight from dword `first` to `end`."""
        sizes = self.ops["size"].tolist()
        stop = len(sizes) if end is None else end
        out = []
        i = first
        while i < stop:
            out.append(i)
            i += max(sizes[i] // 4, 1)
        return out

    def mnemonic(self, i: int) -> str:
        """The mnemonic at dword `i`, or its encoding and opcode number when the tables have none."""
        op = self.ops[i]
        if op["opcode"]:
            return self.names[int(op["opcode"])]
        word = int.from_bytes(self.code[4 * i : 4 * i + 4], "little")
        return f"unknown {Encoding(op['encoding']).name} instruction 0x{word:08x}"


def decode(code: bytes, target: str) -> Program:
    """Decode `code` (bytes of the text segment, a multiple of 4 long) for `target`; never fails on odd bytes."""
    if target not in TARGETS:
        raise EmulateError(f"the emulator knows {', '.join(TARGETS)}, not {target!r}")
    names, maps = _numbering(target)
    words = np.frombuffer(code[: len(code) // 4 * 4], dtype="<u4")
    padded = np.concatenate([words, np.zeros(4, dtype="<u4")])
    d = _Decoder(words, padded[1 : 1 + len(words)], padded[2:][: len(words)], padded[3:][: len(words)], maps)
    d.run()
    remaining = 4 * (len(words) - np.arange(len(words)))
    d.ops["flags"][d.ops["size"] > remaining] |= np.uint16(Flag.TRUNCATED)
    return Program(target, bytes(code), d.ops, names)


class _Decoder:
    """The vectorised pass: one method per encoding fills the rows that have it."""

    def __init__(
        self,
        w0: npt.NDArray[np.uint32],
        w1: npt.NDArray[np.uint32],
        w2: npt.NDArray[np.uint32],
        w3: npt.NDArray[np.uint32],
        maps: dict[Encoding, npt.NDArray[np.uint16]],
    ):
        self.w = (w0, w1, w2, w3)
        self.maps = maps
        self.ops = np.zeros(len(w0), dtype=OP)
        self.ops["size"] = 4
        self.ops["sdst"] = _VCC

    def run(self) -> None:
        """Classify by the leading bits, most specific first."""
        w0 = self.w[0]
        left = np.ones(len(w0), dtype=bool)

        def take(shift: int, value: int, width: int) -> npt.NDArray[np.intp]:
            mask = left & ((w0 >> shift) & ((1 << width) - 1) == value)
            left[mask] = False
            return np.flatnonzero(mask)

        self.sop1(take(23, 0b101111101, 9))
        self.sopc(take(23, 0b101111110, 9))
        self.sopp(take(23, 0b101111111, 9))
        self.sopk(take(28, 0b1011, 4))
        self.sop2(take(30, 0b10, 2))
        self.vopc(take(25, 0b0111110, 7))
        self.vop1(take(25, 0b0111111, 7))
        self.vop2(take(31, 0, 1))
        self.vop3p(take(23, 0b110100111, 9))
        self.vop3(take(26, 0b110100, 6))
        self.smem(take(26, 0b110000, 6))
        self.ds(take(26, 0b110110, 6))
        self.flat(take(26, 0b110111, 6))
        self.mubuf(take(26, 0b111000, 6))
        self.mtbuf(take(26, 0b111010, 6))

    def field(self, rows: npt.NDArray[np.intp], low: int, width: int, word: int = 0) -> npt.NDArray[np.uint32]:
        """Bits `low`..`low + width - 1` of dword `word` of the instructions at `rows`."""
        return (self.w[word][rows] >> np.uint32(low)) & np.uint32((1 << width) - 1)

    def put(self, rows: npt.NDArray[np.intp], **values: Any) -> None:
        """Set columns of the rows."""
        for name, value in values.items():
            self.ops[name][rows] = value

    def name(self, rows: npt.NDArray[np.intp], encoding: Encoding, number: npt.NDArray[np.uint32]) -> None:
        """Set encoding and opcode."""
        self.put(rows, encoding=encoding, opcode=self.maps[encoding][number])

    def flag(self, rows: npt.NDArray[np.intp], flag: Flag, where: npt.NDArray[Any]) -> None:
        """Set a flag bit where `where` is non-zero."""
        self.ops["flags"][rows[where != 0]] |= np.uint16(flag)

    def literal(self, rows: npt.NDArray[np.intp], where: npt.NDArray[np.bool_]) -> None:
        """The dword after the first is a constant."""
        hit = rows[where]
        self.put(hit, size=8, literal=self.w[1][hit])
        self.ops["flags"][hit] |= np.uint16(Flag.LITERAL)

    def sop1(self, rows: npt.NDArray[np.intp]) -> None:
        self.name(rows, Encoding.SOP1, self.field(rows, 8, 8))
        src = self.field(rows, 0, 8)
        self.put(rows, dst=self.field(rows, 16, 7))
        self.ops["src"][rows, 0] = src
        self.literal(rows, src == _LITERAL)

    def sop2(self, rows: npt.NDArray[np.intp]) -> None:
        self.name(rows, Encoding.SOP2, self.field(rows, 23, 7))
        self._two_scalar_sources(rows)
        self.put(rows, dst=self.field(rows, 16, 7))

    def sopc(self, rows: npt.NDArray[np.intp]) -> None:
        self.name(rows, Encoding.SOPC, self.field(rows, 16, 7))
        self._two_scalar_sources(rows)

    def _two_scalar_sources(self, rows: npt.NDArray[np.intp]) -> None:
        a, b = self.field(rows, 0, 8), self.field(rows, 8, 8)
        self.ops["src"][rows, 0] = a
        self.ops["src"][rows, 1] = b
        self.literal(rows, (a == _LITERAL) | (b == _LITERAL))

    def sopk(self, rows: npt.NDArray[np.intp]) -> None:
        number = self.field(rows, 23, 5)
        self.name(rows, Encoding.SOPK, number)
        self.put(rows, dst=self.field(rows, 16, 7), offset=self.field(rows, 0, 16).astype(np.int16))
        self.literal(rows, number == 20)  # s_setreg_imm32_b32

    def sopp(self, rows: npt.NDArray[np.intp]) -> None:
        self.name(rows, Encoding.SOPP, self.field(rows, 16, 7))
        self.put(rows, offset=self.field(rows, 0, 16).astype(np.int16))

    def smem(self, rows: npt.NDArray[np.intp]) -> None:
        self.name(rows, Encoding.SMEM, self.field(rows, 18, 8))
        offset = self.field(rows, 0, 21, word=1).astype(np.int32)
        offset = np.where(offset >= 1 << 20, offset - (1 << 21), offset)
        immediate = self.field(rows, 17, 1)
        soffset_en = self.field(rows, 14, 1)
        # Without IMM the low seven bits of the offset name a scalar register (CDNA3 ISA, scalar memory reads).
        register = np.where(soffset_en, self.field(rows, 25, 7, word=1), offset & 127)
        use_register = (soffset_en != 0) | (immediate == 0)
        self.put(rows, size=8, dst=self.field(rows, 6, 7), offset=np.where(immediate, offset, 0))
        self.ops["src"][rows, 0] = self.field(rows, 0, 6) * 2
        self.ops["src"][rows, 1] = np.where(use_register, register, 128)
        self.flag(rows, Flag.SADDR, use_register)
        self.flag(rows, Flag.SC0, self.field(rows, 16, 1))

    def vop1(self, rows: npt.NDArray[np.intp]) -> None:
        number = self.field(rows, 9, 8)
        self.name(rows, Encoding.VOP1, number)
        self.put(rows, dst=self.field(rows, 17, 8) + np.where(number == _READFIRSTLANE, 0, 256))
        self._vector_source(rows)
        between_accumulators = rows[number == _ACCVGPR_MOV]
        self.ops["dst"][between_accumulators] += 256
        self.ops["src"][between_accumulators, 0] += 256

    def vop2(self, rows: npt.NDArray[np.intp]) -> None:
        number = self.field(rows, 25, 6)
        self.name(rows, Encoding.VOP2, number)
        self.put(rows, dst=256 + self.field(rows, 17, 8))
        self.ops["src"][rows, 1] = 256 + self.field(rows, 9, 8)
        self.ops["src"][rows, 2] = _VCC
        self._vector_source(rows)
        self.literal(rows, np.isin(number, _VOP2_LITERAL))

    def vopc(self, rows: npt.NDArray[np.intp]) -> None:
        self.name(rows, Encoding.VOPC, self.field(rows, 17, 8))
        self.put(rows, dst=_VCC)
        self.ops["src"][rows, 1] = 256 + self.field(rows, 9, 8)
        self._vector_source(rows)

    def _vector_source(self, rows: npt.NDArray[np.intp]) -> None:
        """src0 of VOP1/VOP2/VOPC: a register, a constant, a literal, or an SDWA or DPP word."""
        src = self.field(rows, 0, 9)
        self.ops["src"][rows, 0] = src
        self.literal(rows, src == _LITERAL)
        extra = self.w[1][rows]
        dpp = src == _DPP
        self.put(rows[dpp], size=8, control=extra[dpp])
        self.ops["flags"][rows[dpp]] |= np.uint16(Flag.DPP)
        self.ops["src"][rows[dpp], 0] = 256 + (extra[dpp] & 255)
        self.put(
            rows[dpp],
            neg=((extra >> 20 & 1) | (extra >> 22 & 1) << 1)[dpp],
            abs=((extra >> 21 & 1) | (extra >> 23 & 1) << 1)[dpp],
        )
        sdwa = src == _SDWA
        self.put(rows[sdwa], size=8, control=extra[sdwa])
        self.ops["flags"][rows[sdwa]] |= np.uint16(Flag.SDWA)
        self.ops["src"][rows[sdwa], 0] = ((extra & 255) + np.where(extra >> 23 & 1, 0, 256))[sdwa]
        scalar_b = rows[sdwa & (extra >> 31 == 1)]
        self.ops["src"][scalar_b, 1] -= 256 * (self.ops["src"][scalar_b, 1] >= 256).astype(np.uint16)
        self.put(
            rows[sdwa],
            neg=((extra >> 20 & 1) | (extra >> 28 & 1) << 1)[sdwa],
            abs=((extra >> 21 & 1) | (extra >> 29 & 1) << 1)[sdwa],
        )
        compare = sdwa & (self.ops["encoding"][rows] == Encoding.VOPC)
        named = compare & (extra >> 15 & 1 == 1)
        self.put(rows[named], dst=(extra >> 8 & 127)[named])
        other = sdwa & ~compare
        self.put(rows[other], clamp=(extra >> 13 & 1)[other], omod=(extra >> 14 & 3)[other])

    def vop3(self, rows: npt.NDArray[np.intp]) -> None:
        number = self.field(rows, 16, 10)
        self.name(rows, Encoding.VOP3, number)
        self._three_sources(rows)
        with_sdst = np.isin(number, _VOP3_SDST)
        self.put(
            rows,
            # Compares (opcodes below 256) and the lane reads write scalar registers.
            dst=self.field(rows, 0, 8) + np.where((number < 256) | np.isin(number, _VOP3_SCALAR), 0, 256),
            abs=np.where(with_sdst, 0, self.field(rows, 8, 3)),
            opsel=np.where(with_sdst, 0, self.field(rows, 11, 4)),
            clamp=self.field(rows, 15, 1),
            omod=self.field(rows, 27, 2, word=1),
            neg=self.field(rows, 29, 3, word=1),
        )
        hit = rows[with_sdst]
        self.put(hit, sdst=self.field(hit, 8, 7))
        self.ops["flags"][hit] |= np.uint16(Flag.SDST)

    def _three_sources(self, rows: npt.NDArray[np.intp]) -> None:
        self.put(rows, size=8)
        for i, low in enumerate((0, 9, 18)):
            self.ops["src"][rows, i] = self.field(rows, low, 9, word=1)

    def vop3p(self, rows: npt.NDArray[np.intp]) -> None:
        number = self.field(rows, 16, 7)
        scaled = number == 44  # v_mfma_ld_scale: the matrix instruction is in the next two dwords
        self._scaled_mfma(rows[scaled])
        rows, number = rows[~scaled], number[~scaled]
        is_matrix = self.maps[Encoding.MFMA][number] != 0
        self._matrix(rows[is_matrix])
        rows, number = rows[~is_matrix], number[~is_matrix]
        self.name(rows, Encoding.VOP3P, number)
        self._three_sources(rows)
        self.put(
            rows,
            dst=256 + self.field(rows, 0, 8),
            abs=self.field(rows, 8, 3),  # neg_hi
            opsel=self.field(rows, 11, 3),
            opsel_hi=self.field(rows, 27, 2, word=1) | self.field(rows, 14, 1) << 2,
            clamp=self.field(rows, 15, 1),
            neg=self.field(rows, 29, 3, word=1),
        )
        # v_accvgpr_read (88) takes its source from, v_accvgpr_write (89) its destination in the accumulation registers.
        self.ops["src"][rows[number == 88], 0] += 256
        self.ops["dst"][rows[number == 89]] += 256

    def _matrix(self, rows: npt.NDArray[np.intp], word: int = 0) -> None:
        self.name(rows, Encoding.MFMA, self.field(rows, 16, 7, word))
        self.put(rows, size=8 + 4 * word)
        acc_cd = 256 * self.field(rows, 15, 1, word)
        self.put(
            rows,
            dst=256 + self.field(rows, 0, 8, word) + acc_cd,
            cbsz=self.field(rows, 8, 3, word),
            abid=self.field(rows, 11, 4, word),
            blgp=self.field(rows, 29, 3, word + 1),
        )
        for i, low in enumerate((0, 9)):
            code = self.field(rows, low, 9, word + 1)
            self.ops["src"][rows, i] = code + np.where(code >= 256, 256 * self.field(rows, 27 + i, 1, word + 1), 0)
        code = self.field(rows, 18, 9, word + 1)
        self.ops["src"][rows, 2] = code + np.where(code >= 256, acc_cd, 0)

    def _scaled_mfma(self, rows: npt.NDArray[np.intp]) -> None:
        scale = self.w[1][rows]
        opsel = self.field(rows, 11, 2) | self.field(rows, 27, 2, word=1) << 2
        self._matrix(rows, word=2)
        self.ops["flags"][rows] |= np.uint16(Flag.SCALED)
        self.put(rows, size=16, control=scale & 0x3FFFF, opsel=opsel)

    def ds(self, rows: npt.NDArray[np.intp]) -> None:
        self.name(rows, Encoding.DS, self.field(rows, 17, 8))
        acc = 256 * self.field(rows, 25, 1)
        self.put(rows, size=8, offset=self.field(rows, 0, 16), dst=256 + self.field(rows, 24, 8, word=1) + acc)
        self.ops["src"][rows, 0] = 256 + self.field(rows, 0, 8, word=1)
        self.ops["src"][rows, 1] = 256 + self.field(rows, 8, 8, word=1) + acc
        self.ops["src"][rows, 2] = 256 + self.field(rows, 16, 8, word=1) + acc
        self.flag(rows, Flag.GDS, self.field(rows, 16, 1))

    def flat(self, rows: npt.NDArray[np.intp]) -> None:
        number = self.field(rows, 18, 7)
        segment = self.field(rows, 14, 2)
        for value, encoding in ((0, Encoding.FLAT), (1, Encoding.SCRATCH), (2, Encoding.GLOBAL)):
            hit = segment == value
            self.name(rows[hit], encoding, number[hit])
        offset = self.field(rows, 0, 13).astype(np.int32)
        signed = np.where(offset >= 1 << 12, offset - (1 << 13), offset)
        acc = 256 * self.field(rows, 23, 1, word=1)
        saddr = self.field(rows, 16, 7, word=1)
        self.put(
            rows,
            size=8,
            offset=np.where(segment == 0, offset & 0xFFF, signed),
            dst=256 + self.field(rows, 24, 8, word=1) + acc,
        )
        self.ops["src"][rows, 0] = 256 + self.field(rows, 0, 8, word=1)
        self.ops["src"][rows, 1] = 256 + self.field(rows, 8, 8, word=1) + acc
        self.ops["src"][rows, 2] = saddr
        self.flag(rows, Flag.SADDR, (saddr != 127) & (segment != 0))
        # Scratch has no room for "both addresses" but with the SVE bit (13) of CDNA3.
        self.flag(rows, Flag.OFFEN, self.field(rows, 13, 1))
        self.flag(rows, Flag.SC0, self.field(rows, 16, 1))
        self.flag(rows, Flag.SC1, self.field(rows, 25, 1))

    def mubuf(self, rows: npt.NDArray[np.intp]) -> None:
        self.name(rows, Encoding.MUBUF, self.field(rows, 18, 7))
        self._buffer(rows)
        self.flag(rows, Flag.LDS, self.field(rows, 16, 1))

    def mtbuf(self, rows: npt.NDArray[np.intp]) -> None:
        self.name(rows, Encoding.MTBUF, self.field(rows, 15, 4))
        self._buffer(rows)

    def _buffer(self, rows: npt.NDArray[np.intp]) -> None:
        acc = 256 * self.field(rows, 23, 1, word=1)
        data = 256 + self.field(rows, 8, 8, word=1) + acc
        self.put(rows, size=8, offset=self.field(rows, 0, 12), dst=data)
        self.ops["src"][rows, 0] = 256 + self.field(rows, 0, 8, word=1)
        self.ops["src"][rows, 1] = self.field(rows, 16, 5, word=1) * 4
        self.ops["src"][rows, 2] = self.field(rows, 24, 8, word=1)
        self.flag(rows, Flag.OFFEN, self.field(rows, 12, 1))
        self.flag(rows, Flag.IDXEN, self.field(rows, 13, 1))
        self.flag(rows, Flag.SC0, self.field(rows, 14, 1))
        self.flag(rows, Flag.SC1, self.field(rows, 15, 1))
