"""Compilers for the emulator's tests: C++ with clang's builtins, and plain assembly."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

KERNELS = Path(__file__).parent / "kernels"

ZIG = (sys.executable, "-m", "ziglang")


def _has_amdgcn(command: tuple[str, ...]) -> bool:
    probe = [*command, "--target=amdgcn-amd-amdhsa", "-mcpu=gfx942", "-x", "c", "-c", "/dev/null", "-o", "/dev/null"]
    try:
        return subprocess.run(probe, capture_output=True, timeout=60).returncode == 0
    except OSError:
        return False


@cache
def clang() -> tuple[str, ...] | None:
    """The command of a clang that compiles for AMD GPUs."""
    names = [os.environ.get("TKGEN_CXX", ""), *(f"clang++-{n}" for n in range(26, 18, -1)), "clang++"]
    names.append("/opt/rocm/llvm/bin/clang++")
    for name in names:
        path = shutil.which(name) if name else None
        if path and _has_amdgcn((path,)):
            return (path,)
    zig = (*ZIG, "clang")
    return zig if importlib.util.find_spec("ziglang") and _has_amdgcn(zig) else None


def _compile(source: bytes, name: str, directory: Path, arguments: list[str], cwd: Path) -> Path:
    command = clang()
    if command is None:
        pytest.skip("no clang with the amdgcn target: install clang-22 and lld-22, or the ziglang wheel")
    key = hashlib.sha256(source + repr((arguments, command)).encode()).hexdigest()[:16]
    made = directory / f"{name}-{key}.hsaco"
    if not made.exists():
        text = directory / f"{key}{Path(name).suffix}"
        text.write_bytes(source)
        link = command == (*ZIG, "clang")  # it looks for a linker of the system's
        out = made.with_suffix(".o") if link else made
        _run([*command, *arguments, f"-I{cwd}", str(text), "-o", str(out), *(["-c"] if link else [])])
        if link:
            _run([*ZIG, "ld.lld", "-shared", str(out), "-o", str(made)])
    return made


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """build("gemm.cpp", ZERO=0, target="gfx942") compiles a kernel of `kernels/` with those macros."""
    directory = tmp_path_factory.mktemp("hip")

    def run(
        name: str,
        target: str = "gfx942",
        debug: bool = True,
        level: str = "-O3",
        flags: tuple[str, ...] = (),
        **macros: int,
    ) -> Path:
        all_flags = ["-x", "hip", "--cuda-device-only", f"--offload-arch={target}", "-nogpuinc", "-nogpulib", level]
        all_flags += ["-std=c++20", "--no-gpu-bundle-output", *(["-g"] if debug else []), *flags]
        all_flags += [f"-D{k}={v}" for k, v in macros.items()]
        source = (KERNELS / name).read_bytes()
        return _compile(f'#line 1 "{name}"\n'.encode() + source, name, directory, all_flags, KERNELS)

    return run


@pytest.fixture(scope="session")
def assemble(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """assemble(text, target="gfx942") makes a code object of one assembly file; see frame.py for the frame."""
    directory = tmp_path_factory.mktemp("asm")

    def run(text: str, target: str = "gfx942") -> Path:
        flags = ["--target=amdgcn-amd-amdhsa", f"-mcpu={target}", "-x", "assembler"]
        return _compile(text.encode(), "kernel.s", directory, flags, directory)

    return run
