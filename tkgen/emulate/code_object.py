"""AMDGPU code objects: kernels, their descriptors and metadata, loadable bytes, and the debug line table.

Reads what clang, hipcc or Triton leave: a bare ELF, or the one device entry of an uncompressed offload bundle. Layouts
(kernel descriptor, `NT_AMDGPU_METADATA`, relocations) are those of LLVM's "User Guide for AMDGPU Backend".

    code = load(Path("k.hsaco"))
    code.kernel("gemm").arguments
    code.line(0x1700)
"""

from __future__ import annotations

import io
import struct
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

import msgpack
from elftools.common.exceptions import DWARFError, ELFError
from elftools.construct.core import ConstructError
from elftools.elf.elffile import ELFFile

from tkgen.emulate.bundle import unbundle
from tkgen.emulate.decode import TARGETS, Program, decode
from tkgen.emulate.errors import EmulateError
from tkgen.targets import load_target

_EM_AMDGPU: Final = 224
_NT_AMDGPU_METADATA: Final = 32
# e_flags & 0xff (AMDGPUUsage, "AMDGPU Processors").
_MACHINES: Final = {load_target(name).machine: name for name in TARGETS}
_R_ABS64: Final = 3
_R_RELATIVE64: Final = 13
# Where the image stands in the guest's address space; instruction addresses stay those of the ELF in all reports.
LOAD_BASE: Final = 0x7000_0000_0000
_MAX_IMAGE: Final = 1 << 28
_MAX_KERNARG: Final = 1 << 16
_NO_KERNEL: Final = "it holds no code: no kernel was compiled into it (a template needs a launch, or an instance)"
# What the readers of ELF, DWARF and msgpack raise on broken input.
BROKEN: Final = (
    ELFError,
    DWARFError,
    ConstructError,
    struct.error,
    LookupError,
    ValueError,
    ArithmeticError,
    AttributeError,
    TypeError,
    AssertionError,
    MemoryError,
    RecursionError,
)


@dataclass(frozen=True)
class Argument:
    """One kernel argument: where it lies in the kernarg segment and what it is (`by_value`, `global_buffer`, ...)."""

    name: str
    offset: int
    size: int
    kind: str


@dataclass(frozen=True)
class Descriptor:
    """The 64-byte kernel descriptor, field by field (AMDGPUUsage, "Kernel Descriptor")."""

    group_bytes: int
    private_bytes: int
    kernarg_bytes: int
    entry_offset: int
    rsrc1: int
    rsrc2: int
    rsrc3: int
    properties: int
    preload_length: int
    preload_offset: int

    @classmethod
    def parse(cls, data: bytes) -> Descriptor:
        """From the symbol's bytes."""
        group, private, kernarg, _, entry = struct.unpack_from("<IIIIq", data, 0)
        rsrc3, rsrc1, rsrc2, properties, preload = struct.unpack_from("<IIIHH", data, 44)
        return cls(group, private, kernarg, entry, rsrc1, rsrc2, rsrc3, properties, preload & 127, preload >> 7)


@dataclass(frozen=True)
class Kernel:
    """One kernel: its entry address in the ELF's address space, descriptor and metadata."""

    name: str
    entry: int
    descriptor: Descriptor
    arguments: tuple[Argument, ...]
    kernarg_bytes: int
    most_threads: int
    dynamic_stack: bool
    empty: bool
    metadata: dict[str, Any] = field(repr=False)

    @property
    def explicit_arguments(self) -> tuple[Argument, ...]:
        """Those that the caller passes."""
        return tuple(a for a in self.arguments if not a.kind.startswith("hidden_"))


