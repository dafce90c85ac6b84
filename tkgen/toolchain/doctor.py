"""The capabilities of this machine, and the exact command that adds a missing one. Data only; the CLI renders it.

>>> report = doctor([load_target("gfx942")])
>>> [(c.name, c.available) for c in report.capabilities]
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tkgen import __version__
from tkgen.packages import DISTRIBUTION, install_line
from tkgen.targets import Target
from tkgen.toolchain.cache import cache_dir
from tkgen.toolchain.compiler import Compiler, Missing, NoCompilerError
from tkgen.toolchain.discover import INSTALL_ANYWHERE, INSTALL_DEBIAN, Attempt, Host, candidates, probe, this_host
from tkgen.toolchain.hip import HIP_INSTALL, HipRuntime, find_hip
from tkgen.toolchain.module import missing_for_module

GPU_INSTALL = "an AMD Instinct GPU with its amdgpu kernel driver"
NVIDIA_INSTALL = "a Hopper GPU with NVIDIA's driver"
CUDA_TORCH_INSTALL = "pip install torch, from an index of its CUDA builds (pytorch.org/get-started)"
CUOBJDUMP = "cuobjdump"


@dataclass(frozen=True)
class FoundCompiler:
    """A compiler candidate: where the search met it, its command and version, and what it says per target.

    `targets` maps a target's name to "" where it compiles for it, else to the reason why not.
    """

    origin: str
    command: tuple[str, ...]
    version: str
    targets: dict[str, str]
    chosen_for: tuple[str, ...]


@dataclass(frozen=True)
class Component:
    """Anything else that was looked for: a package, a runtime, a device. `detail` is its version and place."""

    name: str
    found: bool
    detail: str
    install: str = ""


@dataclass(frozen=True)
class Capability:
    """Something tkgen does. `by` names what provides it, `missing` what it lacks and the commands that add that."""

    name: str
    available: bool
    by: str
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True)
class Report:
    """The whole finding. `ok` where at least code objects can be built for every target asked about."""

    compilers: tuple[FoundCompiler, ...]
    components: tuple[Component, ...]
    capabilities: tuple[Capability, ...]
    cache: Path | None

    @property
    def ok(self) -> bool:
        """Code objects can be built."""
        return self.capabilities[0].available


def doctor(targets: Sequence[Target], explicit: str | None = None, *, host: Host | None = None) -> Report:
    """Look at everything that matters for `targets`; `explicit` is the user's `--cxx`. Probes every compiler found."""
    machine = host or this_host()
    attempts = {
        candidate: {target.name: probe(candidate, target, machine) for target in targets}
        for candidate in candidates(machine, explicit)
    }
    chosen: dict[str, Compiler] = {}
    for tried in attempts.values():
        for name, attempt in tried.items():
            if attempt.compiler is not None:
                chosen.setdefault(name, attempt.compiler)
    compilers = tuple(_found(tried, chosen) for tried in attempts.values())
    hip = find_hip(machine.environ, prefix=machine.root)
    components = (*_components(machine, hip), *_of_cuda(machine))
    abilities = (*_capabilities(targets, chosen, hip, components), *_on_hopper(components))
    return Report(compilers, components, abilities, cache_dir(machine.environ))


def _found(tried: dict[str, Attempt], chosen: dict[str, Compiler]) -> FoundCompiler:
    any_attempt = next(iter(tried.values()))
    working = next((a.compiler for a in tried.values() if a.compiler), None)
    return FoundCompiler(
        any_attempt.candidate.origin,
        any_attempt.candidate.command,
        working.version if working else "",
        {name: a.reason for name, a in tried.items()},
        tuple(name for name, a in tried.items() if a.compiler is not None and chosen.get(name) == a.compiler),
    )


def _components(host: Host, hip: HipRuntime | None) -> tuple[Component, ...]:
    runtime = f"{hip.version} in {hip.root}" if hip else "libamdhip64 and hip/hip_runtime.h not found"
    kfd = host.root / "dev/kfd"
    return (
        _tkgen(),
        Component("HIP runtime", hip is not None, runtime, "" if hip else HIP_INSTALL),
        Component(
            "AMD GPU", kfd.exists(), str(kfd) if kfd.exists() else f"no {kfd}", "" if kfd.exists() else GPU_INSTALL
        ),
        _package("pybind11", "module"),
        _package("numpy", "emulate"),
        _package("tinygrad", "emulate"),
        _package("torch", "emulate"),
    )


def _of_cuda(host: Host) -> tuple[Component, ...]:
    """List the components that compile and launch for Hopper: nvcc, its disassembler, NVIDIA's bindings, torch's CUDA,
    a GPU.
    """
    from tkgen.backends.hopper.toolchain import find_nvcc

    wheels, device = install_line("cuda"), host.root / "dev/nvidia0"
    try:
        nvcc = find_nvcc(environ=host.environ)
    except NoCompilerError as error:
        compiler, reader = Component("nvcc", False, str(error), wheels), None
    else:
        compiler = Component("nvcc", True, f"{nvcc.version} in {nvcc.path} ({nvcc.origin})")
        reader = nvcc.disassembler
    cuda = _cuda_of_torch()
    seen = device.exists()
    return (
        compiler,
        Component(CUOBJDUMP, reader is not None, str(reader) if reader else "not found", "" if reader else wheels),
        _package("cuda-bindings", "cuda", module="cuda.bindings"),
        Component(
            "CUDA in torch", bool(cuda), cuda or "no torch that was built with it", "" if cuda else CUDA_TORCH_INSTALL
        ),
        Component("NVIDIA GPU", seen, str(device) if seen else f"no {device}", "" if seen else NVIDIA_INSTALL),
    )


