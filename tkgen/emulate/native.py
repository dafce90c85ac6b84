"""The interpreter core in C++ (`core/`): found in the cache or compiled on first use, and called through ctypes.

A plain C interface instead of pybind11: it needs no Python headers, so any host compiler will do - also the one in the
`ziglang` wheel - and one library serves every Python version. Calls release the interpreter lock, which lets blocks run
on threads. The library is cached by the hash of its sources and of the machine, in `$TKGEN_CACHE`, else
`$XDG_CACHE_HOME/tkgen`, else `~/.cache/tkgen`.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final

from tkgen.emulate.errors import EmulateError
from tkgen.packages import install_line

_CORE: Final = Path(__file__).parent / "core"
_FLAGS: Final = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-fvisibility=hidden",
    # Each operation rounds by itself; what is fused is written std::fma.
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
)
_TIMEOUT: Final = 300

SAME_VALUES: Final = 1  # `FindingNote`
WRITTEN_LATER: Final = 2
IN_ANOTHER_L2: Final = 4

u32, u64, i32, i64, ptr = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p


class Region(ctypes.Structure):
    """`TkRegion`."""

    _fields_ = (
        ("base", u64),
        ("size", u64),
        ("host", ptr),
        ("writable", u32),
        ("id", u32),
        ("payload", ptr),
        ("elements", u64),
        ("format", u32),
    )


class Launch(ctypes.Structure):
    """`TkLaunch`."""

    _fields_ = (
        ("ops", ptr),
        ("op_count", u64),
        ("text_base", u64),
        ("entry", u64),
        ("names", ctypes.POINTER(ctypes.c_char_p)),
        ("name_count", u64),
        ("regions", ctypes.POINTER(Region)),
        ("region_count", u64),
        ("shared_base", u64),
        ("private_base", u64),
        ("scratch_base", u64),
        ("printed_base", u64),
        ("printed_bytes", u64),
        ("host_base", u64),
        ("host_bytes", u64),
        ("interrupt", ptr),
        ("budget", u64),
        ("seed", u64),
        ("trace_limit", u64),
        ("target", u32),
        ("policy", u32),
        ("watch", u32),
        ("poison", u32),
        ("grid", u32 * 3),
        ("block", u32 * 3),
        ("lds_bytes", u32),
        ("scratch_bytes", u32),
        ("user_sgprs", u32 * 32),
        ("user_sgpr_count", u32),
        ("block_id_enable", u32),
        ("block_info_enable", u32),
        ("scratch_offset_enable", u32),
        ("mode", u32),
        ("split", u32),
        ("trace_wave", i32),
        ("trace_lanes", u32),
        ("dataless", u32),
        ("every_pass", u32),
        ("algebra", u32),
        ("cancel", ptr),
        ("flags", ptr),
    )


class Party(ctypes.Structure):
    """`TkParty`."""

    _fields_ = (
        ("wave", u32),
        ("index", u32),
        ("instance", u32),
        ("epoch", u32),
        ("done", u32),
        ("writes", u32),
    )


class RawFinding(ctypes.Structure):
    """`TkFinding`."""

    _fields_ = (
        ("kind", u32),
        ("fatal", u32),
        ("block", u32 * 3),
        ("lane", u32),
        ("count", u64),
        ("address", u64),
        ("size", u32),
        ("space", u32),
        ("other_lane", u32),
        ("note", u32),
        ("a", Party),
        ("b", Party),
    )


class Interval(ctypes.Structure):
    """`TkInterval`."""

    _fields_ = (
        ("region", u32),
        ("block", u32),
        ("index", u32),
        ("writes", u32),
        ("begin", u64),
        ("end", u64),
        ("unchanged", u32),
        ("clock", u32),
        ("wave", u32),
        ("epoch", u32),
        ("completed", u32),
        ("scoped", u32),
    )


class Release(ctypes.Structure):
    """`TkRelease`."""

    _fields_ = (("block", u32), ("number", u32), ("wave", u32), ("epoch", u32), ("written_back", u32))


class Known(ctypes.Structure):
    """`TkKnown`."""

    _fields_ = (("clock", u32), ("number", u32), ("block", u64))


class Loss(ctypes.Structure):
    """`TkLoss`."""

    _fields_ = (("index", u32), ("count", u64), ("reason", ctypes.c_char_p))


class TraceEntry(ctypes.Structure):
    """`TkTraceEntry`."""

    _fields_ = (
        ("wave", u32),
        ("index", u32),
        ("lanes", i64),
        ("exec", u64),
        ("size", u32),
        ("access", u32),
        ("second", i32),
        ("lds_base", u32),
    )


class RegisterSpan(ctypes.Structure):
    """`TkSpan`."""

    _fields_ = (("index", u32), ("first", ctypes.c_uint16), ("count", ctypes.c_uint16), ("writes", u32))


def cache_directory() -> Path:
    """Where compiled cores are kept."""
    if chosen := os.environ.get("TKGEN_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tkgen"


def host_compiler() -> list[str]:
    """The command of the first C++ compiler found for this machine; raises EmulateError with what to install."""
    if chosen := os.environ.get("TKGEN_HOST_CXX"):
        return chosen.split()
    for name in ("c++", "g++", "clang++", *(f"clang++-{n}" for n in range(24, 13, -1))):
        if path := shutil.which(name):
            return [path]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "c++"]
    raise EmulateError(
        "the emulator needs a C++ compiler once, and found none; install one with `apt install g++`, "
        f"or `{install_line('toolchain')}`, which brings its own"
    )


def _processor() -> str:
    """What `-march=native` depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())


