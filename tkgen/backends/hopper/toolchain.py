"""nvcc: found, run, and what it made read back. Compiling needs no GPU and no driver.

nvcc is taken from where the caller says, TKGEN_NVCC, PATH, CUDA_HOME or CUDA_PATH, or the wheels of the extra `cuda`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tkgen.ir.tensors import DType
from tkgen.packages import install_line
from tkgen.toolchain.cache import Cache, cache_key, hash_headers
from tkgen.toolchain.compiler import NoCompilerError, ToolchainError
from tkgen.toolchain.files import write_atomic
from tkgen.toolchain.process import run_tool

STANDARD = "-std=c++20"
NOTHING = "no CUDA compiler found: no nvcc in TKGEN_NVCC, PATH, CUDA_HOME or the wheels of the extra `cuda`; "


@dataclass(frozen=True)
class Nvcc:
    """A compiler for Hopper: its path, where it was found, the release it says it is."""

    path: Path
    origin: str
    version: str

    @property
    def disassembler(self) -> Path | None:
        """cuobjdump: beside it, on PATH, or beside another nvcc that was found."""
        onpath = shutil.which("cuobjdump")
        places = [self.path, *([Path(onpath)] if onpath else []), *(path for _, path in candidates())]
        return next((p.with_name("cuobjdump") for p in places if p.with_name("cuobjdump").is_file()), None)


@dataclass(frozen=True)
class Figures:
    """Figures of the machine code: bytes, and registers of a thread at the launch.

    `instructions` counts the opcodes of the whole kernel, without their modifiers; empty where nothing disassembles.
    """

    kernel: str
    registers: int
    spill_bytes: int
    stack_bytes: int
    static_shared_bytes: int
    instructions: Mapping[str, int] = field(default_factory=dict)

    @property
    def products(self) -> int | None:
        """Matrix instructions; None where nothing disassembles."""
        return sum(self.instructions.get(name, 0) for name in MATRIX) if self.instructions else None


MATRIX = ("HGMMA", "QGMMA", "IGMMA")
"""wgmma of factors of 16 bits, of 8-bit floats, of integers of 8 bits (cuobjdump -sass)."""


def matrix_opcode(dtype: DType) -> str:
    """That of products of this type."""
    return MATRIX[2 if dtype.whole else dtype.bits == 8]


@dataclass(frozen=True)
class Compiled:
    """A cubin, its figures, what the compiler remarked, and its disassembly where there is a disassembler."""

    cubin: bytes
    figures: Figures
    remarks: str
    sass: str = field(repr=False)


def candidates(environ: Mapping[str, str] | None = None, explicit: str | None = None) -> Iterator[tuple[str, Path]]:
    """Paths at which an nvcc may be, in the order of preference, each with how it was found."""
    env = os.environ if environ is None else environ
    for origin, command in (("--cxx", explicit), ("TKGEN_NVCC", env.get("TKGEN_NVCC")), ("PATH", "nvcc")):
        found = shutil.which(command, path=env.get("PATH")) if command else None
        if found:
            yield origin, Path(found)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if env.get(variable):
            yield variable, Path(env[variable]) / "bin" / "nvcc"
    wheels = importlib.util.find_spec("nvidia")
    for folder in (wheels.submodule_search_locations or ()) if wheels else ():
        yield from (("wheel", path) for path in sorted(Path(folder).glob("cu*/bin/nvcc"), reverse=True))


def find_nvcc(explicit: str | None = None, environ: Mapping[str, str] | None = None) -> Nvcc:
    """The first nvcc that runs. Raises NoCompilerError, which names what was tried and the wheels to install."""
    tried = []
    for origin, path in candidates(environ, explicit):
        version = _version(path)
        if version:
            return Nvcc(path, origin, version)
        tried.append(f"{path} ({origin}) does not run")
    said = "; ".join(tried) + "; " if tried else ""
    raise NoCompilerError(f"{NOTHING}{said}{install_line('cuda')}")


@cache
def _version(path: Path) -> str:
    """The release of an nvcc, such as 13.0; "" where it does not run."""
    if not path.is_file():
        return ""
    done = run_tool([str(path), "--version"], timeout=60)
    found = re.search(r"release (\d+\.\d+)", done.stdout)
    return found[1] if done.ok and found else ""


def compile_cubin(
    source: str, name: str, architecture: str, nvcc: Nvcc, include: Sequence[Path], cache: Cache | None = None
) -> Compiled:
    """Machine code of a kernel. Raises ToolchainError with the compiler's words where it is refused."""
    key = cache_key("cubin", source, architecture, str(nvcc.path), nvcc.version, hash_headers(include))
    entry = cache.get(key) if cache else None
    if entry is None or (not entry["sass"] and nvcc.disassembler):  # it may have been built before there was one
        entry = _compile(source, name, architecture, nvcc, include)
        if cache:
            cache.put(key, entry)
    text = {part: entry[part].decode("utf-8") for part in ("remarks", "sass")}
    figures = read_figures(text["remarks"], text["sass"])
    return Compiled(entry["cubin"], figures, text["remarks"], text["sass"])