@dataclass(frozen=True)
class CodeObject:
    """A loaded code object: `image` is the memory from address 0 up, with relocations applied for `base`."""

    target: str
    kernels: tuple[Kernel, ...]
    image: bytes = field(repr=False)
    segments: tuple[tuple[int, int, bool], ...]  # address, size, writable
    text: tuple[int, int]  # address and size of the executable bytes
    elf: bytes = field(repr=False)
    base: int = LOAD_BASE  # where the image stands

    def kernel(self, name: str | None = None) -> Kernel:
        """The kernel called `name` (mangled or not); without a name, the only one."""
        if not self.kernels:
            raise EmulateError("the code object has no kernel")
        if name is None:
            if len(self.kernels) == 1:
                return self._with_code(self.kernels[0])
            raise EmulateError(f"the code object has {len(self.kernels)} kernels; choose one of {self._listed()}")
        for kernel in self.kernels:
            if kernel.name == name:
                return self._with_code(kernel)
        partial = [k for k in self.kernels if name in k.name]
        if len(partial) == 1:
            return self._with_code(partial[0])
        raise EmulateError(f"no kernel {name!r} in the code object; it has {self._listed()}")

    def _with_code(self, kernel: Kernel) -> Kernel:
        """`kernel`, unless it has no instructions: those at its address belong to another."""
        if kernel.empty:
            raise EmulateError(_left_out(kernel.name))
        return kernel

    def _listed(self) -> str:
        return ", ".join(k.name for k in self.kernels)

    @property
    def code(self) -> bytes:
        """The bytes of the text segment."""
        address, size = self.text
        return self.image[address : address + size]

    @cached_property
    def program(self) -> Program:
        """The text segment, decoded."""
        return decode(self.code, self.target)

    @cached_property
    def variables(self) -> dict[str, range]:
        """The variables that the host can ask for by name, and the bytes of the image that each has."""
        elf: Any = ELFFile(io.BytesIO(self.elf))
        table = elf.get_section_by_name(".dynsym")
        return {
            s.name: range(s["st_value"], s["st_value"] + s["st_size"])
            for s in (table.iter_symbols() if table is not None else ())
            if s["st_info"]["type"] == "STT_OBJECT" and s["st_shndx"] != "SHN_UNDEF" and not s.name.endswith(".kd")
        }

    def variable(self, name: str) -> range | None:
        """The bytes of the image that the variable `name` has; None where there is none."""
        if name.encode() not in self.elf:
            return None
        symbols = (s for table in _tables(ELFFile(io.BytesIO(self.elf))) for s in table.iter_symbols())
        found = next((s for s in symbols if s.name == name and s["st_shndx"] != "SHN_UNDEF"), None)
        return None if found is None else range(found["st_value"], found["st_value"] + found["st_size"])

    @cached_property
    def _lines(self) -> tuple[list[int], list[tuple[str, int] | None]]:
        return _line_table(self.elf)

    def line(self, address: int) -> tuple[str, int] | None:
        """Source file and line of the instruction at `address`, if there is debug information for it."""
        addresses, places = self._lines
        i = bisect_right(addresses, address) - 1
        return places[i] if i >= 0 else None


def load(source: Path | str | bytes | CodeObject, *, target: str | None = None, base: int = LOAD_BASE) -> CodeObject:
    """Read a code object from a file or from bytes; raises EmulateError with what is wrong with it.

    Of a bundle the one for `target` is taken, or else the only one that it has. `base` is the address of its image.
    """
    if isinstance(source, CodeObject):
        return source
    if isinstance(source, bytes):
        data, name = source, "the code object"
    else:
        name = str(source)
        try:
            data = Path(source).read_bytes()
        except OSError as error:
            raise EmulateError(f"cannot read {name}: {error.strerror}") from error
    try:
        return _parse(unbundle(data, name, target), name, base)
    except BROKEN as error:
        said = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise EmulateError(f"{name} is not a usable AMDGPU code object: {said}") from error