def _key(compiler: list[str], sources: Path, link: Sequence[str]) -> str:
    digest = hashlib.sha256(repr((_FLAGS, compiler, *link, platform.machine(), _processor())).encode())
    for path in sorted(sources.iterdir()):
        if path.suffix in (".cpp", ".h", ".map"):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:20]


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmulateError(f"compiling the emulator's core with {command[0]} failed: {error}") from error
    if done.returncode:
        raise EmulateError(f"compiling the emulator's core with {command[0]} failed:\n{done.stderr[:2000]}")


def build(sources: Path = _CORE, link: Sequence[str] = ()) -> Path:
    """The library compiled from a folder of C++; compiles it if the cache has none.

    Its name holds the hash of its content: a damaged library would take the process down, so none is loaded. Other
    processes may build the same one meanwhile. `link` are more arguments of the linker.
    """
    compiler = host_compiler()
    directory = cache_directory() / "emulate"
    name = f"{sources.name}-{_key(compiler, sources, link)}"
    try:
        for library in directory.glob(f"{name}-*.so"):
            if library.stem == f"{name}-{_checksum(library)}":
                return library
            library.unlink(missing_ok=True)
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory, prefix="build-") as folder:
            made = Path(folder) / "made.so"
            try:
                _compile(compiler, sources, made, [*link], native=True)
            except EmulateError:  # perhaps this compiler does not know its machine
                _compile(compiler, sources, made, [*link], native=False)
            library = directory / f"{name}-{_checksum(made)}.so"
            os.replace(made, library)
    except OSError as error:
        raise EmulateError(f"cannot keep the emulator in {directory}: {error.strerror}; set TKGEN_CACHE") from error
    return library


def _checksum(library: Path) -> str:
    return hashlib.sha256(library.read_bytes()).hexdigest()[:20]


def _compile(compiler: list[str], sources: Path, library: Path, link: list[str], native: bool) -> None:
    flags = [*_FLAGS, *(["-march=native"] if native else [])]

    def one(source: Path) -> str:
        made = str(library.with_name(f"{source.stem}.o"))
        _run([*compiler, *flags, "-c", str(source), "-o", made])
        return made

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = list(pool.map(one, sorted(sources.glob("*.cpp"))))
    _run([*compiler, "-shared", *objects, *link, "-o", str(library)])


@cache
def core() -> ctypes.CDLL:
    """The loaded core."""
    library = ctypes.CDLL(str(build()))
    library.tk_new.restype = ptr
    library.tk_new.argtypes = (ctypes.POINTER(Launch),)
    library.tk_free.argtypes = (ptr,)
    library.tk_run.argtypes = (ptr, ctypes.POINTER(u64), u64)
    library.tk_run.restype = ctypes.c_int
    library.tk_block_dependent.argtypes = (ptr,)
    library.tk_instructions.argtypes = (ptr,)
    library.tk_instructions.restype = u64
    library.tk_counts.argtypes = (ptr,)
    library.tk_counts.restype = ctypes.POINTER(u64)
    for name, of in (
        ("findings", RawFinding),
        ("barriers", u32),
        ("intervals", Interval),
        ("releases", Release),
        ("known", Known),
        ("losses", Loss),
        ("trace", TraceEntry),
        ("trace_lanes", u64),
        ("spans", RegisterSpan),
    ):
        function = getattr(library, f"tk_{name}")
        function.argtypes = (ptr, ctypes.POINTER(u64))
        function.restype = ctypes.POINTER(of)
    library.tk_flags_new.restype = ptr
    library.tk_flags_free.argtypes = (ptr,)
    library.tk_ring_hash.argtypes = (ctypes.c_char_p, u32, u32)
    library.tk_ring_hash.restype = u32
    library.tk_ring_modulus.argtypes = (u32,)
    library.tk_ring_modulus.restype = u32
    library.tk_operation.argtypes = (u64,)
    library.tk_operation.restype = ctypes.c_char_p
    return library


def operations() -> list[str]:
    """Every mnemonic that the core implements."""
    names: list[str] = []
    while name := core().tk_operation(len(names)):
        names.append(name.decode())
    return names
