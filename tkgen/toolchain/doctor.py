"""What this machine can do with tkgen, and the exact command that adds what is missing. Data only; the CLI renders it.

>>> report = doctor([load_target("gfx942")])
>>> [(c.name, c.available) for c in report.capabilities]
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tkgen import __version__
from tkgen.packages import DISTRIBUTION, install_line
from tkgen.targets import Target
from tkgen.toolchain.cache import cache_dir
from tkgen.toolchain.compiler import Compiler, Missing
from tkgen.toolchain.discover import INSTALL_ANYWHERE, INSTALL_DEBIAN, Attempt, Host, candidates, probe, this_host
from tkgen.toolchain.hip import HIP_INSTALL, HipRuntime, find_hip
from tkgen.toolchain.module import missing_for_module

GPU_INSTALL = "an AMD Instinct GPU with its amdgpu kernel driver"


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
    components = _components(machine, hip)
    return Report(compilers, components, _capabilities(targets, chosen, hip, components), cache_dir(machine.environ))


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


def _package(name: str, extra: str) -> Component:
    """A Python package, asked for its version without being imported."""
    if importlib.util.find_spec(name) is None:
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

    def packages(name: str, *needed: str) -> Capability:
        lacking = tuple(Missing(n, found[n].install) for n in needed if not found[n].found)
        return Capability(
            name, not lacking, ", ".join(f"{n} {found[n].detail}" for n in needed if found[n].found), lacking
        )

    def capability(name: str, by: Sequence[str], missing: Sequence[Missing]) -> Capability:
        return Capability(name, not missing, "" if missing else "; ".join(dict.fromkeys(by)), tuple(missing))

    return (
        capability("code objects", compilers, [] if compiles else [compiler_missing]),
        capability("assembly", compilers, [] if compiles else [compiler_missing]),
        capability("disassembly of any code object", disassemblers, [] if disassemblers else [objdump_missing]),
        capability("Python module", compilers, module_missing),
        capability("run on this machine's GPU", [found["AMD GPU"].detail], run_missing),
        packages("emulation", "numpy", "tinygrad"),
        packages("comparison with torch", "torch"),
    )
