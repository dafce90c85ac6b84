"""One decoded instruction as a line of assembly, close to what LLVM prints; for findings and traces."""

from __future__ import annotations

from typing import Any, Final

from tkgen.emulate.decode import Encoding, Flag, Program

_NAMED: Final = {
    102: "flat_scratch_lo",
    103: "flat_scratch_hi",
    106: "vcc_lo",
    107: "vcc_hi",
    124: "m0",
    126: "exec_lo",
    127: "exec_hi",
    235: "src_shared_base",
    236: "src_shared_limit",
    237: "src_private_base",
    238: "src_private_limit",
    248: "0.15915494",
    251: "src_vccz",
    252: "src_execz",
    253: "src_scc",
}
_PAIRS: Final = {102: "flat_scratch", 106: "vcc", 126: "exec"}
_FLOATS: Final = ("0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0")


def operand(code: int, count: int = 1, literal: int = 0) -> str:
    """An operand code as text; `count` registers."""
    if code >= 256:
        file, n = ("v", code - 256) if code < 512 else ("a", code - 512)
        return f"{file}{n}" if count <= 1 else f"{file}[{n}:{n + count - 1}]"
    if count == 2 and code in _PAIRS:
        return _PAIRS[code]
    if code in _NAMED:
        return _NAMED[code]
    if code < 102:
        return f"s{code}" if count <= 1 else f"s[{code}:{code + count - 1}]"
    if 108 <= code < 124:
        return f"ttmp{code - 108}"
    if 128 <= code <= 192:
        return str(code - 128)
    if 193 <= code <= 208:
        return str(192 - code)
    if 240 <= code < 248:
        return _FLOATS[code - 240]
    return f"0x{literal:x}" if code == 255 else f"?{code}"


def disassemble(program: Program, i: int) -> str:
    """The instruction at dword `i` for people: mnemonic and operands in LLVM's manner, without every modifier."""
    op = program.ops[i]
    name = program.mnemonic(i)
    if not op["opcode"]:
        return name
    parts = _operands(op, name)
    return f"{name} {', '.join(parts)}" if parts else name


def _width(name: str) -> int:
    """Dwords of the data of a memory instruction, from its name."""
    for suffix, n in (("x16", 16), ("x8", 8), ("x4", 4), ("x3", 3), ("x2", 2), ("b128", 4), ("b96", 3)):
        if name.endswith(suffix):
            return n
    wide = 2 if name.endswith(("b64", "u64", "i64", "f64")) else 1
    return 2 * wide if "read2" in name else wide


def _operands(op: Any, name: str) -> list[str]:
    src = [int(s) for s in op["src"]]
    dst, literal, offset = int(op["dst"]), int(op["literal"]), int(op["offset"])
    width = _width(name)
    match op["encoding"]:
        case Encoding.SOPP:
            return [] if name in ("s_endpgm", "s_barrier") else [_simm(name, offset)]
        case Encoding.SOPK:
            return [operand(dst), hex(offset & 0xFFFF)]
        case Encoding.SOP1:
            wide = 2 if "64" in name else 1
            return [operand(dst, wide), operand(src[0], wide, literal)]
        case Encoding.SOP2:
            wide = 2 if "64" in name else 1
            return [operand(dst, wide), operand(src[0], wide, literal), operand(src[1], wide, literal)]
        case Encoding.SOPC:
            return [operand(s, 1, literal) for s in src[:2]]
        case Encoding.SMEM:
            base = operand(src[0], 4 if "buffer" in name else 2)
            return [operand(dst, width), base, hex(offset)]
        case Encoding.DS:
            values = [operand(s, width) for s in (src[1:] if "write2" in name else src[1:2])]
            shown = [operand(dst, width)] if "read" in name or "rtn" in name or "perm" in name else []
            shown += [operand(src[0])] + (values if "read" not in name and "swizzle" not in name else [])
            if name in ("ds_gws_init", "ds_gws_barrier"):
                shown = [operand(src[0])]
            if "2" in name.removeprefix("ds_").split("_")[0]:  # ds_read2, ds_write2st64, ...: two offsets
                return _with_offset(shown, 0, [f"offset{i}:{offset >> 8 * i & 255}" for i in (0, 1)])
            return _with_offset(shown, offset)
        case Encoding.FLAT | Encoding.GLOBAL | Encoding.SCRATCH:
            scalar, scratch = bool(op["flags"] & Flag.SADDR), op["encoding"] == Encoding.SCRATCH
            address = operand(src[0], 1 if scalar or scratch else 2)
            if scratch and not op["flags"] & Flag.OFFEN:
                address = "off"
            tail = [operand(src[2], 2)] if scalar else [] if op["encoding"] == Encoding.FLAT else ["off"]
            moved = [operand(dst, width), address] if "load" in name else [address, operand(src[1], width)]
            return _with_offset([*moved, *tail], offset)
        case Encoding.MUBUF | Encoding.MTBUF:
            from_register = op["flags"] & (Flag.OFFEN | Flag.IDXEN)
            modifiers = [
                m for f, m in ((Flag.OFFEN, "offen"), (Flag.IDXEN, "idxen"), (Flag.LDS, "lds")) if op["flags"] & f
            ]
            register = operand(src[0]) if from_register else "off"
            listed = [operand(dst, width), register, operand(src[1], 4), operand(src[2])]
            return _with_offset(listed, offset, modifiers)
        case Encoding.MFMA:
            count = _matrix_registers(name)
            return [operand(dst, count), operand(src[0], 2), operand(src[1], 2), operand(src[2], count)]
        case Encoding.VOP1:
            return [operand(dst), operand(src[0], 1, literal)]
        case Encoding.VOP2 | Encoding.VOPC:
            return [operand(dst, 2 if dst < 256 else 1), operand(src[0], 1, literal), operand(src[1])]
    return [operand(dst, 2 if dst < 256 else 1), *(operand(s) for s in src)]


def _simm(name: str, value: int) -> str:
    if name != "s_waitcnt":
        return str(value)
    vector, lgkm = value & 15 | value >> 10 & 48, value >> 8 & 15
    shown = [f"vmcnt({vector})"] if vector < 63 else []
    return " ".join(shown + ([f"lgkmcnt({lgkm})"] if lgkm < 15 else [])) or hex(value & 0xFFFF)


def _with_offset(shown: list[str], offset: int, modifiers: list[str] | None = None) -> list[str]:
    tail = " ".join([*(modifiers or []), *([f"offset:{offset}"] if offset else [])])
    return [*shown[:-1], f"{shown[-1]} {tail}"] if tail else shown


def _matrix_registers(name: str) -> int:
    """Accumulators per lane of v_mfma_*_MxNxK[_Bb]_*."""
    shape = next(p for p in name.split("_") if p.count("x") == 2)
    m, n, _ = (int(x) for x in shape.split("x"))
    blocks = next((int(p[:-1]) for p in name.split("_") if p[:-1].isdigit() and p.endswith("b")), 1)
    return m * n * blocks // 64 * (2 if "_f64_" in name else 1)