@lru_cache(maxsize=4)  # many launches of one code object follow each other
def _parse(data: bytes, name: str, base: int) -> CodeObject:
    elf = ELFFile(io.BytesIO(data))
    if elf["e_machine"] not in ("EM_AMDGPU", _EM_AMDGPU):
        raise EmulateError(f"{name} is an ELF file, but not for AMD GPUs")
    machine = elf["e_flags"] & 0xFF
    if machine not in _MACHINES:
        raise EmulateError(
            f"{name} is for another GPU (machine 0x{machine:x}); known are {', '.join(_MACHINES.values())}"
        )
    if elf["e_type"] != "ET_DYN":
        raise EmulateError(f"{name} is not linked; link it with ld.lld -shared")
    image, segments, text = _load_segments(elf)
    _relocate(elf, image, base)
    symbols = _symbols(elf)
    if not text[1]:
        sizes = _functions(elf)
        empty = ", ".join(sorted(name[:-3] for name in symbols if name.endswith(".kd") and sizes.get(name[:-3]) == 0))
        raise ValueError(_left_out(empty) if empty else _NO_KERNEL)
    kernels = tuple(_kernels(elf, bytes(image), symbols))
    return CodeObject(_MACHINES[machine], kernels, bytes(image), segments, text, data, base)


def _load_segments(elf: ELFFile) -> tuple[bytearray, tuple[tuple[int, int, bool], ...], tuple[int, int]]:
    loads = [s for s in elf.iter_segments() if s["p_type"] == "PT_LOAD" and s["p_memsz"]]
    if not loads:
        raise ValueError("no loadable segment")
    top = max(s["p_vaddr"] + s["p_memsz"] for s in loads)
    if top > _MAX_IMAGE:
        raise ValueError(f"an image of {top} bytes is too large")
    image = bytearray(top)
    segments = []
    text = (0, 0)
    for s in loads:
        body = s.data()[: s["p_memsz"]]
        image[s["p_vaddr"] : s["p_vaddr"] + len(body)] = body
        segments.append((s["p_vaddr"], s["p_memsz"], bool(s["p_flags"] & 2)))
        if s["p_flags"] & 1:
            text = (s["p_vaddr"], s["p_memsz"])
    if text[0] % 4:
        raise ValueError("its code is not aligned")
    return image, tuple(segments), text


def _relocate(elf: Any, image: bytearray, base: int) -> None:
    for section in elf.iter_sections():
        if section["sh_type"] != "SHT_RELA" or not section["sh_flags"] & 2:
            continue
        symbols = elf.get_section(section["sh_link"])
        for r in section.iter_relocations():
            value = base + r["r_addend"]
            if r["r_info_type"] == _R_ABS64:
                value += symbols.get_symbol(r["r_info_sym"])["st_value"]
            elif r["r_info_type"] != _R_RELATIVE64:
                raise ValueError(f"relocation of type {r['r_info_type']} is not supported")
            if not 0 <= r["r_offset"] <= len(image) - 8:
                raise ValueError("a relocation points outside of the image")
            struct.pack_into("<Q", image, r["r_offset"], value & 0xFFFF_FFFF_FFFF_FFFF)


def _left_out(kernels: str) -> str:
    return (
        f"{kernels} has no instructions: whatever it is given it does what C++ leaves undefined, such as an access "
        "through a null pointer, so the compiler left all of it out"
    )


def _functions(elf: Any) -> dict[str, int]:
    """The functions of the symbol tables and their sizes in bytes."""
    tables = filter(None, (elf.get_section_by_name(name) for name in (".dynsym", ".symtab")))
    return {
        s.name: s["st_size"] for table in tables for s in table.iter_symbols() if s["st_info"]["type"] == "STT_FUNC"
    }


def _symbols(elf: Any) -> dict[str, int]:
    return {s.name: s["st_value"] for t in _tables(elf) for s in t.iter_symbols() if s["st_shndx"] != "SHN_UNDEF"}


def _tables(elf: Any) -> list[Any]:
    """The tables of symbols that there are."""
    return [t for t in map(elf.get_section_by_name, (".dynsym", ".symtab")) if t is not None]


