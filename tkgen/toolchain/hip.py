"""An installed HIP: its headers, device libraries and runtime library, wherever a distribution puts them.

Only the Python module needs it (host and device in one). A code object needs nothing of it: neither with the embedded
headers nor with those of a real ThunderKittens checkout (`checkout`), for which it is the second choice.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tkgen.targets import Target
from tkgen.toolchain.compiler import Compiler

HIP_INSTALL = "apt-get install libamdhip64-dev rocm-device-libs  (Debian; elsewhere install ROCm)"

# Device libraries older than the target lack its one-constant file; that of its nearest elder says the same of all
# that the libraries ask (wave size, instruction families). Seen to work with Debian 12's 5.2.3.
_ISA_STANDINS = {"gfx942": ("940",), "gfx950": ("942", "940")}

# A compiler below these belongs to the distribution, which ties it to no HIP.
_SYSTEM_TREES = (Path("/"), Path("/usr"), Path("/usr/local"))

# What clang links by itself, and hip.bc, which ROCm before 5.3 had and its headers' __syncthreads needs.
_DEVICE_LIBRARIES = (
    "hip",
    "ocml",
    "ockl",
    "oclc_daz_opt_off",
    "oclc_unsafe_math_off",
    "oclc_finite_only_off",
    "oclc_correctly_rounded_sqrt_on",
    "oclc_wavefrontsize64_on",
)


@dataclass(frozen=True)
class HipRuntime:
    """An installed HIP: `library` is libamdhip64.so, `bitcode` the folder of device libraries (None where absent)."""

    root: Path
    version: str
    library: Path
    bitcode: Path | None

    @property
    def identity(self) -> str:
        """The part of a cache key that identifies the runtime."""
        return f"{self.root}\0{self.version}\0{self.bitcode}"


def find_hip(environ: Mapping[str, str] | None = None, *, prefix: Path = Path("/")) -> HipRuntime | None:
    """The first complete HIP (headers and libamdhip64): ROCM_PATH, HIP_PATH, /opt/rocm*, then the distribution's.

    `prefix` stands for the file system's root.
    """
    for root in _roots(os.environ if environ is None else environ, prefix):
        header = root / "include/hip/hip_runtime.h"
        library = next((lib / "libamdhip64.so" for lib in _libs(root) if (lib / "libamdhip64.so").exists()), None)
        if header.is_file() and library is not None:
            return HipRuntime(root, _version(root), library, _bitcode(root))
    return None


def knows_hip(compiler: Compiler) -> bool:
    """True where the compiler stands inside a ROCm tree, whose headers and libraries it finds by itself."""
    above = Path(compiler.command[0]).resolve().parents
    return any((tree / "include/hip/hip_runtime.h").is_file() for tree in above if tree not in _SYSTEM_TREES)


def header_flags(hip: HipRuntime) -> tuple[str, ...]:
    """Arguments with which headers are found both as <hip/hip_bf16.h> and, as ThunderKittens says, <hip_bf16.h>."""
    return (f"-I{hip.root / 'include'}", f"-idirafter{hip.root / 'include/hip'}")


def hip_flags(hip: HipRuntime, compiler: Compiler, target: Target) -> tuple[str, ...]:
    """Arguments with which `compiler` finds this HIP for code of `target`; one that knows its own is told of headers.

    Headers older than clang 22 take the wave size from a macro that clang no longer defines, and device libraries older
    than ROCm 6.3 know no code object version 6.
    """
    if knows_hip(compiler):
        return header_flags(hip)
    flags = (f"--rocm-path={hip.root}", *header_flags(hip), f"-D__AMDGCN_WAVEFRONT_SIZE={target.wave_size}")
    if hip.bitcode is None:
        return (*flags, "-nogpulib")
    abis = [int(m[1]) for f in hip.bitcode.iterdir() if (m := re.fullmatch(r"oclc_abi_version_(\d)00\.bc", f.name))]
    if abis:
        flags += (f"-mcode-object-version={max(abis)}",)
    isa = target.name.removeprefix("gfx")
    if _has(hip.bitcode, f"oclc_isa_version_{isa}") and not _has(hip.bitcode, "hip"):
        return (*flags, f"--rocm-device-lib-path={hip.bitcode}")
    known = [i for i in (isa, *_ISA_STANDINS.get(target.name, ())) if _has(hip.bitcode, f"oclc_isa_version_{i}")]
    libraries = [name for name in _DEVICE_LIBRARIES if _has(hip.bitcode, name)]
    libraries += [f"oclc_isa_version_{i}" for i in known[:1]]
    libraries += [f"oclc_abi_version_{max(abis)}00"] if abis else []
    return (*flags, f"--hip-device-lib-path={hip.bitcode}", *(f"--hip-device-lib={name}.bc" for name in libraries))


def _has(bitcode: Path, name: str) -> bool:
    return (bitcode / f"{name}.bc").is_file()


def python_flags() -> tuple[str, ...]:
    """Arguments with which Python.h and pybind11 are found; pybind11 is asked for its place without being imported."""
    spec = importlib.util.find_spec("pybind11")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return (f"-I{sysconfig.get_path('include')}", *(f"-I{Path(folder) / 'include'}" for folder in folders))


def _roots(environ: Mapping[str, str], prefix: Path) -> Iterator[Path]:
    for variable in ("ROCM_PATH", "HIP_PATH"):
        if environ.get(variable):
            yield Path(environ[variable])
    yield from rocm_roots(prefix)
    yield prefix / "usr"


def rocm_roots(prefix: Path = Path("/")) -> tuple[Path, ...]:
    """The ROCm trees under /opt: the default one, then the numbered ones from the newest."""
    numbered = sorted((prefix / "opt").glob("rocm-*"), key=lambda p: version_key(p.name), reverse=True)
    default = prefix / "opt/rocm"
    return (*([default] if default.is_dir() else ()), *(p for p in numbered if p.is_dir()))


def version_key(text: str) -> tuple[int, ...]:
    """The numbers in a version or file name, for sorting: "rocm-6.10.1" after "rocm-6.9.0"."""
    return tuple(int(n) for n in re.findall(r"\d+", text))


def _libs(root: Path) -> tuple[Path, ...]:
    multiarch = sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu"
    return (root / "lib", root / "lib64", root / "lib" / multiarch)


def _bitcode(root: Path) -> Path | None:
    candidates = [root / "amdgcn/bitcode", *(lib / "amdgcn/bitcode" for lib in _libs(root))]
    candidates += sorted(root.glob("lib/llvm/lib/clang/*/lib/amdgcn/bitcode"))
    return next((c for c in candidates if (c / "ockl.bc").is_file()), None)


def _version(root: Path) -> str:
    try:
        text = (root / "include/hip/hip_version.h").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "unknown"
    parts = [re.search(rf"#define HIP_VERSION_{part} (\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(m[1] for m in parts if m) or "unknown"
