"""Files and options that are wrong: one clear sentence and the right exit code, never a traceback."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from kernels import ARGUMENT, GEMM, LAUNCH
from sampling import sample
from typer.testing import CliRunner, Result

from tkgen.backends.cdna.kittens import include_dir
from tkgen.cli import app
from tkgen.targets import load_target
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.discover import find_compiler

COPY = (
    'extern "C" __global__ void copy(const float *in, float *out, int n) { out[threadIdx.x] = in[threadIdx.x + n]; }\n'
)
PLAIN = ["--grid", "1", "--block", "64"]
ARGS = ["--arg", "f32[64]=randn", "--arg", "f32[64]=nan:out", "--arg", "i32=0"]


def run(path: Path, *options: str) -> Result:
    result = CliRunner().invoke(app, ["sanitize", str(path), *options])
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture(scope="module")
def hsaco(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    gpu = load_target("gfx942")
    headers = include_dir()
    text = '#include "kittens.cuh"\n#line 1 "copy.cpp"\n' + COPY
    made = compile_device(
        text, gpu, find_compiler(gpu), include_dirs=[headers], outputs=["hsaco"], source_name="copy.cpp"
    )
    assert made.hsaco is not None
    path = folder / "copy.hsaco"
    path.write_bytes(made.hsaco)
    return path


def test_a_code_object_runs(hsaco: Path) -> None:
    assert run(hsaco, *PLAIN, *ARGS).exit_code == 0
    wrong = run(hsaco, *PLAIN, *ARGS[:-1], "i32=1")
    assert wrong.exit_code == 1 and "E703" in wrong.output
    assert "copy.cpp:1:" in wrong.output  # the source is not there; its name and line are


def test_the_source_of_a_code_object_is_shown_where_it_lies_beside(hsaco: Path) -> None:
    source = hsaco.parent / "copy.cpp"
    source.write_text(COPY)
    output = run(hsaco, *PLAIN, *ARGS[:-1], "i32=1").output
    source.unlink()
    assert "1 | extern" in output and "^^^ wave 0 reads here" in output


def test_without_debug_information_the_instruction_is_shown(hsaco: Path, tmp_path: Path) -> None:
    text = '#include "kittens.cuh"\n' + COPY
    gpu = load_target("gfx942")
    headers = include_dir()
    made = compile_device(text, gpu, find_compiler(gpu), include_dirs=[headers], outputs=["hsaco"], debug_lines=False)
    assert made.hsaco is not None
    path = tmp_path / "stripped.hsaco"
    path.write_bytes(made.hsaco)
    output = run(path, *PLAIN, *ARGS[:-1], "i32=1").output
    assert "global_load_dword" in output and "^^^ wave 0 reads here" in output


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        ([], "--grid is missing", 2),
        (["--grid", "1"], "--block is missing", 2),
        (["--grid", "1,2,3,4", "--block", "64"], "--grid 1,2,3,4: it is X, X,Y or X,Y,Z", 2),
        (["--grid", "-1", "--block", "64"], "--grid -1", 2),
        (["--grid", "0", "--block", "64", *ARGS], "must be positive", 2),
        (["--grid", "99999999999", "--block", "64", *ARGS], "--grid 99999999999", 2),
        (["--grid", "9999999999", "--block", "64", *ARGS], "blocks are too many", 2),
        (["--grid", "2000000000,2000000000", "--block", "64", *ARGS], "blocks are too many", 2),
        (["--grid", "1", "--block", "4096", *ARGS], "threads per block", 2),
        (PLAIN, "copy takes arguments: ", 2),
        ([*PLAIN, *ARGS[:4]], "takes 3 arguments", 2),
        ([*PLAIN, "--arg", "f32[64]", "--arg", "i32=1", "--arg", "i32=0"], "is a pointer of 8 bytes, not 4 bytes", 2),
        ([*PLAIN, *ARGS, "--lds", "70000"], "70000 bytes of LDS", 2),
        ([*PLAIN, *ARGS, "--kernel", "nothing"], "no kernel 'nothing'", 2),
        ([*PLAIN, *ARGS, "-t", "gfx90a"], "is compiled for gfx942, not for gfx90a", 2),
        ([*PLAIN, *ARGS, "--blocks", "7"], "the grid has blocks 0..0", 2),
        ([*PLAIN, *ARGS, "--blocks", "0..x"], "--blocks 0..x: it is a list", 2),
        ([*PLAIN, *ARGS, "--args-from", "x.py"], "use either --arg and --args, or --args-from", 2),
        ([*PLAIN, "--args-from", "nowhere.py:f"], "no file nowhere.py", 2),
        ([*PLAIN, *ARGS, "--schedules", "0"], "--schedules", 2),
    ],
)
def test_options(hsaco: Path, options: list[str], message: str, code: int) -> None:
    result = run(hsaco, *options)
    assert result.exit_code == code, result.output
    assert message in " ".join(result.output.split())


def test_files(tmp_path: Path, hsaco: Path) -> None:
    def says(data: bytes | None, name: str) -> str:
        path = tmp_path / name
        if data is not None:
            path.write_bytes(data)
        result = run(path, *PLAIN, *ARGS)
        assert result.exit_code == 2, result.output
        return result.output

    good = hsaco.read_bytes()
    assert "No such file" in says(None, "nowhere.hsaco")
    assert "is not an ELF file" in says(b"", "empty.hsaco")
    assert "is not an ELF file" in says(b"hello", "text.txt")
    assert "not a usable AMDGPU code object" in says(good[:100], "short.hsaco")
    assert "not for AMD GPUs" in says(_host_elf(good), "host.o")
    assert "is for another GPU" in says(good[:48] + bytes([0x2F]) + good[49:], "other.hsaco")
    assert "compressed offload bundle" in says(b"CCOB" + good, "bundle.hsaco")
    assert "are launched by a rule" in " ".join(run(tmp_path, *PLAIN).output.split())


def _host_elf(good: bytes) -> bytes:
    return good[:18] + (62).to_bytes(2, "little") + good[20:]  # e_machine = EM_X86_64


def test_damaged_code_objects_never_crash(tmp_path: Path, hsaco: Path) -> None:
    good, rng = hsaco.read_bytes(), random.Random(0)
    path = tmp_path / "damaged.hsaco"
    for _ in range(40):
        data = bytearray(good)
        for _ in range(rng.choice([1, 4, 40])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(bytes(data[: rng.choice([len(data), rng.randrange(len(data))])]))
        result = run(path, *PLAIN, *ARGS, "--schedules", "1", "--budget", "20000")
        assert result.exit_code in (0, 1, 2) and result.output.strip()


@pytest.mark.parametrize("place", sample((1 << 31, 1 << 62, (1 << 64) - 1), 3))
def test_sections_that_stand_nowhere(place: int, tmp_path: Path, hsaco: Path) -> None:
    """Each in turn; where it held debug information, that costs the lines and nothing else."""
    good, path = hsaco.read_bytes(), tmp_path / "nowhere.hsaco"
    table, count = struct.unpack_from("<Q", good, 40)[0], struct.unpack_from("<H", good, 60)[0]
    for section in range(table, table + 64 * count, 64):
        data = bytearray(good)
        struct.pack_into("<Q", data, section + 24, place)
        path.write_bytes(data)
        result = run(path, *PLAIN, *ARGS[:-1], "i32=1", "--schedules", "1")
        assert result.exit_code in (1, 2) and result.output.strip()


def test_a_source_that_does_not_compile(tmp_path: Path) -> None:
    path = tmp_path / "wrong.cpp"
    path.write_text("__global__ void k(float *x) { y = 1; }\n")
    result = run(path, *PLAIN, "--arg", "f32[1]")
    assert result.exit_code == 3 and "wrong.cpp:1:31: use of undeclared identifier 'y'" in result.output


def test_an_argument_is_refused_before_the_compiler_is_called(tmp_path: Path) -> None:
    path = tmp_path / "wrong.cpp"
    path.write_text("this does not compile\n")
    result = run(path, *PLAIN, "--arg", "f33[1]")
    assert result.exit_code == 2 and "expected a type" in result.output


def test_a_struct_of_the_wrong_size(tmp_path: Path) -> None:
    path = tmp_path / "gemm.cpp"
    path.write_text(GEMM)
    result = run(path, *LAUNCH, "--arg", ARGUMENT.replace(", rc)", ")"))
    assert result.exit_code == 2 and "bytes" in result.output


def test_a_checkout_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "gemm.cpp"
    path.write_text(GEMM)
    result = run(path, *LAUNCH, "--arg", ARGUMENT, "--kittens", str(tmp_path))
    assert result.exit_code == 3 and "not a ThunderKittens checkout" in result.output