def _kernels(elf: Any, image: bytes, symbols: dict[str, int]) -> list[Kernel]:
    notes = [s for s in elf.iter_sections() if s["sh_type"] == "SHT_NOTE"]
    for section in notes:
        for note in section.iter_notes():
            if note["n_name"] == "AMDGPU" and note["n_type"] in (_NT_AMDGPU_METADATA, "NT_AMDGPU_METADATA"):
                description = note["n_descdata"] if "n_descdata" in note else note["n_desc"]
                raw = description.encode("latin-1") if isinstance(description, str) else bytes(description)
                metadata = msgpack.unpackb(raw, strict_map_key=False)
                sizes = _functions(elf)
                return [_kernel(k, image, symbols, sizes) for k in metadata["amdhsa.kernels"]]
    return []


def _kernel(metadata: dict[str, Any], image: bytes, symbols: dict[str, int], sizes: dict[str, int]) -> Kernel:
    address = symbols[metadata[".symbol"]]
    name = str(metadata[".name"])
    others = {other for other, at in symbols.items() if at == symbols.get(name) and sizes.get(other)}
    descriptor = Descriptor.parse(image[address : address + 64])
    arguments = tuple(
        Argument(str(a.get(".name", f"#{i}")), int(a[".offset"]), int(a[".size"]), str(a[".value_kind"]))
        for i, a in enumerate(metadata.get(".args", ()))
    )
    kernarg = max(descriptor.kernarg_bytes, int(metadata.get(".kernarg_segment_size", 0)))
    if any(a.offset < 0 or a.size < 0 or a.offset + a.size > kernarg for a in arguments) or kernarg > _MAX_KERNARG:
        raise ValueError("an argument lies outside of the kernarg segment")
    return Kernel(
        name,
        address + descriptor.entry_offset,
        descriptor,
        arguments,
        kernarg,
        int(metadata.get(".max_flat_workgroup_size", 1024)),
        bool(descriptor.properties & 1 << 11 or metadata.get(".uses_dynamic_stack")),
        sizes.get(name) == 0 and bool(others),
        metadata,
    )


def _line_table(elf: bytes) -> tuple[list[int], list[tuple[str, int] | None]]:
    """Sorted addresses and the place that holds from each on; None after the end of a sequence."""
    rows: list[tuple[int, tuple[str, int] | None]] = []
    try:
        file = ELFFile(io.BytesIO(elf))
        if not file.has_dwarf_info():
            return [], []
        dwarf = file.get_dwarf_info(relocate_dwarf_sections=False)
        for unit in dwarf.iter_CUs():
            program = dwarf.line_program_for_CU(unit)
            if program is not None:
                rows += _line_rows(program)
    except BROKEN:
        return [], []  # broken debug information costs the line numbers, nothing else
    # At one address the last row of the table holds; an end of sequence gives way to the next function's start.
    table: dict[int, tuple[str, int] | None] = {}
    for address, place in rows:
        if place is not None or address not in table:
            table[address] = place
    addresses = sorted(table)
    return addresses, [table[a] for a in addresses]


def _line_rows(program: Any) -> list[tuple[int, tuple[str, int] | None]]:
    files = program["file_entry"]
    base = 0 if program["version"] >= 5 else 1
    directories = program["include_directory"]

    def file_name(index: int) -> str:
        entry = files[index - base]
        name = str(entry.name.decode("utf-8", "replace"))
        directory = directories[entry.dir_index - base] if 0 <= entry.dir_index - base < len(directories) else b""
        if name.startswith("/") or (program["version"] >= 5 and entry.dir_index == 0) or not directory:
            return name
        return f"{directory.decode('utf-8', 'replace')}/{name}"

    rows: list[tuple[int, tuple[str, int] | None]] = []
    last: tuple[str, int] | None = None
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        if state.end_sequence:
            rows.append((state.address, None))
            last = None
        else:
            # Line 0 marks code without a line of its own; the line before it is the better answer.
            last = (file_name(state.file), state.line) if state.line else last
            rows.append((state.address, last))
    return rows


def patched(code: CodeObject, words: Mapping[int, int]) -> CodeObject:
    """The code object with other dwords at some addresses of its text."""
    image = bytearray(code.image)
    for address, word in words.items():
        struct.pack_into("<I", image, address, word)
    made = replace(code, image=bytes(image))
    made.__dict__["_lines"] = code._lines  # which stay what they are, and take long to read
    return made
