"""Real compilations of small kernels: outputs, flags that must not matter, errors and where they come from."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from toolchain_kernels import KERNEL, MANY_REGISTERS

from tkgen.targets import Target, load_target
from tkgen.toolchain.cache import Cache
from tkgen.toolchain.compile import compile_device, parse_messages
from tkgen.toolchain.compiler import Compiler, CompilerKind, Location, ToolchainError
from tkgen.toolchain.isa import parse_asm
from tkgen.toolchain.metadata import read_resources, read_target


def text_section(hsaco: bytes | None) -> bytes:
    assert hsaco is not None
    section = ELFFile(io.BytesIO(hsaco)).get_section_by_name(".text")
    return bytes(section.data())


def test_code_object_and_assembly(compiler: Compiler, gfx942: Target) -> None:
    result = compile_device(KERNEL, gfx942, compiler)
    assert result.asm is not None and result.hsaco is not None
    assert "v_mfma_f32_16x16x16_bf16" in result.asm
    assert read_target(result.hsaco) == "gfx942"
    tiny = read_resources(result.hsaco)["tiny"]
    assert (tiny.lds_static_bytes, tiny.wavefront, tiny.max_workgroup, tiny.kernarg_bytes) == (512, 64, 256, 28)
    assert tiny.clean and 8 <= tiny.vgpr <= 64 and tiny.agpr == 0
    assert result.seconds > 0 and not result.cached and not result.warnings


@pytest.mark.parametrize("name", ["gfx90a", "gfx950"])
def test_other_targets(compiler: Compiler, name: str) -> None:
    target = load_target(name)
    hsaco = compile_device(KERNEL, target, compiler, outputs=("hsaco",)).hsaco
    assert hsaco is not None and read_target(hsaco) == name


def test_only_what_is_asked_for(clang: Compiler, gfx942: Target) -> None:
    assert compile_device(KERNEL, gfx942, clang, outputs=("asm",)).hsaco is None
    assert compile_device(KERNEL, gfx942, clang, outputs=("hsaco",)).asm is None


@pytest.mark.parametrize("source", [KERNEL, MANY_REGISTERS.replace("THREADS", "256")])
def test_line_tables_do_not_change_the_code(compiler: Compiler, gfx942: Target, source: str) -> None:
    plain = compile_device(source, gfx942, compiler, debug_lines=False)
    lines = compile_device(source, gfx942, compiler, debug_lines=True)
    assert text_section(plain.hsaco) == text_section(lines.hsaco)
    assert ".loc" in (lines.asm or "") and ".loc" not in (plain.asm or "")


def test_assembling_the_assembly_gives_the_code_of_a_direct_compile(
    clang: Compiler, gfx942: Target, tmp_path: Path
) -> None:
    from tkgen.toolchain.compile import Options, device_flags
    from tkgen.toolchain.process import run_tool

    (tmp_path / "in.cpp").write_text(KERNEL)
    direct = (*clang.command, *device_flags(gfx942, Options()), "-o", "direct.hsaco", "in.cpp")
    assert run_tool(direct, cwd=tmp_path).ok
    ours = compile_device(KERNEL, gfx942, clang)
    assert text_section(ours.hsaco) == text_section((tmp_path / "direct.hsaco").read_bytes())


def test_ziglang_and_clang_of_one_version_agree(clang: Compiler, ziglang: Compiler, gfx942: Target) -> None:
    if clang.version != ziglang.version:
        pytest.skip(f"clang {clang.version} and ziglang's {ziglang.version} may differ")
    sections = {text_section(compile_device(KERNEL, gfx942, c).hsaco) for c in (clang, ziglang)}
    assert len(sections) == 1


def test_same_result_from_another_folder(clang: Compiler, gfx942: Target, tmp_path: Path) -> None:
    """No path of the machine reaches the output: not the working folder, not where the headers are."""
    results = []
    for name in ("one", "two words", "q'uo\"te"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "value.h").write_text(
            'extern "C" __attribute__((global)) void k(int* p) { *p = VALUE; }\nconst char* file = __FILE__;\n'
        )
        (tmp_path / name / "main file.cpp").write_text('#include "value.h"\n')
        results.append(
            compile_device(
                tmp_path / name / "main file.cpp",
                gfx942,
                clang,
                include_dirs=[tmp_path / name],
                defines={"VALUE": "42"},
            )
        )
    assert results[0].asm == results[1].asm == results[2].asm
    assert results[0].hsaco == results[1].hsaco == results[2].hsaco
    assert str(tmp_path).encode() not in (results[0].hsaco or b"")
    assert "main file.cpp" in (results[0].asm or "")


def test_warnings_are_kept(clang: Compiler, gfx942: Target) -> None:
    result = compile_device("#warning mind this\n" + KERNEL, gfx942, clang, source_name="a.cpp")
    assert "a.cpp:1:2: warning: mind this" in result.warnings


def test_host_headers_are_out_of_reach(compiler: Compiler, gfx942: Target) -> None:
    with pytest.raises(ToolchainError, match=r"'stdio\.h' file not found"):
        compile_device("#include <stdio.h>\n" + KERNEL, gfx942, compiler)


def test_the_first_error_and_its_line(compiler: Compiler, gfx942: Target, tmp_path: Path) -> None:
    source = KERNEL.replace("sum = __b", "sum = undeclared + __b")
    log = tmp_path / "logs" / "tiny.log"
    with pytest.raises(ToolchainError) as caught:
        compile_device(source, gfx942, compiler, source_name="tiny.cpp", log=log)
    error = caught.value
    assert error.origin == Location("tiny.cpp", 11, 11)
    assert error.message == "tiny.cpp:11:11: use of undeclared identifier 'undeclared'"
    assert error.log == log and "undeclared + __builtin" in log.read_text() and log.read_text().startswith("$ ")
    assert list(log.parent.iterdir()) == [log]


def test_an_error_in_a_header_points_at_the_line_that_led_there(
    clang: Compiler, gfx942: Target, tmp_path: Path
) -> None:
    (tmp_path / "t.h").write_text("template <class T> __attribute__((device)) void set(T* p) { p->x = 1; }\n")
    source = '#include "t.h"\nextern "C" __attribute__((global)) void k(int* p) {\n  set(p);\n}\n'
    with pytest.raises(ToolchainError, match="not a structure or union") as caught:
        compile_device(source, gfx942, clang, include_dirs=[tmp_path], source_name="k.cpp")
    first = caught.value.errors[0]
    assert first.location is not None and first.location.file.endswith("t.h") and first.location.line == 1
    assert first.origin == Location("k.cpp", 3, 3)


def test_an_undefined_function_points_at_its_use(compiler: Compiler, gfx942: Target) -> None:
    source = "__attribute__((device)) int nope(int);\n"
    source += 'extern "C" __attribute__((global)) void k(int* p) {\n  *p = nope(3);\n}\n'
    with pytest.raises(ToolchainError, match=r"k.cpp:3: undefined hidden symbol: nope\(int\)") as caught:
        compile_device(source, gfx942, compiler, source_name="k.cpp")
    assert caught.value.origin == Location("k.cpp", 3)


def test_too_much_lds_is_an_error_with_a_place(compiler: Compiler, gfx942: Target) -> None:
    source = KERNEL.replace("tile[64]", "tile[20000]")
    with pytest.raises(ToolchainError, match=r"local memory \(160000\) exceeds limit \(65536\)") as caught:
        compile_device(source, gfx942, compiler)
    assert caught.value.origin is not None


def test_messages_of_all_kinds() -> None:
    output = (
        "In file included from k.cpp:1:\n"
        "/x/h.cuh:7:3: error: first\n    7 |   bad(k.cpp:99);\n"
        "k.cpp:12:5: note: in instantiation of function template specialization 'f<int>' requested here\n"
        "k.cpp:20:1: fatal error: second\n"
        "ld.lld: error: undefined symbol: g\n>>> referenced by k.cpp:31 (./k.cpp:31)\n>>>   out.o:(k)\n"
        "clang++-22: error: ld.lld command failed with exit code 1\n"
    )
    messages = parse_messages(output, "k.cpp")
    assert [m.text for m in messages[:3]] == ["first", "second", "undefined symbol: g"]
    assert [m.origin for m in messages[:3]] == [
        Location("k.cpp", 12, 5),
        Location("k.cpp", 20, 1),
        Location("k.cpp", 31),
    ]
    assert messages[0].location == Location("/x/h.cuh", 7, 3)
    assert parse_messages("all is well\n", "k.cpp") == ()


@pytest.mark.parametrize("define", [("9lives", ""), ("A B", ""), ("-o", "x"), ("OK", "two\nlines")])
def test_no_define_is_anything_else(clang: Compiler, gfx942: Target, define: tuple[str, str]) -> None:
    with pytest.raises(ToolchainError, match="not a macro"):
        compile_device(KERNEL, gfx942, clang, defines=dict([define]))


def test_nothing_reaches_a_shell(clang: Compiler, gfx942: Target, tmp_path: Path) -> None:
    name = "$(touch pwned);`touch pwned`&'.cpp"
    (tmp_path / name).write_text(KERNEL)
    result = compile_device(tmp_path / name, gfx942, clang, defines={"X": f"$(touch {tmp_path}/pwned)"})
    assert result.hsaco and not (tmp_path / "pwned").exists() and not Path("pwned").exists()


def test_missing_inputs(clang: Compiler, gfx942: Target, tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="cannot read"):
        compile_device(tmp_path / "none.cpp", gfx942, clang)
    with pytest.raises(ToolchainError, match="no folder of headers"):
        compile_device(KERNEL, gfx942, clang, include_dirs=[tmp_path / "none"])
    with pytest.raises(ToolchainError, match="not a ThunderKittens checkout"):
        compile_device(KERNEL, gfx942, clang, kittens=tmp_path)
    (tmp_path / "include").mkdir()
    (tmp_path / "include/kittens.cuh").write_text("")
    stranger = Compiler(CompilerKind.CLANG, ("/usr/bin/clang++-22",), "22", ("/usr/bin/clang++-22",))
    with pytest.raises(ToolchainError, match="needs an installed HIP: apt-get"):
        compile_device(KERNEL, gfx942, stranger, kittens=tmp_path)


def test_a_foreign_checkout_replaces_the_headers(clang: Compiler, gfx942: Target, tmp_path: Path) -> None:
    """With `kittens` its headers are on the path and the target's macro is set; nothing says freestanding."""
    from tkgen.toolchain.compile import Options, device_flags

    flags = device_flags(gfx942, Options(kittens=tmp_path))
    assert f"{tmp_path}/include" in flags and "-DKITTENS_CDNA3" in flags
    assert not {"-nogpuinc", "-nostdinc", "-DKITTENS_DEVICE_ONLY"} & set(flags)
    assert "-DKITTENS_CDNA2" in device_flags(load_target("gfx90a"), Options(kittens=tmp_path))


