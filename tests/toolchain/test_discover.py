"""Discovery order and doctor, with compilers made of a few lines of shell around a real one."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tkgen
from tkgen.targets import Target, load_target
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.compiler import Compiler, CompilerKind, NoCompilerError
from tkgen.toolchain.discover import INSTALL_ANYWHERE, INSTALL_DEBIAN, Host, candidates, find_compiler, this_host
from tkgen.toolchain.doctor import doctor

Script = Callable[..., Path]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A machine with nothing but a shell, whose PATH is the test's `bin`."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    environ = {"PATH": f"{tmp_path / 'bin'}:/usr/bin/nowhere", "TKGEN_CACHE": str(tmp_path / "cache")}
    return Host(environ, root=tmp_path / "root")


@pytest.fixture
def wrapper(script: Script, clang: Compiler, tmp_path: Path) -> Callable[..., Path]:
    """Makes a compiler that does what the real one does and says another version; each call leaves a line in calls."""

    def make(name: str, says: str = "clang version 22.1.8", extra: str = "") -> Path:
        calls = shlex.quote(str(tmp_path / "calls"))
        return script(
            name,
            f"echo {shlex.quote(name)} >> {calls}\n"
            f'if [ "$1" = --version ]; then printf "%s\\n" {shlex.quote(says)} {shlex.quote(extra)}; exit 0; fi\n'
            f'exec {shlex.join(clang.assembler)} "$@"\n',
        )

    return make


def test_the_order(host: Host, wrapper: Callable[..., Path], gfx942: Target, tmp_path: Path) -> None:
    zig = wrapper("wheel/ziglang/zig")
    everything = Host({**host.environ, "ROCM_PATH": str(tmp_path / "my rocm")}, host.root, zig)
    for name in (
        "bin/clang++",
        "bin/clang++-20",
        "bin/clang++-9",
        "bin/clang++-22",
        "root/opt/rocm-6.9.1/llvm/bin/clang++",
        "root/opt/rocm-6.10.0/llvm/bin/clang++",
        "my rocm/llvm/bin/clang++",
        "bin/hipcc",
    ):
        wrapper(name)
    order = [str(Path(c.command[0]).relative_to(tmp_path)) for c in candidates(everything)]
    assert order == [
        "bin/hipcc",
        "my rocm/llvm/bin/clang++",
        "root/opt/rocm-6.10.0/llvm/bin/clang++",
        "root/opt/rocm-6.9.1/llvm/bin/clang++",
        "bin/clang++-22",
        "bin/clang++-20",
        "bin/clang++",
        "wheel/ziglang/zig",
    ]


def test_the_first_that_works(host: Host, wrapper: Callable[..., Path], script: Script, gfx942: Target) -> None:
    script("bin/hipcc", "echo 'HIP version: 5.2'; echo 'clang version 15.0.6'; [ \"$1\" = --version ]\n")
    script("bin/clang++-30", "echo not a compiler; exit 1\n")
    wrapper("bin/clang++-21", "clang version 21.0.0")
    found = find_compiler(gfx942, host=host)
    assert found.command == (str(Path(host.environ["PATH"].split(":")[0]) / "clang++-21"),)
    assert (found.kind, found.version) == (CompilerKind.CLANG, "21.0.0")
    assert compile_device('extern "C" __attribute__((global)) void k() {}', gfx942, found).hsaco


def test_a_probe_is_remembered_until_the_compiler_changes(
    host: Host, wrapper: Callable[..., Path], gfx942: Target, tmp_path: Path
) -> None:
    path = wrapper("bin/clang++-22")

    def calls() -> int:
        return len((tmp_path / "calls").read_text().splitlines())

    first = find_compiler(gfx942, host=host)
    after_first = calls()
    assert find_compiler(gfx942, host=host) == first and calls() == after_first
    find_compiler(load_target("gfx90a"), host=host)
    assert calls() > after_first
    before = calls()
    os.utime(path, (1, 1))
    assert find_compiler(gfx942, host=host).identity != first.identity and calls() > before


def test_what_the_user_names_stands_alone(host: Host, wrapper: Callable[..., Path], gfx942: Target) -> None:
    wrapper("bin/clang++-22")
    mine = wrapper('some where/it\'s "mine"')
    assert find_compiler(gfx942, str(mine), host=host).command == (str(mine),)
    named = Host({**host.environ, "TKGEN_CXX": str(mine)}, host.root)
    assert find_compiler(gfx942, host=named).command == (str(mine),)
    by_name = find_compiler(gfx942, "clang++-22", host=named)
    assert Path(by_name.command[0]).name == "clang++-22"
    command_line = find_compiler(gfx942, f"{shlex.quote(str(mine))} -Wall", host=host)
    assert command_line.command == (str(mine), "-Wall")


@pytest.mark.parametrize("given", ["/no/such/clang++", "nonexistent", "'unclosed", "true", "/", "\0"])
def test_a_named_compiler_that_does_not_work_is_an_error(
    host: Host, wrapper: Callable[..., Path], gfx942: Target, given: str
) -> None:
    wrapper("bin/clang++-22")
    with pytest.raises(NoCompilerError, match="the compiler given cannot compile for gfx942"):
        find_compiler(gfx942, given, host=host)


def test_nothing_found_says_what_to_install(host: Host, gfx942: Target, script: Script) -> None:
    with pytest.raises(NoCompilerError) as caught:
        find_compiler(gfx942, host=host)
    assert INSTALL_ANYWHERE in caught.value.message and INSTALL_DEBIAN in caught.value.message
    script("bin/clang++", "echo 'clang version 14.0.6'\n")
    with pytest.raises(NoCompilerError, match="older than 19"):
        find_compiler(gfx942, host=host)


def test_kinds(host: Host, wrapper: Callable[..., Path], gfx942: Target, tmp_path: Path, clang: Compiler) -> None:
    installed = tmp_path / "llvm"
    wrapper("llvm/clang++")
    (installed / "llvm-objdump").write_text("")
    if clang.linker is not None:
        (installed / "ld.lld").symlink_to(clang.linker[0])
    wrapper("bin/hipcc", "HIP version: 6.4.0\nAMD clang version 19.0.0git", f"InstalledDir: {installed}")
    hipcc = find_compiler(gfx942, host=host)
    assert (hipcc.kind, hipcc.version) == (CompilerKind.HIPCC, "19.0.0git")
    assert hipcc.command == hipcc.assembler == (str(installed / "clang++"),) and hipcc.objdump == (
        str(installed / "llvm-objdump"),
    )
    rocm = wrapper("elsewhere/amdclang++", "AMD clang version 18.0.0git (roc-6.2.0)")
    assert find_compiler(gfx942, str(rocm), host=host).kind is CompilerKind.ROCM_CLANG


def test_a_hipcc_without_its_clang_is_passed_over(host: Host, wrapper: Callable[..., Path], gfx942: Target) -> None:
    wrapper("bin/hipcc", "HIP version: 6.4.0\nclang version 19.0.0", "InstalledDir: /nowhere")
    with pytest.raises(NoCompilerError, match="does not say which clang it runs"):
        find_compiler(gfx942, host=host)


def test_the_ziglang_wheel(ziglang: Compiler, host: Host, gfx942: Target, tmp_path: Path) -> None:
    zig = this_host().zig
    assert zig is not None and ziglang.command == (str(zig), "clang") and ziglang.linker == (str(zig), "ld.lld")
    alone = Host(host.environ, host.root, zig)
    assert find_compiler(gfx942, host=alone).kind is CompilerKind.ZIGLANG
    for given in (str(zig), f"{shlex.quote(str(zig))} clang"):
        assert find_compiler(gfx942, given, host=host).kind is CompilerKind.ZIGLANG


def test_doctor_on_a_bare_machine(host: Host, gfx942: Target) -> None:
    report = doctor([gfx942], host=host)
    assert not report.ok and report.compilers == ()
    by_name = {c.name: c for c in report.capabilities}
    assert INSTALL_ANYWHERE in by_name["code objects"].missing[0].install
    assert INSTALL_DEBIAN in by_name["code objects"].missing[0].install
    assert [m.what for m in by_name["run on this machine's GPU"].missing] == ["HIP runtime", "AMD GPU"]
    assert any("apt-get install" in m.install for m in by_name["Python module"].missing)
    for capability in report.capabilities:
        assert capability.available == (not capability.missing)
        assert all(m.install for m in capability.missing)


def test_doctor_says_which_nvcc_is_there(
    host: Host, script: Script, gfx942: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = {c.name: c for c in doctor([gfx942], host=host).capabilities}["run on this machine's NVIDIA GPU"]
    assert not bare.available and {"CUDA in torch", "NVIDIA GPU"} <= {m.what for m in bare.missing}
    script("bin/nvcc", "echo 'Cuda compilation tools, release 13.7, V13.7.1'\n")
    script("bin/cuobjdump", "exit 0\n")
    (tmp_path / "root/dev").mkdir(parents=True)
    (tmp_path / "root/dev/nvidia0").write_text("")
    (tmp_path / "site/torch").mkdir(parents=True)
    (tmp_path / "site/torch/__init__.py").write_text("raise RuntimeError('nobody imports it')\n")
    (tmp_path / "site/torch/version.py").write_text("cuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    report = doctor([gfx942], host=host)
    found = {c.name: c for c in report.components}
    assert found["nvcc"].detail == f"13.7 in {tmp_path / 'bin/nvcc'} (PATH)"
    assert found["cuobjdump"].detail == str(tmp_path / "bin/cuobjdump")
    assert found["CUDA in torch"].detail == "13.0" and found["NVIDIA GPU"].found
    can = {c.name: c for c in report.capabilities}
    assert can["machine code for Hopper"].available and can["instruction counts of Hopper kernels"].available
    assert [m.what for m in can["run on this machine's NVIDIA GPU"].missing] in ([], ["cuda-bindings"])


def test_doctor_without_an_nvcc_names_the_wheels(host: Host, gfx942: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tkgen.backends.hopper.toolchain.candidates", lambda *_: iter(()))
    report = doctor([gfx942], host=host)
    (code,) = (c for c in report.capabilities if c.name == "machine code for Hopper")
    assert not code.available and ["cuda" in m.install for m in code.missing] == [True]
    assert not {c.name: c for c in report.components}["cuobjdump"].found


def test_doctor_says_whose_tkgen_it_is(
    host: Host, gfx942: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Python Package Index has another project of this name, which installs over the same folder."""
    (own,) = (c for c in doctor([gfx942], host=host).components if c.name == "tkgen")
    assert own.found and tkgen.__version__ in own.detail
    stranger = tmp_path / "site" / "tkgen-0.2.4.dist-info"
    stranger.mkdir(parents=True)
    (stranger / "METADATA").write_text("Metadata-Version: 2.1\nName: tkgen\nVersion: 0.2.4\n")
    monkeypatch.syspath_prepend(str(stranger.parent))
    (other,) = (c for c in doctor([gfx942], host=host).components if c.name == "tkgen")
    assert not other.found and "tkgen 0.2.4 is another project's" in other.detail
    assert "pip uninstall tkgen" in other.install


def test_doctor_says_what_each_compiler_is_good_for(
    host: Host, wrapper: Callable[..., Path], script: Script, gfx942: Target, tmp_path: Path
) -> None:
    wrapper("bin/clang++-22")
    script("bin/hipcc", "echo 'perl: not found' >&2; exit 2\n")
    (tmp_path / "root/dev").mkdir(parents=True)
    (tmp_path / "root/dev/kfd").write_text("")
    report = doctor([gfx942, load_target("gfx90a")], host=host)
    broken, good = report.compilers
    assert broken.origin == "hipcc" and "perl: not found" in broken.targets["gfx942"] and broken.chosen_for == ()
    assert good.targets == {"gfx942": "", "gfx90a": ""} and good.chosen_for == ("gfx942", "gfx90a")
    assert report.ok and report.cache == tmp_path / "cache"
    assert {c.name: c.found for c in report.components}["AMD GPU"]
