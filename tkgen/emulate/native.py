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
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

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
NO_RELEASE: Final = 8
NO_ACQUIRE: Final = 16
WIDE_FLAG: Final = 32

u32, u64, i32, i64, ptr = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p


_ABI: Final = re.sub(r" *//.*", "", (_CORE / "abi.h").read_text(encoding="utf-8"))  # without comments
_SCALARS: Final[dict[str, Any]] = {
    "int": ctypes.c_int, "uint8_t": ctypes.c_uint8, "uint16_t": ctypes.c_uint16, "uint32_t": u32, "int32_t": i32,
    "uint64_t": u64, "int64_t": i64,
}  # fmt: skip
_STRUCTURES: Final[dict[str, Any]] = {}
S = TypeVar("S", bound=type[ctypes.Structure])


def _type(text: str, pointer: Callable[[Any], Any]) -> Any:
    """A type of `abi.h`; `pointer` makes that of the address of a scalar."""
    base, stars = re.sub(r"\b(const|volatile)\b|[* ]", "", text), text.count("*")
    if base == "char":
        return ctypes.c_char_p if stars == 1 else ctypes.POINTER(ctypes.c_char_p)
    if base in _STRUCTURES:
        return ctypes.POINTER(_STRUCTURES[base]) if stars else _STRUCTURES[base]
    if base in _SCALARS:
        return pointer(_SCALARS[base]) if stars else _SCALARS[base]
    return ptr if stars else None


def _structure(name: str) -> Callable[[S], S]:
    """Give a class the fields of a structure of `abi.h`; those that hold the address of scalars take any address."""

    def with_fields(made: S) -> S:
        found = re.search(rf"^struct {name} {{(.*?)^}};", _ABI, re.DOTALL | re.MULTILINE)
        assert found is not None
        fields: list[tuple[str, Any]] = []
        for declaration in filter(str.strip, found[1].split(";")):
            first, *others = declaration.split(", ")
            kind, _, leading = first.strip().rpartition(" ")
            for one in (leading, *others):
                field, _, count = one.strip("(*)]").partition("[")  # `a`, `a[3]`, or `(*a)()`
                plain = ptr if "(" in one else _type(kind, lambda _: ptr)
                fields.append((field, plain * int(count) if count else plain))
        made._fields_ = fields
        _STRUCTURES[name] = made
        return made

    return with_fields


@_structure("Op")
class Op(ctypes.Structure):
    """`Op`: an instruction, decoded."""


@_structure("TkRegion")
class Region(ctypes.Structure):
    """`TkRegion`."""


@_structure("TkLaunch")
class Launch(ctypes.Structure):
    """`TkLaunch`."""


@_structure("TkParty")
class Party(ctypes.Structure):
    """`TkParty`."""


@_structure("TkFinding")
class RawFinding(ctypes.Structure):
    """`TkFinding`."""


@_structure("TkInterval")
class Interval(ctypes.Structure):
    """`TkInterval`."""


@_structure("TkRelease")
class Release(ctypes.Structure):
    """`TkRelease`."""


@_structure("TkKnown")
class Known(ctypes.Structure):
    """`TkKnown`."""


@_structure("TkLoss")
class Loss(ctypes.Structure):
    """`TkLoss`."""


@_structure("TkTraceEntry")
class TraceEntry(ctypes.Structure):
    """`TkTraceEntry`."""


@_structure("TkSpan")
class RegisterSpan(ctypes.Structure):
    """`TkSpan`."""


def cache_directory() -> Path:
    """Return the folder of compiled cores."""
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
    """Return the facts about the processor on which `-march=native` depends."""
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
    for result, name, arguments in re.findall(r"^TK_API (.+?)\b(tk_\w+)\((.*?)\);", _ABI, re.MULTILINE):
        function = getattr(library, name)
        function.restype = _type(result, ctypes.POINTER)
        function.argtypes = [_type(one.rpartition(" ")[0], ctypes.POINTER) for one in arguments.split(", ") if one]
    return library


def operations() -> list[str]:
    """Every mnemonic that the core implements."""
    names: list[str] = []
    while name := core().tk_operation(len(names)):
        names.append(name.decode())
    return names
