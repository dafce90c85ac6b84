"""Probes of the vector ALU: every operation of one lane, in all encodings and with all modifiers, and across lanes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from tkgen.hardware.probes.probe import VECTOR, Probe, ProbeOperand, each, vectors

Operands = dict[str, tuple[str, int]]  # field -> format and bits

_FIRST: Final = 10  # register of the first source; the others are two further, four from the third on
_RESULT: Final = 20
_DPP: Final = (
    "quad_perm:[1,2,3,0]", "row_shl:1", "row_shl:15", "row_shr:4", "row_ror:7", "row_mirror", "row_half_mirror",
    "row_bcast:15", "row_bcast:31", "wave_shl:1", "wave_shr:1", "wave_rol:1", "wave_ror:1",
    "row_newbcast:3", "row_shr:1 row_mask:0x5 bank_mask:0x3", "row_shl:2 bound_ctrl:0", "wave_shl:1 bound_ctrl:0",
)  # fmt: skip
_SDWA: Final = (
    "dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1",
    "dst_sel:WORD_1 dst_unused:UNUSED_SEXT src0_sel:BYTE_2",
    "dst_sel:BYTE_3 dst_unused:UNUSED_PAD src0_sel:BYTE_3", "dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1",
)  # fmt: skip
# Operations whose every DPP and SDWA control is probed; of the others one each.
_ALL_CONTROLS: Final = ("v_mov_b32", "v_add_u32", "v_add_f32", "v_add_f16", "v_sub_u16")
_WITH_CONSTANT: Final = re.compile(r"v_(fma|mad)(mk|ak)_")
# Operations of gfx90a that AMD's table of CDNA3 lacks, and those with the same operands.
_LIKE: Final = {
    "v_mac_f32": "v_fmac_f32", "v_madmk_f32": "v_fmamk_f32", "v_madak_f32": "v_fmaak_f32", "v_mad_f32": "v_fma_f32",
    "v_mad_legacy_f32": "v_fma_f32",
}  # fmt: skip


def plain(name: str) -> str:
    """The mnemonic of an opcode of AMD's table, as the emulator calls it."""
    found = name.lower().removesuffix("_e32").removesuffix("_e64").replace("v_mad_mix", "v_fma_mix")
    return f"{found}_b32" if re.fullmatch("v_accvgpr_(read|write)", found) else found


@cache
def tables() -> dict[str, dict[str, Operands]]:
    """Operands by encoding (`VOP1`, `VOP3SD`) and mnemonic, as AMD's machine-readable ISA has them."""
    from tinygrad.runtime.autogen.amd.cdna.operands import OPERANDS

    found: dict[str, dict[str, Operands]] = {}
    for op, fields in OPERANDS.items():
        kind = type(op).__name__.removesuffix("Op")
        here = {name: (_format(value), value[1]) for name, value in fields.items()}
        found.setdefault(kind, {}).setdefault(plain(op.name), here)
    for kind in ("VOP2", "VOP3"):
        found[kind] |= {name: found[kind][like] for name, like in _LIKE.items() if like in found[kind]}
    return found


def _format(value: Any) -> str:
    return str(value[0].name.removeprefix("FMT_").removeprefix("NUM_"))


def probes(names: frozenset[str]) -> Iterator[Probe]:
    """Candidates for all of these mnemonics; the assembler of a target takes some of them."""
    by_encoding = tables()
    for kind in ("VOP3P", "VOP3SD", "VOP3", "VOP1", "VOP2", "VOPC"):
        for name, operands in sorted(by_encoding[kind].items()):
            if name in names and not re.match(r"v_(mfma|smfmac|accvgpr)", name):
                yield from _operation(kind, name, operands)
    yield from (p for p in _special() if p.name in names)


def _sources(operands: Operands) -> list[ProbeOperand]:
    fields = [f for f in ("src0", "src1", "vsrc1", "src2") if f in operands]
    if {"src1", "vsrc1"} <= set(fields):
        fields.remove("vsrc1")
    found = []
    for number, name in enumerate(fields):
        format, bits = operands[name]
        if format == "M64":  # the carry, which is in VCC
            continue
        found.append(ProbeOperand(_FIRST + 2 * number, format, max(bits, 32)))
    return found