def located(source: str, name: str, architecture: str, nvcc: Nvcc, include: Sequence[Path],
            cache: Cache | None = None) -> tuple[str, str]:  # fmt: skip
    """The disassembly of a kernel with the lines of its source, and with the registers that hold a value.

    Raises ToolchainError where there is no nvdisasm beside cuobjdump, or it fails.
    """
    key = cache_key("lines", source, architecture, str(nvcc.path), nvcc.version, hash_headers(include))
    entry = cache.get(key) if cache else None
    if entry is None:
        tool = nvcc.disassembler and nvcc.disassembler.with_name("nvdisasm")
        if tool is None or not tool.is_file():
            raise ToolchainError(f"there is no nvdisasm beside a cuobjdump; {install_line('cuda')}")
        cubin = _compile(source, name, architecture, nvcc, include, ("-lineinfo",))["cubin"]
        with tempfile.TemporaryDirectory(prefix="tkgen-") as folder:
            write_atomic(Path(folder) / "kernel.cubin", cubin)
            entry = {}
            for part, options in (("lines", ("-gi",)), ("registers", ("-lrm", "narrow"))):
                done = run_tool([str(tool), "-c", *options, str(Path(folder) / "kernel.cubin")])
                if not done.ok:
                    raise ToolchainError(f"nvdisasm fails with status {done.status}", output=done.stderr)
                entry[part] = done.stdout.encode()
        if cache:
            cache.put(key, entry)
    return entry["lines"].decode(), entry["registers"].decode()


def _compile(
    source: str, name: str, architecture: str, nvcc: Nvcc, include: Sequence[Path], options: Sequence[str] = ()
) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="tkgen-") as folder:
        text, cubin = Path(folder) / f"{name}.cu", Path(folder) / f"{name}.cubin"
        write_atomic(text, source)
        target = f"arch=compute_{architecture.removeprefix('sm_')},code={architecture}"
        command = [str(nvcc.path), STANDARD, "-O3", "-gencode", target, "-Xptxas", "-v", *options,
                   *(f"-I{folder}" for folder in include), "-cubin", "-o", str(cubin), str(text)]  # fmt: skip
        done = run_tool(command, timeout=600)
        remarks = (done.stdout + done.stderr).replace(folder + os.sep, "")
        if not done.ok or not cubin.is_file():
            first = next((line for line in remarks.splitlines() if "error" in line), f"status {done.status}")
            raise ToolchainError(f"nvcc {nvcc.version} refuses {name}.cu: {first}", output=remarks,
                                 command=tuple(command))  # fmt: skip
        sass = ""
        if nvcc.disassembler:
            sass = run_tool([str(nvcc.disassembler), "-sass", str(cubin)]).stdout
        return {"cubin": cubin.read_bytes(), "remarks": remarks.encode(), "sass": sass.encode()}


def read_figures(remarks: str, sass: str) -> Figures:
    """The figures of the one kernel that ptxas speaks of (`-v`), and its opcodes."""

    def number(pattern: str) -> int:
        found = re.search(pattern, remarks)
        return int(found[1]) if found else 0

    kernel = re.search(r"entry function '(\w+)'", remarks)
    if kernel is None:
        raise ToolchainError("ptxas says nothing of the kernel", output=remarks)
    spilled = number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads")
    opcodes = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)", sass)
    return Figures(kernel[1], number(r"Used (\d+) registers"), spilled, number(r"(\d+) bytes stack frame"),
                   number(r"(\d+) bytes smem"), dict(Counter(opcodes)))  # fmt: skip


SERIALIZED = re.compile(r"C75\d\d|serialized|setmaxnreg.*ignored", re.IGNORECASE)


def lost(remarks: str) -> list[str]:
    """Remarks of ptxas that say a promise is broken: products serialised, registers not moved."""
    return [line.strip() for line in remarks.splitlines() if SERIALIZED.search(line)]


def lacks_registers(line: str) -> bool:
    """Return True if such a remark names too few registers as the reason."""
    return "insufficient register" in line
