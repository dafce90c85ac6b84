"""The opcodes that the emulator executes, each with AMD's pseudo-code and operands where there are any."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tinygrad.runtime.autogen.amd.cdna.operands import OPERANDS
from tinygrad.runtime.autogen.amd.cdna.str_pcode import PCODE

from tkgen.emulate import native
from tkgen.emulate.decode import Encoding, mnemonics
from tkgen.targets import load_target

TARGETS = ("gfx90a", "gfx942", "gfx950")


@dataclass(frozen=True)
class Operand:
    """A field of an instruction: its element type, elements, and bits in all."""

    kind: str  # F, BF, I, U, B, FP, M
    width: int
    count: int
    bits: int

    @property
    def floating(self) -> bool:
        return self.kind in ("F", "BF") and self.width >= 16


def operand(found: tuple[Any, int, Any]) -> Operand:
    name, bits = found[0].name.removeprefix("FMT_NUM_"), found[1]
    count = 1
    if name.startswith("PK"):
        digits, name = name[2:].split("_")
        count = int(digits)
    kind = name.rstrip("0123456789")
    width = int(name[len(kind) :]) if name[len(kind) :] else bits
    if kind == "BF" and width == 8:
        kind = "FP"
    return Operand(kind, width, count, bits)


@dataclass(frozen=True)
class Opcode:
    """One opcode of one encoding; the text and the operands may be those of another encoding of the same mnemonic."""

    encoding: Encoding
    number: int
    name: str
    targets: tuple[str, ...]
    text: str | None
    fields: dict[str, Operand]

    def __hash__(self) -> int:
        return hash((self.encoding, self.number, self.name))

    @property
    def sources(self) -> list[Operand]:
        names = [n for n in ("src0", "src1", "vsrc1", "src2") if n in self.fields]
        if {"src1", "vsrc1"} <= set(names):
            names.remove("vsrc1")
        return [self.fields[n] for n in names]


@dataclass(frozen=True)
class Reading:
    """The meaning that the emulator is compared with instead of a text, and the reason."""

    opcodes: re.Pattern[str]
    text: str
    emulator: str
    source: str = ""
    probe: str = ""
    instead: str = ""
    like: str = ""  # the mnemonic whose operands an opcode without a text has
    replace: tuple[tuple[str, str], ...] = ()

    def of(self, name: str, text: str) -> str:
        """The text as it is read."""
        width = name.rsplit("f", 1)[-1]
        made = self.instead.replace("{w}", width) or text
        for old, new in self.replace:
            made = made.replace(old.replace("{w}", width), new.replace("{w}", width))
        return made


@cache
def readings() -> tuple[Reading, ...]:
    """Of `readings.toml`."""
    found = tomllib.loads((Path(__file__).parent / "readings.toml").read_text())["reading"]
    return tuple(
        Reading(
            **{**one, "opcodes": re.compile(one["opcodes"] + "$"), "replace": tuple(map(tuple, one.get("replace", ())))}
        )
        for one in found
    )


def reading_of(name: str) -> Reading | None:
    """The reading of an opcode's text, where it is not the text itself."""
    return next((r for r in readings() if r.opcodes.match(name)), None)


KINDS = {
    Encoding.MFMA: "VOP3POp",
    Encoding.VOP3P: "VOP3POp",
}
# The tables have GFX9's names; from gfx90a on these fuse.
RENAMED = {"v_fma_mix_f32": "v_mad_mix_f32", "v_fma_mixlo_f16": "v_mad_mixlo_f16", "v_fma_mixhi_f16": "v_mad_mixhi_f16"}


def plain(name: str) -> str:
    return name.lower().removesuffix("_e32").removesuffix("_e64")


@cache
def texts() -> tuple[dict[tuple[str, str], tuple[str, Any]], dict[str, tuple[str, Any]]]:
    """The pseudo-code by encoding and mnemonic, and by mnemonic alone."""
    exact: dict[tuple[str, str], tuple[str, Any]] = {}
    any_: dict[str, tuple[str, Any]] = {}
    for op, text in PCODE.items():
        name = plain(op.name)
        found = (text, OPERANDS.get(op, {}))
        exact[type(op).__name__, name] = found
        if name not in any_ or (not any_[name][1] and found[1]):
            any_[name] = found
    return exact, any_


@cache
def opcodes() -> tuple[Opcode, ...]:
    """All opcodes that some target executes."""
    known = set(native.operations())
    exact, any_ = texts()
    on: dict[tuple[Encoding, int, str], list[str]] = {}
    for target in TARGETS:
        for encoding, numbers in mnemonics(load_target(target).architecture).items():
            for number, name in numbers.items():
                if name in known:
                    on.setdefault((encoding, number, name), []).append(target)
    made = []
    for (encoding, number, name), targets in on.items():
        kind = KINDS.get(encoding, f"{encoding.name}Op")
        looked = RENAMED.get(name, name)
        found = exact.get((kind, looked)) or exact.get(("VOP3SDOp", looked)) or any_.get(looked)
        text, fields = found if found else (None, {})
        reading = reading_of(name)
        if reading and reading.like:
            fields = (exact.get((kind, reading.like)) or any_[reading.like])[1]
        if reading and (text or reading.like):
            text = reading.of(name, text or any_[reading.like][0])
        made.append(
            Opcode(
                encoding,
                number,
                name,
                tuple(targets),
                text,
                {k: operand(v) for k, v in fields.items() if v[0].name.startswith(("FMT_NUM", "FMT_ANY"))}
                | ({"src1": Operand("I", 16, 1, 16)} if name == "v_ldexp_f16" else {}),  # the table calls it a float
            )
        )
    return tuple(made)
