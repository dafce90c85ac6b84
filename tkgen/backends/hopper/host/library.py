"""Kernels compiled for the host: a shared library for each text, kept in the cache of the toolchain.

The runtime is compiled once, with all optimisations, into an object that each kernel's library is linked with.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from tkgen.backends.hopper.host.source import HOST, host_source
from tkgen.emulate.errors import EmulateError
from tkgen.emulate.native import cache_directory, host_compiler
from tkgen.packages import install_line
from tkgen.toolchain.compiler import ToolchainError

RUNTIME: Final = Path(__file__).parent / "runtime"
COMMON: Final = (
    "-std=c++20",
    "-fPIC",
    "-w",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-ffp-contract=off",
    "-fno-sanitize=all",
)
KERNEL_FLAGS: Final = (*COMMON, "-O1", "-fno-math-errno")
RUNTIME_FLAGS: Final = (*COMMON, "-O3", "-fno-math-errno", "-fno-trapping-math")
TIMEOUT: Final = 600  # seconds
KEPT: Final = 400  # kernels
ATTEMPTS: Final = 3


def compiler() -> list[str]:
    """The command of a C++ compiler for this machine. Raises ToolchainError, which says what to install."""
    try:
        return host_compiler()
    except EmulateError:
        raise ToolchainError(
            "running the generated C++ needs a C++ compiler, and found none; install one with `apt install g++`, or "
            f"`{install_line('toolchain')}`, which includes one (`TKGEN_HOST_CXX` names another). "
            "The model of the schedule needs none: `--executor model`"
        ) from None


@cache
def library(kernel: str) -> ctypes.CDLL:
    """The library of a generated kernel, loaded.

    Raises:
        ToolchainError: no compiler, or it fails.
    """
    loaded = _loaded(compiler(), kernel)
    loaded.tkgen_host_run.restype = ctypes.c_int
    loaded.tkgen_host_argument_bytes.restype = ctypes.c_uint64
    loaded.tkgen_host_map.restype = ctypes.c_void_p
    loaded.tkgen_host_map.argtypes = (ctypes.c_size_t, ctypes.c_size_t)
    loaded.tkgen_host_unmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
    return loaded


def _loaded(command: Sequence[str], kernel: str) -> ctypes.CDLL:
    """The library; another process may drop it between its compilation and this."""
    for _ in range(ATTEMPTS):
        made = _kernel(command, kernel)
        try:
            return ctypes.CDLL(str(made))
        except OSError:
            if made.exists():
                raise
    raise ToolchainError(f"{made} disappears as soon as it is created, because another process empties the cache")


def _directory() -> Path:
    found = cache_directory() / "hopper-host"
    try:
        found.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolchainError(f"cannot keep compiled kernels in {found}: {error.strerror}; set TKGEN_CACHE") from error
    return found


def _kernel(command: Sequence[str], kernel: str) -> Path:
    text, runtime = host_source(kernel).text, _runtime(tuple(command))
    headers = "".join(path.read_text(encoding="utf-8") for path in sorted(HOST.iterdir()))
    key = _hash(*command, *KERNEL_FLAGS, text, headers, runtime.name)
    made = _directory() / f"kernel-{key}.so"
    try:
        os.utime(made)
    except FileNotFoundError:
        _forget()
        with tempfile.TemporaryDirectory(dir=made.parent, prefix="build-") as name:
            source, unfinished = Path(name) / "kernel.cpp", Path(name) / "kernel.so"
            source.write_text(text, encoding="utf-8")
            arguments = [*KERNEL_FLAGS, f"-I{HOST}", str(source), str(runtime), "-shared", "-o", str(unfinished)]
            _run([*command, *arguments], "the generated C++ does not compile for the host")
            os.replace(unfinished, made)
    return made


def _forget() -> None:
    """Drops the libraries that were used longest ago."""
    kept = sorted(_directory().glob("kernel-*.so"), key=_last_use)
    for path in kept[:-KEPT]:
        path.unlink(missing_ok=True)


def _last_use(path: Path) -> float:
    """When a library was last used; the beginning of time where another process has dropped it since."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def prepare() -> None:
    """Compile the runtime, where the cache has none: processes that start together then find it.

    Raises:
        ToolchainError: no compiler, or it fails.
    """
    _runtime(tuple(compiler()))


@cache
def _runtime(command: tuple[str, ...]) -> Path:
    """The object of the runtime, compiled once for this machine, or for any of its kind where that fails."""
    files = [*sorted(RUNTIME.iterdir()), *sorted(HOST.iterdir())]
    content = "".join(path.read_text(encoding="utf-8") for path in files if path.suffix in (".cpp", ".h"))
    made = _directory() / f"runtime-{_hash(*command, *RUNTIME_FLAGS, platform.machine(), _features(), content)}.o"
    if made.exists():
        return made
    with tempfile.TemporaryDirectory(dir=made.parent, prefix="build-") as name:
        source, unfinished = Path(name) / "runtime.cpp", Path(name) / "runtime.o"
        included = [f'#include "{path}"\n' for path in files if path.suffix == ".cpp"]
        source.write_text("".join(included), encoding="utf-8")
        arguments = [*command, *RUNTIME_FLAGS, "-c", str(source), "-o", str(unfinished)]
        what = "the runtime of the host run does not compile"
        try:
            _run([*arguments, "-march=native"], what)
        except ToolchainError:
            _run(arguments, what)
        os.replace(unfinished, made)
    return made


def _features() -> str:
    """The features of this CPU, on which `-march=native` depends."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _run(command: Sequence[str], what: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{what}: {error}") from error
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
        raise ToolchainError("\n".join([f"{what} ({command[0]}):", *errors[:8]]))
