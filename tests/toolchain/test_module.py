"""The Python module: the command, what is said where something is missing, and a real build where HIP is installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tkgen.targets import Target, load_target
from tkgen.toolchain.compiler import Compiler, CompilerKind, ToolchainError
from tkgen.toolchain.hip import HipRuntime, find_hip, hip_flags
from tkgen.toolchain.module import (
    ModuleUnavailableError,
    build_module,
    missing_for_module,
    module_command,
    module_file,
)

SOURCE = """\
#include <hip/hip_runtime.h>
#include <pybind11/pybind11.h>
#include <stdexcept>
__global__ void fill(float *p) {
  __shared__ float tile[64];
  tile[threadIdx.x] = 1.0f;
  __syncthreads();
  p[threadIdx.x] = tile[threadIdx.x ^ 1];
}
static void launch() {
  float *p = nullptr;
  if (hipMalloc(&p, 256) != hipSuccess) throw std::runtime_error("no GPU here");
  fill<<<1, 64>>>(p);
  if (hipDeviceSynchronize() != hipSuccess) throw std::runtime_error("launch failed");
}
PYBIND11_MODULE(fill, m) { m.def("launch", &launch); }
"""


def plain(command: str, kind: CompilerKind = CompilerKind.CLANG) -> Compiler:
    return Compiler(kind, (command,), "22.1.8", (command,))


def rocm_clang(folder: Path) -> Compiler:
    """A clang inside a ROCm tree of its own."""
    clang = folder / "rocm-6.4.0/lib/llvm/bin/clang++"
    for file in (clang, folder / "rocm-6.4.0/include/hip/hip_runtime.h"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    return plain(str(clang), CompilerKind.HIPCC)


@pytest.fixture
def debian(tmp_path: Path) -> HipRuntime:
    """The layout of Debian's libamdhip64-dev and rocm-device-libs 5.2.3."""
    usr = tmp_path / "root/usr"
    (usr / "include/hip").mkdir(parents=True)
    (usr / "include/hip/hip_runtime.h").write_text("")
    (usr / "include/hip/hip_version.h").write_text(
        "#define HIP_VERSION_MAJOR 5\n#define HIP_VERSION_MINOR 2\n#define HIP_VERSION_PATCH 21153\n"
    )
    libs = usr / "lib"
    (libs / "amdgcn/bitcode").mkdir(parents=True)
    (libs / "libamdhip64.so").write_text("")
    names = (
        "ockl",
        "ocml",
        "oclc_abi_version_400",
        "oclc_abi_version_500",
        "oclc_isa_version_90a",
        "oclc_isa_version_940",
    )
    for name in names:
        (libs / f"amdgcn/bitcode/{name}.bc").write_text(name)
    found = find_hip({}, prefix=tmp_path / "root")
    assert found is not None
    return found


def test_finding_hip(debian: HipRuntime, tmp_path: Path) -> None:
    usr = tmp_path / "root/usr"
    assert debian == HipRuntime(usr, "5.2.21153", usr / "lib/libamdhip64.so", usr / "lib/amdgcn/bitcode")
    rocm = tmp_path / "root/opt/rocm-6.4.0"
    (rocm / "include/hip").mkdir(parents=True)
    (rocm / "include/hip/hip_runtime.h").write_text("")
    assert find_hip({}, prefix=tmp_path / "root") == debian  # ROCm's library is missing: not complete
    (rocm / "lib").mkdir()
    (rocm / "lib/libamdhip64.so").write_text("")
    newer = find_hip({}, prefix=tmp_path / "root")
    assert newer == HipRuntime(rocm, "unknown", rocm / "lib/libamdhip64.so", None)
    named = find_hip({"ROCM_PATH": str(usr)}, prefix=tmp_path / "root")
    assert named == debian
    assert find_hip({}, prefix=tmp_path / "empty") is None


def test_old_device_libraries_are_completed(debian: HipRuntime, gfx942: Target) -> None:
    flags = hip_flags(debian, plain("clang++"), gfx942)
    assert "-mcode-object-version=5" in flags and "-D__AMDGCN_WAVEFRONT_SIZE=64" in flags
    libraries = [f.removeprefix("--hip-device-lib=") for f in flags if f.startswith("--hip-device-lib=")]
    assert libraries == ["ocml.bc", "ockl.bc", "oclc_isa_version_940.bc", "oclc_abi_version_500.bc"]
    assert f"--hip-device-lib-path={debian.bitcode}" in flags
    known = hip_flags(debian, plain("clang++"), load_target("gfx90a"))
    assert f"--rocm-device-lib-path={debian.bitcode}" in known
    assert debian.bitcode is not None
    (debian.bitcode / "hip.bc").write_text("")  # before ROCm 5.3 the headers need it
    assert "--hip-device-lib=hip.bc" in hip_flags(debian, plain("clang++"), load_target("gfx90a"))


def test_without_device_libraries_none_are_asked_for(gfx942: Target, tmp_path: Path) -> None:
    bare = HipRuntime(tmp_path, "6", tmp_path / "libamdhip64.so", None)
    assert "-nogpulib" in hip_flags(bare, plain("clang++"), gfx942)


