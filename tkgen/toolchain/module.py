"""Build a kernel's Python module, host and device in one, where a HIP runtime is installed.

    >>> path = build_module(source, "eight_wave", target, compiler, out_dir, include_dirs=[headers])

The module is what `import eight_wave` finds: pybind11 around the launcher, linked with libamdhip64.
"""

from __future__ import annotations

import importlib.util
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tkgen.packages import install_line
from tkgen.targets import Target
from tkgen.toolchain.compile import kittens_flags, read_output, run_step
from tkgen.toolchain.compiler import Compiler, CompilerKind, Missing, ToolchainError
from tkgen.toolchain.files import write_atomic
from tkgen.toolchain.hip import HIP_INSTALL, HipRuntime, find_hip, hip_flags, knows_hip, python_flags
from tkgen.toolchain.process import run_tool


class ModuleUnavailableError(ToolchainError):
    """A Python module cannot be built here; `missing` says what to install."""

    def __init__(self, missing: tuple[Missing, ...]):
        self.missing = missing
        lines = "".join(f"\n  {m.what}: {m.install}" for m in missing)
        super().__init__(f"a Python module cannot be built here; missing are{lines}")


CLANG_INSTALL = "apt-get install clang-22 clang-tools-22 lld-22 llvm-22  (Debian; elsewhere install ROCm)"
PYTHON_INSTALL = "apt-get install python3-dev  (Debian; elsewhere Python's development package)"
BUNDLER = "clang-offload-bundler"
_PROBE_SECONDS = 60.0


def missing_for_module(compiler: Compiler | None, hip: HipRuntime | None) -> tuple[Missing, ...]:
    """List everything that this machine lacks to build a module."""
    missing = []
    if compiler is None or compiler.kind is CompilerKind.ZIGLANG:
        missing.append(
            Missing("a compiler for host and device (the ziglang wheel has no HIP host side)", CLANG_INSTALL)
        )
    elif _lacks(compiler, BUNDLER):
        missing.append(Missing(f"{BUNDLER}, which clang calls to put device code into a host file", CLANG_INSTALL))
    if hip is None and not (compiler and knows_hip(compiler)):
        missing.append(Missing("a HIP runtime with its headers (libamdhip64)", HIP_INSTALL))
    if importlib.util.find_spec("pybind11") is None:
        missing.append(Missing("pybind11", install_line("module")))
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        missing.append(Missing("Python's headers (Python.h)", PYTHON_INSTALL))
    return tuple(missing)


def _lacks(compiler: Compiler, program: str) -> bool:
    """True where clang does not find a program that it calls. It prints the bare name then, and a path otherwise."""
    answer = run_tool((*compiler.command, f"-print-prog-name={program}"), timeout=_PROBE_SECONDS)
    return answer.ok and answer.stdout.strip() == program


def module_file(name: str) -> str:
    """The file name under which this Python imports the extension module `name`."""
    return f"{name}{sysconfig.get_config_var('EXT_SUFFIX') or '.so'}"


def module_command(
    target: Target,
    compiler: Compiler,
    hip: HipRuntime | None,
    *,
    include_dirs: Sequence[Path],
    kittens: Path | None,
    defines: Mapping[str, str],
) -> tuple[str, ...]:
    """The command that builds out.so of in.cpp in the current folder; a compiler without a HIP is told of one."""
    flags = ["-x", "hip", f"--offload-arch={target.name}", "-std=c++20", "-O3", "-shared", "-fPIC"]
    flags += ["-fvisibility=hidden", "-fno-color-diagnostics", "-fuse-cuid=none"]
    flags += [f"-D{target.kittens_define}"] if kittens is None else kittens_flags(kittens, target)
    for directory in include_dirs:  # behind a checkout, for what that has not
        flags += [f"-I{directory}"] if kittens is None else ["-idirafter", str(directory)]
    flags += [f"-D{name}={value}" if value else f"-D{name}" for name, value in defines.items()]
    flags += python_flags()
    link = ["-o", "out.so", "in.cpp", "-lamdhip64"]
    if hip is not None:
        flags += hip_flags(hip, compiler, target)
        link += [f"-L{hip.library.parent}"]
    return (*compiler.command, *flags, *link)


def build_module(
    source: str,
    name: str,
    target: Target,
    compiler: Compiler,
    out_dir: Path,
    *,
    include_dirs: Sequence[Path] = (),
    kittens: Path | None = None,
    defines: Mapping[str, str] | None = None,
    hip: HipRuntime | None = None,
    timeout: float = 600.0,
    log: Path | None = None,
) -> Path:
    """Build `source` (which ends in PYBIND11_MODULE(name, ...)) and put the module into `out_dir`; returns its path.

    `hip` defaults to the installed one. Raises ModuleUnavailableError with what to install, or ToolchainError where the
    compiler fails, as `compile_device` does. The module appears by a rename.
    """
    runtime = hip or find_hip()
    missing = missing_for_module(compiler, runtime)
    if missing:
        raise ModuleUnavailableError(missing)
    with tempfile.TemporaryDirectory(prefix="tkgen-") as work:
        folder = Path(work).resolve()
        (folder / "in.cpp").write_text(source, encoding="utf-8")
        command = module_command(
            target,
            compiler,
            runtime,
            include_dirs=[path.resolve() for path in include_dirs],
            kittens=kittens.resolve() if kittens else None,
            defines=defines or {},
        )
        run_step(command, folder, timeout, f"{name}.cpp", log)
        built = read_output(folder / "out.so", command)
    destination = out_dir / module_file(name)
    write_atomic(destination, built)
    return destination
