"""Find a compiler with an AMDGPU backend: the first that really compiles a kernel for the target.

    >>> compiler = find_compiler(load_target("gfx942"))
    >>> compiler.kind, compiler.version
    (<CompilerKind.CLANG: 'clang'>, '22.1.8')

The order: what the user names (`--cxx`, then TKGEN_CXX; if it does not work, that is an error), `hipcc`, ROCm's clang,
the system's clang from the newest, the `ziglang` wheel.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgpack

from tkgen import __version__
from tkgen.packages import install_line
from tkgen.targets import Target
from tkgen.toolchain.cache import Cache, cache_key, default_cache
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.compiler import Compiler, CompilerKind, NoCompilerError, ToolchainError
from tkgen.toolchain.hip import rocm_roots, version_key
from tkgen.toolchain.metadata import read_resources, read_target
from tkgen.toolchain.process import run_tool

OLDEST_CLANG, NEWEST_CLANG = 19, 32  # the oldest that serves, and a number that releases reach in 2031
INSTALL_ANYWHERE = install_line("toolchain")
INSTALL_DEBIAN = "apt-get install clang-22 lld-22 llvm-22"

# A kernel that touches what every generated kernel does: LDS, a barrier, a bf16 MFMA, and no header.
_PROBE = """\
typedef short short4v __attribute__((ext_vector_type(4)));
typedef float float4v __attribute__((ext_vector_type(4)));
extern "C" __attribute__((global)) void tkgen_probe(const short4v *a, float4v *c) {
  __attribute__((shared)) static short4v tile[64];
  int lane = __builtin_amdgcn_workitem_id_x();
  tile[lane] = a[lane];
  __builtin_amdgcn_s_barrier();
  c[lane] = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a[lane], tile[lane ^ 1], c[lane], 0, 0, 0);
}
"""
_PROBE_SECONDS = 60.0


@dataclass(frozen=True)
class Host:
    """The machine that is searched: its variables, its root folder, the `zig` of the ziglang wheel where installed."""

    environ: Mapping[str, str]
    root: Path = Path("/")
    zig: Path | None = None

    @property
    def cache(self) -> Cache | None:
        """The cache that remembers probes."""
        return default_cache(self.environ)

    def which(self, name: str) -> str | None:
        """The executable that PATH names so."""
        return shutil.which(name, path=self.environ.get("PATH", ""))


@dataclass(frozen=True)
class Candidate:
    """A command that may be a compiler, and where the search met it ("--cxx", "hipcc", ...)."""

    origin: str
    command: tuple[str, ...]


@dataclass(frozen=True)
class Attempt:
    """A candidate and what came of it: the compiler, or why it is none for this target."""

    candidate: Candidate
    compiler: Compiler | None
    reason: str = ""


def this_host() -> Host:
    """The machine and the Python that we run on."""
    return Host(os.environ, zig=_installed_zig())


@lru_cache
def _installed_zig() -> Path | None:
    spec = importlib.util.find_spec("ziglang")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return next((z for f in folders for n in ("zig", "zig.exe") if (z := Path(f) / n).is_file()), None)


def find_compiler(target: Target, explicit: str | None = None, *, host: Host | None = None) -> Compiler:
    """The compiler to use for `target`; `explicit` is the user's `--cxx`, a path or a command with arguments.

    NoCompilerError names everything that was tried, why it fell, and what to install.
    """
    machine = host or this_host()
    attempts = []
    for candidate in candidates(machine, explicit):
        attempt = probe(candidate, target, machine)
        if attempt.compiler is not None:
            return attempt.compiler
        attempts.append(attempt)
    tried = "".join(f"\n  {a.candidate.origin}: {shlex.join(a.candidate.command)}: {a.reason}" for a in attempts)
    asked = attempts and attempts[0].candidate.origin in (_CXX_OPTION, _CXX_VARIABLE)
    if asked:
        raise NoCompilerError(f"the compiler given cannot compile for {target.name}:{tried}")
    what = f"; tried:{tried}" if tried else ""
    raise NoCompilerError(
        f"no compiler for {target.name} here{what}\nto add one: {INSTALL_ANYWHERE}  (or, on Debian, {INSTALL_DEBIAN})"
    )


def candidates(host: Host, explicit: str | None = None) -> Iterator[Candidate]:
    """Yield possible compilers, in the order of preference. If the user names one, it is the only candidate."""
    for origin, given in ((_CXX_OPTION, explicit), (_CXX_VARIABLE, host.environ.get("TKGEN_CXX"))):
        if given:
            yield Candidate(origin, _command(given, host))
            return
    if hipcc := host.which("hipcc"):
        yield Candidate("hipcc", (hipcc,))
    rocm_path = host.environ.get("ROCM_PATH")
    for root in (*([Path(rocm_path)] if rocm_path else ()), *rocm_roots(host.root)):
        for clang in (root / "llvm/bin/clang++", root / "lib/llvm/bin/clang++"):
            if clang.is_file():
                yield Candidate("ROCm clang", (str(clang),))
                break
    for name in _system_clangs(host):
        yield Candidate("system clang", (name,))
    if host.zig is not None:
        yield Candidate("ziglang wheel", (str(host.zig),))


def probe(candidate: Candidate, target: Target, host: Host) -> Attempt:
    """Compile a small kernel for `target` with the candidate. A success is remembered until its files change."""
    fingerprint = _fingerprint(candidate.command, host)
    cache = host.cache if fingerprint else None
    key = cache_key(
        "probe", __version__, target.name, _PROBE, *candidate.command, fingerprint, host.environ.get("PATH", "")
    )
    remembered = cache.get(key) if cache else None
    if remembered is not None and (known := _decode(remembered)) is not None:
        return Attempt(candidate, known)
    try:
        compiler = describe(candidate, host)
        if compiler.kind is CompilerKind.CLANG and (version_key(compiler.version) or (0,))[0] < OLDEST_CLANG:
            return Attempt(candidate, None, f"clang {compiler.version} is older than {OLDEST_CLANG}")
        result = compile_device(_PROBE, target, compiler, timeout=_PROBE_SECONDS, source_name="probe.cpp")
        if result.hsaco is None or read_target(result.hsaco) != target.name:
            return Attempt(candidate, None, f"does not make a code object for {target.name}")
        if "tkgen_probe" not in read_resources(result.hsaco):
            return Attempt(candidate, None, "its code object lacks the kernel")
    except ToolchainError as error:
        return Attempt(candidate, None, error.message)
    if cache:
        cache.put(key, _encode(compiler))
    return Attempt(candidate, compiler)


def describe(candidate: Candidate, host: Host) -> Compiler:
    """Ask a candidate what it is. ToolchainError where it cannot be run or says nothing of clang."""
    command = candidate.command
    zig = Path(command[0]).stem == "zig" or command[-1] == "ziglang"
    if zig and command[-1] != "clang":
        command = (*command, "clang")
    answer = run_tool((*command, "--version"), timeout=_PROBE_SECONDS, environ=host.environ)
    text = answer.stdout + answer.stderr
    version = re.search(r"clang version (\S+)", text)
    if not answer.ok or version is None:
        said = next((line.strip() for line in text.splitlines() if line.strip()), f"status {answer.status}")
        raise ToolchainError(f"not a clang: {said}", output=text, command=answer.command)
    fingerprint = _fingerprint(command, host)
    if zig:
        lld = (*command[:-1], "ld.lld")
        return Compiler(CompilerKind.ZIGLANG, command, version[1], command, lld, None, fingerprint)
    installed = re.search(r"^InstalledDir: (.+)$", text, re.MULTILINE)
    folder = Path(installed[1].strip()) if installed else None
    objdump = _tool("llvm-objdump", folder, version[1], host)
    linker = _tool("ld.lld", folder, version[1], host)
    if "HIP version" in text:
        # hipcc passes its arguments through a shell; the clang behind it takes them as they are, and starts faster.
        clang = next((c for n in ("clang++", "clang") if folder and (c := folder / n).is_file()), None)
        if clang is None:
            raise ToolchainError("does not say which clang it runs", output=text, command=answer.command)
        direct = (str(clang),)
        fingerprint += "\n" + _fingerprint(direct, host)
        return Compiler(CompilerKind.HIPCC, direct, version[1], direct, linker, objdump, fingerprint)
    rocm = "AMD clang" in text or "roc-" in text
    kind = CompilerKind.ROCM_CLANG if rocm else CompilerKind.CLANG
    return Compiler(kind, command, version[1], command, linker, objdump, fingerprint)


_CXX_OPTION = "--cxx"
_CXX_VARIABLE = "TKGEN_CXX"


def _command(given: str, host: Host) -> tuple[str, ...]:
    """A path or name as it stands (spaces and quotes included) where there is such a file, else a command line."""
    if Path(given).is_file():
        return (str(Path(given).absolute()),)
    if found := host.which(given):
        return (found,)
    try:
        words = shlex.split(given)
    except ValueError:
        words = [given]
    return (host.which(words[0]) or words[0], *words[1:]) if words else (given,)


def _system_clangs(host: Host) -> Iterator[str]:
    """Every `clang++-NN` on PATH from the newest, then plain `clang++`."""
    # Asking for each name is much faster than listing the folders of PATH.
    names = (*(f"clang++-{n}" for n in range(NEWEST_CLANG, OLDEST_CLANG - 1, -1)), "clang++")
    return (path for name in names if (path := host.which(name)))


def _tool(name: str, folder: Path | None, version: str, host: Host) -> tuple[str, ...] | None:
    """A tool of the same LLVM: beside the compiler, or on PATH with its major version in the name."""
    if folder and (folder / name).is_file():
        return (str(folder / name),)
    found = host.which(f"{name}-{version.partition('.')[0]}")
    return (found,) if found else None


def _fingerprint(command: tuple[str, ...], host: Host) -> str:
    """State on the disk of every file the command names; "" where the executable is not there."""
    if host.which(command[0]) is None:
        return ""
    states = []
    for word in command:
        try:
            stat = os.stat(word)
        except (OSError, ValueError):
            continue
        states.append(f"{os.path.realpath(word)} {stat.st_size} {stat.st_mtime_ns}")
    return "\n".join(states)


def _encode(compiler: Compiler) -> dict[str, bytes]:
    fields = (
        compiler.kind.value,
        compiler.command,
        compiler.version,
        compiler.assembler,
        compiler.linker,
        compiler.objdump,
        compiler.fingerprint,
    )
    return {"compiler": msgpack.packb(fields)}


def _decode(entry: Mapping[str, bytes]) -> Compiler | None:
    """A remembered compiler, unless one of its tools is gone, or the entry holds something else."""
    try:
        kind, command, version, assembler, linker, objdump, fingerprint = msgpack.unpackb(entry["compiler"])
        tools = [tuple(map(os.fspath, t)) if t else None for t in (command, assembler, linker, objdump)]
        if any(t is not None and shutil.which(t[0]) is None for t in tools) or tools[0] is None or tools[1] is None:
            return None
        return Compiler(CompilerKind(kind), tools[0], str(version), tools[1], tools[2], tools[3], str(fingerprint))
    except (KeyError, TypeError, ValueError):
        return None
