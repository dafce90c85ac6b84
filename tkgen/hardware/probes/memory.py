"""Probes of LDS and of memory: loads, stores and atomic operations, each lane at 16 bytes that no other accesses.

The frame leaves an address in v[4:5] for each lane, the same as an offset in v2, the beginning in s[48:49], and a
buffer descriptor in s[52:55].
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tkgen.hardware.probes.probe import MEMORY, Probe, ProbeOperand, each, vectors
from tkgen.hardware.probes.vector import Operands, tables

_ROWS: Final = 8
_DATA, _MORE, _RESULT = 10, 14, 20
_WAIT: Final = "s_waitcnt vmcnt(0) lgkmcnt(0)"
_FILL_SCRATCH: Final = f"""\
v_mov_b32 v2, 16
scratch_store_dwordx4 off, v[24:27], off
scratch_store_dwordx4 off, v[24:27], off offset:16
{_WAIT}"""


def probes(names: frozenset[str]) -> Iterator[Probe]:
    """Candidates for all of these mnemonics."""
    by_encoding = tables()
    for name, operands in sorted(by_encoding["DS"].items()):
        if name in names:
            yield from _of_lds(name, operands)
    for kind in ("FLAT", "GLOBAL", "MUBUF"):
        for name, operands in sorted(by_encoding[kind].items()):
            if name in names and "lds" not in name and not re.match(r"buffer_(inv|wb)", name):
                yield from _of_memory(kind, name, operands)
    for name, operands in sorted(by_encoding["SCRATCH"].items()):
        if name in names and "lds" not in name:
            yield from _of_scratch(name, operands)
    for size in ("ubyte", "sbyte", "ushort", "sshort", "dword", "dwordx3", "dwordx4"):
        if f"global_load_lds_{size}" in names:
            yield _direct(f"global_load_lds_{size}")
        if f"scratch_load_lds_{size}" in names:
            yield from _scratch_to_lds(f"scratch_load_lds_{size}")


def _data(operands: Operands, field: str, register: int) -> ProbeOperand | None:
    if field not in operands:
        return None
    format, bits = operands[field]
    return ProbeOperand(register, format if bits <= 64 else "B32", max(bits, 32))


def _float(name: str, source: ProbeOperand) -> ProbeOperand:
    """The operand of an atomic operation, as its name says what it is: tables of memory say `ANY`."""
    found = re.search(r"(pk_add_)?(b?f)(16|32|64)$", name)
    if found is None:
        return source
    kind = found[2].upper() + found[3]
    return ProbeOperand(source.register, f"PK2_{kind}" if found[1] else kind, source.bits)


def _of_lds(name: str, operands: Operands) -> Iterator[Probe]:
    sources = [
        _float(name, s) for f, r in (("data0", _DATA), ("data1", _MORE)) if (s := _data(operands, f, r)) is not None
    ]
    bits = operands["vdst"][1] if "vdst" in operands else 0
    result = each(_RESULT, bits) if bits else ()
    if name in ("ds_bpermute_b32", "ds_permute_b32"):
        index = ProbeOperand(12, "U32", 32)
        text = f"{name} v20, v12, v10\n{_WAIT}"
        yield Probe(name, text, MEMORY, (sources[0], index), ("v20",), "B32", indices=(12, 64))
        return
    if name == "ds_swizzle_b32":
        for pattern in ("0x8055", "0x041f", "0x7c1f", "0x401f", "0xc060", "0xe005"):
            lane = ProbeOperand(_DATA, "B32", 32)
            yield Probe(name, f"{name} v20, v10 offset:{pattern}\n{_WAIT}", MEMORY, (lane,), ("v20",), "B32")
        return
    if name in ("ds_append", "ds_consume"):
        yield Probe(name, f"{name} v20 offset:16\n{_WAIT}", MEMORY, (), ("v20",), "B32", "", _ROWS, True)
        return
    if "addtid" in name:
        text = f"{name} v20 offset:8" if "read" in name else f"{name} v10 offset:8"
        taken = sources or [ProbeOperand(_DATA, "B32", 32)]
        yield Probe(name, f"{text}\n{_WAIT}", MEMORY, tuple(taken), result, "B32", "", _ROWS, True)
        return
    words = [*([vectors(_RESULT, bits)] if bits else []), "v2", *(vectors(s.register, s.bits) for s in sources)]
    options = [""]
    if re.search(r"(read|write|wrxchg)2", name):
        far = 4 if "b32" in name else 2
        options = [f"offset0:0 offset1:{far if 'st64' in name else 1}"]
    elif "tr_b" in name:
        options = ["", "offset:512"]
    elif re.search("u8|b8|i8", name):
        options = ["offset:3", ""]
    elif re.search("16", name) and "pk" not in name:
        options = ["offset:2", ""]
    for option in options:
        text = f"{name} {', '.join(words)} {option}".rstrip()
        yield Probe(name, f"{text}\n{_WAIT}", MEMORY, tuple(sources), result, _float_of(name), "", _ROWS, True)


def _float_of(name: str) -> str:
    found = re.search(r"_(f32|f64)$", name)
    return found[1].upper() if found else "B32"


def _of_memory(kind: str, name: str, operands: Operands) -> Iterator[Probe]:
    atomic, store = "atomic" in name, "store" in name
    field = "vdata" if kind == "MUBUF" else "data" if atomic or store else "vdst"
    _, bits = operands[field]
    bits = max(bits, 32)
    data = _float(name, ProbeOperand(_DATA, "B32", bits)) if atomic or store else None
    if data is not None and bits == 64 and not atomic:
        data = ProbeOperand(_DATA, "B64", 64)
    swaps = "cmpswap" in name
    old = bits // 2 if swaps else bits
    taken = () if data is None else (data,)
    offset = 3 if "byte" in name else 2 if "short" in name else 8 if bits <= 64 else 0
    for returns in (False, True) if atomic else (False,):
        if kind == "MUBUF":
            # What an atomic operation returns replaces its data.
            register = _DATA if data is not None else _RESULT
            stored = each(register, old) if returns or data is None else ()
            word = vectors(register, bits)
            for address in (f"v2, s[52:55], 0 offen offset:{offset}", f"v2, s[52:55], 0 offen offset:{512 + offset}"):
                text = f"{name} {word}, {address}{' glc' if returns else ''}"
                for spelled in (text, text.replace(" glc", " sc0")):
                    yield Probe(name, f"{spelled}\n{_WAIT}", MEMORY, taken, stored, _float_of(name), "", _ROWS)
                    if not returns:
                        break
            continue
        stored = each(_RESULT, old) if returns or data is None else ()
        lead = [vectors(_RESULT, old)] if stored else []
        tail = [vectors(_DATA, bits)] if data is not None else []
        places = ["v[4:5]"] if kind == "FLAT" else ["v[4:5], off", "v2, s[48:49]"]
        for place in places:
            address, _, base = place.partition(", ")
            words = [*lead, address, *tail, *([base] if base else [])]
            for flag in (" glc", " sc0") if returns else ("",):
                text = f"{name} {', '.join(words)} offset:{offset}{flag}"
                yield Probe(name, f"{text}\n{_WAIT}", MEMORY, taken, stored, _float_of(name), "", _ROWS)


def _of_scratch(name: str, operands: Operands) -> Iterator[Probe]:
    """Accesses to a lane's scratch, 32 bytes of which are filled before; a store is read back."""
    store = "store" in name
    bits = max(operands["data" if store else "vdst"][1], 32)
    old, data = ProbeOperand(24, "B32", 128), ProbeOperand(_DATA, "B32", bits)
    before = _FILL_SCRATCH
    offset = 3 if "byte" in name else 2 if "short" in name else 4
    for address in ("off", "v2"):
        place = f"{address}, {vectors(_DATA, bits)}, off" if store else f"{vectors(_RESULT, bits)}, {address}, off"
        at = offset if bits <= 64 else 0
        text = f"{name} {place}{f' offset:{at}' if at else ''}\n{_WAIT}"
        if store:
            text += f"\nscratch_load_dwordx4 v[{_RESULT}:{_RESULT + 3}], {address}, off\n{_WAIT}"
        outputs = each(_RESULT, 128 if store else bits)
        yield Probe(name, text, MEMORY, (old, data) if store else (old,), outputs, "B32", before)


def _scratch_to_lds(name: str) -> Iterator[Probe]:
    """Loads from a lane's scratch into LDS, where M0 has the place; what is then in LDS is read back."""
    offset = 3 if "byte" in name else 2 if "short" in name else 4
    for address in ("off", "v2"):
        for at in (0, offset):
            text = f"{name} {address}, off{f' offset:{at}' if at else ''}\n{_WAIT}"
            yield Probe(name, text, MEMORY, (ProbeOperand(24, "B32", 128),), (), "B32", _FILL_SCRATCH, _ROWS, True)


def _direct(name: str) -> Probe:
    """A load from global memory, that of the probe's input, into LDS: M0 has the place there."""
    text = f"{name} v1, s[8:9] offset:0\n{_WAIT}"
    return Probe(name, text, MEMORY, (), (), "B32", "", _ROWS, True)
