"""Machine words of instructions, after the chapter "Microcode Formats" of AMD's CDNA3 ISA document.

The emulator's decoder is another reading of the same chapter. Vector registers are operand codes from 256 on, scalar
ones and constants below.
"""

from __future__ import annotations

from dataclasses import dataclass

DPP, SDWA, LITERAL = 250, 249, 255
DWORD = 6


@dataclass(frozen=True)
class Dpp:
    """The word of a data-parallel primitive."""

    control: int
    row_mask: int = 15
    bank_mask: int = 15
    bound: bool = False

    def word(self, source: int, neg: int, abs_: int) -> int:
        return (
            source & 255
            | self.control << 8
            | self.bound << 19
            | (neg & 1) << 20
            | (abs_ & 1) << 21
            | (neg >> 1 & 1) << 22
            | (abs_ >> 1 & 1) << 23
            | self.bank_mask << 24
            | self.row_mask << 28
        )


@dataclass(frozen=True)
class Sdwa:
    """The word of sub-dword addressing: what is read of each source, and what is written."""

    select: tuple[int, int] = (DWORD, DWORD)
    extend: tuple[bool, bool] = (False, False)
    destination: int = DWORD
    unused: int = 0

    def _sources(self, source: int, second: int, neg: int, abs_: int) -> int:
        word = source & 255 | (source < 256) << 23 | (second < 256) << 31
        for i, at in enumerate((16, 24)):
            word |= (
                self.select[i] << at | self.extend[i] << at + 3 | (neg >> i & 1) << at + 4 | (abs_ >> i & 1) << at + 5
            )
        return word

    def word(self, source: int, second: int, neg: int, abs_: int, clamp: int, omod: int) -> int:
        made = self._sources(source, second, neg, abs_)
        return made | self.destination << 8 | self.unused << 11 | clamp << 13 | omod << 14

    def compare_word(self, source: int, second: int, neg: int, abs_: int, destination: int | None) -> int:
        made = self._sources(source, second, neg, abs_)
        return made if destination is None else made | destination << 8 | 1 << 15


def vop1(op: int, dst: int, src: int) -> int:
    return 0b0111111 << 25 | (dst & 255) << 17 | op << 9 | src


def vop2(op: int, dst: int, src: int, second: int) -> int:
    return op << 25 | (dst & 255) << 17 | (second & 255) << 9 | src


def vopc(op: int, src: int, second: int) -> int:
    return 0b0111110 << 25 | op << 17 | (second & 255) << 9 | src


def vop3(
    op: int,
    dst: int,
    src: tuple[int, ...],
    *,
    neg: int = 0,
    abs_: int = 0,
    opsel: int = 0,
    clamp: int = 0,
    omod: int = 0,
    sdst: int | None = None,
) -> list[int]:
    first = 0b110100 << 26 | op << 16 | clamp << 15 | dst & 255
    first |= sdst << 8 if sdst is not None else opsel << 11 | abs_ << 8
    a, b, c = (*src, 0, 0)[:3]
    return [first, a | b << 9 | c << 18 | omod << 27 | neg << 29]


def vop3p(
    op: int,
    dst: int,
    src: tuple[int, ...],
    *,
    neg: int = 0,
    neg_hi: int = 0,
    opsel: int = 0,
    opsel_hi: int = 7,
    clamp: int = 0,
) -> list[int]:
    a, b, c = (*src, 0, 0)[:3]
    first = (
        0b110100111 << 23 | op << 16 | clamp << 15 | (opsel_hi >> 2 & 1) << 14 | opsel << 11 | neg_hi << 8 | dst & 255
    )
    return [first, a | b << 9 | c << 18 | (opsel_hi & 3) << 27 | neg << 29]


def sop1(op: int, dst: int, src: int) -> int:
    return 0b101111101 << 23 | dst << 16 | op << 8 | src


def sop2(op: int, dst: int, src: int, second: int) -> int:
    return 0b10 << 30 | op << 23 | dst << 16 | second << 8 | src


def sopc(op: int, src: int, second: int) -> int:
    return 0b101111110 << 23 | op << 16 | second << 8 | src


def sopk(op: int, dst: int, immediate: int) -> int:
    return 0b1011 << 28 | op << 23 | dst << 16 | immediate & 0xFFFF


def ds(
    op: int, *, addr: int = 0, data: int = 0, data2: int = 0, dst: int = 0, offset: int = 0, acc: int = 0
) -> list[int]:
    return [
        0b110110 << 26 | acc << 25 | op << 17 | offset,
        addr & 255 | (data & 255) << 8 | (data2 & 255) << 16 | (dst & 255) << 24,
    ]


def flat(
    op: int,
    segment: int,
    *,
    addr: int = 0,
    data: int = 0,
    dst: int = 0,
    saddr: int = 127,
    offset: int = 0,
    sc0: int = 0,
    vector: int = 0,
    acc: int = 0,
) -> list[int]:
    first = 0b110111 << 26 | op << 18 | sc0 << 16 | segment << 14 | (offset & 0x1FFF if segment else offset & 0xFFF)
    first |= vector << 13 if segment == 1 else 0
    return [first, addr & 255 | (data & 255) << 8 | saddr << 16 | acc << 23 | (dst & 255) << 24]


def mubuf(
    op: int,
    *,
    addr: int = 0,
    data: int = 0,
    resource: int = 0,
    soffset: int = 128,
    offset: int = 0,
    offen: int = 0,
    idxen: int = 0,
    sc0: int = 0,
    acc: int = 0,
) -> list[int]:
    first = 0b111000 << 26 | op << 18 | sc0 << 14 | idxen << 13 | offen << 12 | offset
    return [first, addr & 255 | (data & 255) << 8 | resource // 4 << 16 | acc << 23 | soffset << 24]