def _operation(kind: str, name: str, operands: Operands) -> Iterator[Probe]:
    sources = _sources(operands)
    compares = name.startswith("v_cmp")
    format, bits = operands.get("vdst", ("B32", 32))
    result = [] if compares else each(_RESULT, bits)
    if re.match(r"v_(readlane|readfirstlane|writelane|swap|permlane)", name):
        return
    if re.search(r"_64|64_|q?sad_(pk|u32)", name) and kind == "VOP3" and len(result) == 4:
        sources = [s if s.register != _FIRST + 4 else ProbeOperand(s.register, "B32", s.bits) for s in sources]

    def probe(text: str) -> Probe:
        return Probe(name, text, VECTOR, tuple(sources), tuple(result), format)

    words = [vectors(s.register, s.bits) for s in sources]
    carries = bool(re.match(r"v_(add|sub|subrev|addc|subb|subbrev)_co_", name))
    takes_vcc = bool(re.match(r"v_(addc|subb|subbrev)_co_|v_cndmask", name))
    target = vectors(_RESULT, bits)
    if kind in ("VOP1", "VOP2", "VOPC"):
        head = ["vcc"] if compares else [target, *(["vcc"] if carries else [])]
        tail = ["vcc"] if takes_vcc else []
        for texts in _narrow(name, words, head, tail, sources, kind):
            yield probe(texts)
        return
    lead = "s[30:31]" if compares else target
    if kind == "VOP3SD":
        lead += ", s[30:31]"
    rest = [*words, *(["vcc"] if takes_vcc else [])]
    suffix = "_e64" if kind in ("VOP3", "VOP3SD") and (_narrow_too(name) or compares) else ""
    yield probe(f"{name}{suffix} {lead}, {', '.join(rest)}")
    floats = [bool(re.search(r"(^|_)B?F\d", s.format)) for s in sources]
    if kind == "VOP3P":
        n = len(sources)
        for options in (
            f"op_sel:{_list(n, '101')} op_sel_hi:{_list(n, '010')}", f"op_sel_hi:{_list(n, '000')}",
            f"neg_lo:{_list(n, '101')} neg_hi:{_list(n, '011')}", "clamp",
        ):  # fmt: skip
            yield probe(f"{name} {lead}, {', '.join(rest)} {options}")
        return
    if any(floats):
        signed = [f"-{w}" if f else w for w, f in zip(words, floats, strict=True)]
        both = [f"-|{w}|" if f else w for w, f in zip(words, floats, strict=True)]
        for some in (signed, both):
            yield probe(f"{name}{suffix} {lead}, {', '.join([*some, *rest[len(words) :]])}")
        for options in ("mul:2", "div:2"):
            yield probe(f"{name}{suffix} {lead}, {', '.join(rest)} {options}")
    yield probe(f"{name}{suffix} {lead}, {', '.join(rest)} clamp")
    for bits_of in ("1111", "1001"):
        yield probe(f"{name}{suffix} {lead}, {', '.join(rest)} op_sel:{_list(len(sources) + 1, bits_of)}")
    if name.startswith("v_bitop3"):
        for table in (0x96, 0xE8, 0x1B):
            yield probe(f"{name} {lead}, {', '.join(rest)} bitop3:{table:#x}")


def _list(count: int, bits: str) -> str:
    return "[" + ",".join((bits * 2)[:count]) + "]"


def _narrow_too(name: str) -> bool:
    """Return True if the operation has a shorter encoding, so that the longer one needs its suffix."""
    return any(name in tables()[kind] for kind in ("VOP1", "VOP2", "VOPC"))


def _narrow(
    name: str, words: list[str], head: list[str], tail: list[str], sources: list[ProbeOperand], kind: str
) -> Iterator[str]:
    """Texts in the encodings of 32 bits, with constants, and with the words of DPP and SDWA."""
    if _WITH_CONSTANT.match(name):
        constant = "0x40490fdb" if name.endswith("f32") else "0x4248"
        given = [words[0], constant, words[1]] if "mk" in name else [*words[:2], constant]
        yield f"{name} {', '.join([*head, *given])}"
        return
    yield f"{name}_e32 {', '.join([*head, *words, *tail])}"
    for constant in ("-4.0", "0.15915494", "-7", "0x3f2a4c01"):
        if len(words) > 1 or constant == "-4.0":
            yield f"{name}_e32 {', '.join([*head, constant, *words[1:], *tail])}"
    whole = name in _ALL_CONTROLS
    if all(s.bits == 32 for s in sources):
        for control in _DPP if whole else _DPP[:1]:
            masks = "" if "mask" in control else " row_mask:0xf bank_mask:0xf"
            yield f"{name}_dpp {', '.join([*head, *words, *tail])} {control.replace(' bound', masks + ' bound')}" + (
                "" if "bound" in control else masks
            )
        for control in _SDWA if whole else _SDWA[:2]:
            more = " src1_sel:BYTE_0" if len(words) > 1 else ""
            options = re.sub(r"dst_sel\S* dst_unused\S* ", "", control) if kind == "VOPC" else control
            yield f"{name}_sdwa {', '.join([*head, *words, *tail])} {options}{more}"


def _special() -> Iterator[Probe]:
    """Operations across lanes and between register files."""
    a, b = ProbeOperand(10, "B32", 32), ProbeOperand(20, "B32", 32)

    def probe(name: str, text: str, outputs: tuple[str, ...], before: str = "") -> Probe:
        return Probe(name, text, VECTOR, (a, b), outputs, "B32", before)

    for lane in ("0", "17", "63", "s16"):
        yield probe("v_readlane_b32", f"v_readlane_b32 s30, v10, {lane}", ())
        yield probe("v_writelane_b32", f"v_writelane_b32 v20, s22, {lane}", ("v20",))
    yield probe("v_readfirstlane_b32", "v_readfirstlane_b32 s30, v10", ())
    for name in ("v_swap_b32", "v_permlane16_swap_b32", "v_permlane32_swap_b32"):
        yield probe(name, f"{name} v20, v10", ("v20", "v10"))
    yield probe("v_accvgpr_write_b32", "v_accvgpr_write_b32 a20, v10", ("a20",))
    yield probe("v_accvgpr_read_b32", "v_accvgpr_read_b32 v20, a10", ("v20",), "v_accvgpr_write_b32 a10, v10")
    yield probe("v_accvgpr_mov_b32", "v_accvgpr_mov_b32 a20, a10", ("a20",), "v_accvgpr_write_b32 a10, v10")
    wide = ProbeOperand(10, "B64", 64)
    yield Probe("v_mov_b64", "v_mov_b64 v[20:21], v[10:11]", VECTOR, (wide,), ("v20", "v21"), "B64")
    yield probe("v_nop", "v_nop", ("v20",))