def test_a_compiler_that_hangs_is_ended_with_its_children(
    gfx942: Target, script: Callable[..., Path], tmp_path: Path
) -> None:
    slow = script("slow clang", f"sleep 60 & echo $! > '{tmp_path}/child'; wait\n")
    hanging = Compiler(CompilerKind.CLANG, (str(slow),), "1", (str(slow),))
    start = time.monotonic()
    with pytest.raises(ToolchainError, match=r"did not end within 0\.5 s"):
        compile_device(KERNEL, gfx942, hanging, timeout=0.5)
    assert time.monotonic() - start < 10
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{child}/stat").read_text().split()[2] == "Z":
                return
            os.kill(child, 0)
        except OSError:
            return
        time.sleep(0.05)
    pytest.fail("the compiler's child is still running")


def test_a_compiler_that_is_gone_or_lies(gfx942: Target, script: Callable[..., Path], tmp_path: Path) -> None:
    gone = Compiler(CompilerKind.CLANG, (str(tmp_path / "gone"),), "1", ("gone",))
    with pytest.raises(ToolchainError, match="cannot run"):
        compile_device(KERNEL, gfx942, gone)
    noisy = script("noisy", "head -c 100000 /dev/urandom >&2; exit 3\n")
    with pytest.raises(ToolchainError):
        compile_device(KERNEL, gfx942, Compiler(CompilerKind.CLANG, (str(noisy),), "1", (str(noisy),)))
    silent = script("silent", "exit 0\n")
    with pytest.raises(ToolchainError, match="left no"):
        compile_device(KERNEL, gfx942, Compiler(CompilerKind.CLANG, (str(silent),), "1", (str(silent),)))


