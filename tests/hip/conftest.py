"""HIP programs compiled as users do, with HIP's own headers, and run by `tkgen emulate`."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tkgen.emulate.program import emulated, run
from tkgen.emulate.session import Launcher
from tkgen.targets import load_target
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.hip import HIP_INSTALL, find_hip, hip_flags

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Ended:
    """The exit status of a program and what it printed."""

    status: int
    out: str
    err: str


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compile `source`, text or the name of one of `programs/`, for some targets; each once.

    Without a target it is a program for the host alone, which has HIP's API.
    """
    folder = tmp_path_factory.mktemp("hip")

    def compile_for(source: str, *targets: str, flags: tuple[str, ...] = ()) -> Path:
        hip = find_hip()
        if hip is None:
            pytest.skip(f"no HIP headers: {HIP_INSTALL}")
        text = (PROGRAMS / source).read_text() if source.endswith(".hip") else source
        name = source.removesuffix(".hip") if source.endswith(".hip") else "program"
        gpu = load_target(targets[0] if targets else "gfx942")
        compiler = find_compiler(gpu)
        key = hashlib.sha256(repr((text, targets, flags)).encode()).hexdigest()[:8]
        (folder / f"{name}-{key}.hip").write_text(text)
        made = folder / f"{name}-{key}"
        if not made.exists():
            language = (
                ["-x", "hip", *hip_flags(hip, compiler, gpu)] if targets else ["-x", "c++", "-D__HIP_PLATFORM_AMD__"]
            )
            command = [*compiler.command, *language, *(f"--offload-arch={t}" for t in targets), "-std=c++17", "-O2"]
            command += ["-gline-tables-only", "-Wno-unused-value", "-Wno-unused-result", f"-I{PROGRAMS}"]
            command += [*flags, f"{made.name}.hip", "-o", made.name, f"-L{hip.library.parent}", "-lamdhip64"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stderr
        return made

    return compile_for


@pytest.fixture
def ended(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Run a compiled program to its end."""

    def start(program: Path, *arguments: str, target: str | None = None, launcher: Launcher | None = None) -> Ended:
        capfd.readouterr()
        status = run([str(program), *arguments], launcher or emulated(), target)
        return Ended(status, *capfd.readouterr())

    return start