def _cuda_of_torch() -> str:
    """The CUDA release that torch was built for, read without importing it; "" where there is none."""
    found = importlib.util.find_spec("torch")
    versions = Path(found.origin).with_name("version.py") if found and found.origin else None
    if versions is None or not versions.is_file():
        return ""
    said = re.search(r"^cuda\b[^=]*=\s*'([\d.]+)'", versions.read_text(encoding="utf-8"), re.MULTILINE)
    return said[1] if said else ""


def _on_hopper(components: Sequence[Component]) -> tuple[Capability, ...]:
    """List the capabilities for Hopper GPUs. `tkgen check`, `run` and `test` of such specs on the model need none of
    it.
    """
    found = {c.name: c for c in components}
    return tuple(
        _needing(found, what, *needed)
        for what, needed in (
            ("machine code for Hopper", ("nvcc",)),
            ("instruction counts of Hopper kernels", ("nvcc", CUOBJDUMP)),
            ("run on this machine's NVIDIA GPU", ("nvcc", "cuda-bindings", "CUDA in torch", "NVIDIA GPU")),
        )
    )


def _needing(found: Mapping[str, Component], what: str, *needed: str) -> Capability:
    """Something that needs these components, by their names."""
    lacking = tuple(Missing(n, found[n].install) for n in needed if not found[n].found)
    return Capability(what, not lacking, ", ".join(f"{n} {found[n].detail}" for n in needed if found[n].found), lacking)


def _tkgen() -> Component:
    """This package itself: which distribution it is, or which other project's stands in its place.

    The Python Package Index has a `tkgen` that is not ours and that installs over the same folder; ours are those whose
    command is `tkgen.cli:main`.
    """
    mine: list[str] = []
    others: list[str] = []
    for found in importlib.metadata.distributions():
        name = re.sub(r"[-_.]+", "-", found.name or "").lower()
        if name in ("tkgen", DISTRIBUTION):
            ours = any(e.group == "console_scripts" and e.value == "tkgen.cli:main" for e in found.entry_points)
            (mine if ours else others).append(f"{found.name} {found.version}")
    if others:
        mend = f"pip uninstall {others[0].split()[0]}, then install ours again from its checkout or wheel"
        return Component("tkgen", False, f"{others[0]} is another project's, of the same import name; {mend}", mend)
    place = Path(__file__).parents[1]
    return Component("tkgen", True, f"{__version__} in {place}" + (f" ({', '.join(mine)})" if mine else ""))


def _package(name: str, extra: str, module: str = "") -> Component:
    """A Python package, asked for its version without its modules being run; `module` where that has another name."""
    parent, _, _ = (module or name).rpartition(".")
    here = not parent or importlib.util.find_spec(parent) is not None
    if not here or importlib.util.find_spec(module or name) is None:
        return Component(name, False, "not installed", install_line(extra))
    try:
        return Component(name, True, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Component(name, True, "version unknown")


def _capabilities(
    targets: Sequence[Target], chosen: dict[str, Compiler], hip: HipRuntime | None, components: tuple[Component, ...]
) -> tuple[Capability, ...]:
    found = {c.name: c for c in components}
    compilers = list(dict.fromkeys(str(c) for c in chosen.values()))
    compiles = bool(targets) and all(t.name in chosen for t in targets)
    compiler_missing = Missing(
        "a compiler with an AMDGPU backend", f"{INSTALL_ANYWHERE}  (or, on Debian: {INSTALL_DEBIAN})"
    )
    objdump_missing = Missing("llvm-objdump", "apt-get install llvm-22  (Debian; elsewhere LLVM or ROCm)")
    disassemblers = [c.objdump[0] for c in chosen.values() if c.objdump]
    module_missing = missing_for_module(next(iter(chosen.values()), None), hip)
    run_missing = [Missing(name, found[name].install) for name in ("HIP runtime", "AMD GPU") if not found[name].found]

    def capability(name: str, by: Sequence[str], missing: Sequence[Missing]) -> Capability:
        return Capability(name, not missing, "" if missing else "; ".join(dict.fromkeys(by)), tuple(missing))

    return (
        capability("code objects", compilers, [] if compiles else [compiler_missing]),
        capability("assembly", compilers, [] if compiles else [compiler_missing]),
        capability("disassembly of any code object", disassemblers, [] if disassemblers else [objdump_missing]),
        capability("Python module", compilers, module_missing),
        capability("run on this machine's GPU", [found["AMD GPU"].detail], run_missing),
        _needing(found, "emulation", "numpy", "tinygrad"),
        _needing(found, "comparison with torch", "torch"),
    )