def test_cached_results(clang: Compiler, gfx942: Target, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    headers = tmp_path / "headers"
    headers.mkdir()
    (headers / "n.h").write_text("#define N 1\n")
    source = f'#include "n.h"\n{KERNEL}'

    def build(**changed: object) -> bool:
        options: dict[str, object] = {"include_dirs": [headers], "cache": cache, "defines": {"D": "1"}, **changed}
        text = str(options.pop("source", source))
        result = compile_device(text, gfx942, clang, **options)  # type: ignore[arg-type]
        assert result.asm and result.hsaco
        return result.cached

    assert not build()
    assert build()
    assert not build(source=source + "\n// more")
    assert not build(defines={"D": "2"})
    assert not build(debug_lines=False)
    (headers / "n.h").write_text("#define N 2\n")
    assert not build()
    moved = tmp_path / "moved"
    headers.rename(moved)
    assert build(include_dirs=[moved])
    newer = Compiler(clang.kind, clang.command, clang.version, clang.assembler, clang.linker, fingerprint="newer")
    assert not compile_device(source, gfx942, newer, include_dirs=[moved], cache=cache, defines={"D": "1"}).cached


def test_a_cached_result_is_the_same(clang: Compiler, gfx942: Target, tmp_path: Path) -> None:
    first, second = (compile_device(KERNEL, gfx942, clang, cache=Cache(tmp_path)) for _ in range(2))
    assert second.cached and (first.asm, first.hsaco) == (second.asm, second.hsaco)
    assert parse_asm(second.asm or "")["tiny"].instructions


def test_failures_are_not_cached(clang: Compiler, gfx942: Target, tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(ToolchainError):
            compile_device("nonsense", gfx942, clang, cache=Cache(tmp_path / "c"))
    assert not (tmp_path / "c").exists()