def test_the_command_of_each_kind(debian: HipRuntime, gfx942: Target, tmp_path: Path) -> None:
    def command(compiler: Compiler, kittens: Path | None = None) -> tuple[str, ...]:
        return module_command(
            gfx942,
            compiler,
            debian,
            include_dirs=[tmp_path / "my headers"],
            kittens=kittens,
            defines={"SIZE": "1", "FLAG": ""},
        )

    clang = command(plain("clang++-22"))
    assert clang[0] == "clang++-22" and "-lamdhip64" in clang
    assert {"--offload-arch=gfx942", "-shared", "-fPIC", "-DSIZE=1", "-DFLAG", f"-I{tmp_path}/my headers"} <= set(clang)
    assert f"-L{debian.library.parent}" in clang and f"--rocm-path={debian.root}" in clang
    assert not {"-nostdinc", "-DKITTENS_DEVICE_ONLY"} & set(clang)
    assert any(a.startswith("-I") and (Path(a[2:]) / "pybind11/pybind11.h").is_file() for a in clang)
    assert any(a.startswith("-I") and (Path(a[2:]) / "Python.h").is_file() for a in clang)
    hipcc = command(rocm_clang(tmp_path), kittens=tmp_path / "tk")
    assert "-lamdhip64" in hipcc and not any(a.startswith("--rocm") for a in hipcc)
    assert f"-idirafter{debian.root}/include/hip" in hipcc  # ThunderKittens includes <hip_bf16.h>
    assert "-DKITTENS_CDNA3" in hipcc and f"{tmp_path}/tk/include" in hipcc


def test_what_is_missing_is_named_with_its_remedy(gfx942: Target, debian: HipRuntime, tmp_path: Path) -> None:
    zig = plain("zig", CompilerKind.ZIGLANG)
    assert [m.what.split()[0] for m in missing_for_module(zig, None)][:2] == ["a", "a"]
    assert missing_for_module(plain("clang++-22"), debian) == ()
    assert missing_for_module(rocm_clang(tmp_path), None) == ()
    with pytest.raises(ModuleUnavailableError, match="apt-get install clang-22") as caught:
        build_module(SOURCE, "fill", gfx942, zig, tmp_path / "out", hip=debian)
    assert len(caught.value.missing) == 1
    assert not (tmp_path / "out").exists()


def test_a_clang_that_cannot_bundle_device_code_is_not_enough(
    gfx942: Target, debian: HipRuntime, script: Callable[..., Path], tmp_path: Path
) -> None:
    """Debian has the bundler in a separate package, which clang-22 only recommends."""
    found, lost = (plain(str(script(n, f"echo {p}clang-offload-bundler\n"))) for n, p in (("a", "/bin/"), ("b", "")))
    assert missing_for_module(found, debian) == ()
    with pytest.raises(ModuleUnavailableError, match=r"clang-offload-bundler.*apt-get install .*clang-tools-22"):
        build_module(SOURCE, "fill", gfx942, lost, tmp_path / "out", hip=debian)


def test_a_failed_build_leaves_nothing(
    gfx942: Target, debian: HipRuntime, script: Callable[..., Path], tmp_path: Path
) -> None:
    bad = plain(str(script("bad", "echo 'in.cpp:4:1: error: no such thing' >&2; exit 1\n")))
    out = tmp_path / "out"
    with pytest.raises(ToolchainError, match=r"fill\.cpp:4:1: no such thing") as caught:
        build_module(SOURCE, "fill", gfx942, bad, out, hip=debian, log=tmp_path / "log")
    assert caught.value.origin is not None and caught.value.origin.line == 4
    assert not out.exists() and "no such thing" in (tmp_path / "log").read_text()
    lying = plain(str(script("lying", "exit 0\n")))
    with pytest.raises(ToolchainError, match="left no"):
        build_module(SOURCE, "fill", gfx942, lying, out, hip=debian)
    assert not out.exists()


def test_a_build_replaces_the_old_module_whole(
    gfx942: Target, debian: HipRuntime, script: Callable[..., Path], tmp_path: Path
) -> None:
    good = plain(str(script("good", "test -e in.cpp && cat in.cpp > out.so\n")))
    out = tmp_path / "out put"
    for text in ("old", "new"):
        path = build_module(text, "fill", gfx942, good, out, hip=debian)
        assert path == out / module_file("fill") and path.read_text() == text
    assert list(out.iterdir()) == [path]


def test_a_real_module_builds_and_imports(clang: Compiler, gfx942: Target, tmp_path: Path) -> None:
    missing = missing_for_module(clang, find_hip())
    if missing:
        pytest.skip("; ".join(f"{m.what} is missing: {m.install}" for m in missing))
    path = build_module(SOURCE, "fill", gfx942, clang, tmp_path)
    script = "import fill\ntry:\n  fill.launch()\n  print('ran')\nexcept RuntimeError as e:\n  print(e)\n"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=path.parent, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0 and done.stdout.strip() in ("ran", "no GPU here")
