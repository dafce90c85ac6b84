"""Generated programs on a machine without HIP: compiled for the host, over a runtime whose GPU memory is the CPU's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tkgen.backends.cdna.kittens import include_dir

STUB = Path(__file__).parent / "hip_stub"
CLANG = next((c for c in ("clang++-22", "clang++-21", "clang++-20", "clang++-19", "clang++") if shutil.which(c)), None)
HOST_FLAGS = ["-x", "hip", "--cuda-host-only", "-nogpuinc", "-nogpulib", "-std=c++20", "-Wall", "-Wextra", "-Werror"]
LINK_FLAGS = ["-O1", "-no-hip-rt", "-fuse-cuid=none", "-o"]
needs_clang = pytest.mark.skipif(CLANG is None, reason="no clang with HIP support")


def host_compile(folder: Path, file: str, *flags: str) -> None:
    """Compile a program in `folder`, which defines `hipLaunchKernel` where it is linked."""
    assert CLANG is not None
    command = [CLANG, *HOST_FLAGS, f"-I{STUB}", f"-I{include_dir()}", f"-I{folder}", *flags, str(folder / file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
