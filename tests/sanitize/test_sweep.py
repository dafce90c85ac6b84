"""`tkgen sanitize FOLDER`: kernels whose launch nobody gave, and what is said of those that cannot be run."""

from __future__ import annotations

import json
import struct
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from kernels import GEMM
from mutating.machine_code import mutants, patched_elf
from typer.testing import CliRunner

from tkgen.cli import app
from tkgen.emulate import Kernel, load
from tkgen.sanitize.guess import Shape, pointers_of, shape_of
from tkgen.sanitize.subject import from_source
from tkgen.sanitize.sweep import sweep
from tkgen.sanitize.triton import Compiled

# A loop until memory changes, which zeros never end; data decides between two branches.
WAITS = """
#include <hip/hip_runtime.h>
__global__ __launch_bounds__(64) void waits(volatile int *flag, float *out) {
    while (flag[blockIdx.x] == 0) {}
    out[threadIdx.x] = 1;
}
"""
DECIDES = """
#include <hip/hip_runtime.h>
__global__ __launch_bounds__(64) void decides(const int *mode, float *out) {
    float x = threadIdx.x;
    if (mode[blockIdx.x] == 1)
        for (int i = 0; i < 9; ++i) x = x * x + sqrtf(x) / (x + 3) + sinf(x) + out[i];
    out[threadIdx.x] = x;
}
"""
SHARED = """
#include <hip/hip_runtime.h>
__global__ __launch_bounds__(128) void shared(volatile int *flag, float *out) {
    __shared__ float kept[64];
    kept[threadIdx.x % 64] = out[threadIdx.x];
    __syncthreads();
#ifdef SPIN
    while (flag[blockIdx.x] == 0) {}
#endif
    out[threadIdx.x] = kept[threadIdx.x % 64];
}
"""
PLANAR = """
#include <hip/hip_runtime.h>
__global__ __launch_bounds__(128) void planar(float *out, int width) {
    out[(blockIdx.y * 2 + threadIdx.y) * width + threadIdx.x] = 1;
}
"""


@cache
def built(source: str, *macros: str) -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cpp"
        path.write_text(source)
        return from_source(path, "gfx942", defines=dict.fromkeys(macros, "1")).code.elf


def bundle(*entries: tuple[str, bytes]) -> bytes:
    """An offload bundle with the code of these GPUs."""
    at = 32 + sum(24 + len(name) for name, _ in entries)
    head, body = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries)), b""
    for name, data in entries:
        head += struct.pack("<QQQ", at + len(body), len(data), len(name)) + name.encode()
        body += data
    return head + body


def swept(folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the rows by file."""
    result = CliRunner().invoke(app, ["sanitize", str(folder), "--json", *options])
    return result.exit_code, {row["file"]: row for row in json.loads(result.stdout)}


def test_a_race_is_named_in_a_kernel_whose_arguments_nobody_gave(tmp_path: Path) -> None:
    """Pointers, extents and dynamic LDS of the struct are found; the same kernel with its barrier is clean."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "clean.hsaco").write_bytes(built(GEMM))
    (tmp_path / "inner" / "racy.co").write_bytes(built(GEMM, "RACE"))
    (tmp_path / "notes.txt").write_text("no code")
    code, rows = swept(tmp_path)
    assert code == 1 and list(rows) == ["clean.hsaco", "inner/racy.co"]
    clean, racy = rows["clean.hsaco"], rows["inner/racy.co"]
    assert (clean["result"], clean["diagnostics"]) == ("clean", []) and clean["executed"] > 0.9
    assert racy["result"] == "findings" and {d["code"] for d in racy["diagnostics"]} == {"E701"}
    assert "3 pointers" in racy["arguments"] and racy["launch"].startswith("4x4x1 blocks of 256x1x1 threads")
    (tmp_path / "inner" / "racy.co").unlink()
    assert swept(tmp_path)[0] == 0


def test_kernels_that_cannot_be_run_are_never_clean(tmp_path: Path) -> None:
    """One that waits for others, one of which data decides, code of another GPU, a damaged file: exit code 4."""
    (tmp_path / "waits.hsaco").write_bytes(built(WAITS))
    (tmp_path / "decides.hsaco").write_bytes(built(DECIDES))
    (tmp_path / "other.co").write_bytes(bundle(("hipv4-amdgcn-amd-amdhsa--gfx1100", built(WAITS))))
    (tmp_path / "damaged.hsaco").write_bytes(built(WAITS)[:900])
    code, rows = swept(tmp_path)
    assert code == 4
    results = {name: row["result"] for name, row in rows.items()}
    assert results == {"waits.hsaco": "not run", "decides.hsaco": "partly", "other.co": "not run",
                       "damaged.hsaco": "not run"}  # fmt: skip
    assert "instructions" in rows["waits.hsaco"]["reason"] and rows["decides.hsaco"]["executed"] < 0.5
    assert "gfx1100" in rows["other.co"]["target"] and "no code for" in rows["other.co"]["reason"]
    text = CliRunner().invoke(app, ["sanitize", str(tmp_path)]).stdout
    assert "4 kernels: 1 run partly, 3 not run" in text


def test_a_launch_that_does_not_end_shows_wait_states_alone(tmp_path: Path) -> None:
    """Two waves write the same bytes: named where the kernel ends, with the note that values are unknown."""
    (tmp_path / "ends.hsaco").write_bytes(built(SHARED))
    (tmp_path / "spins.hsaco").write_bytes(built(SHARED, "SPIN"))
    code, rows = swept(tmp_path)
    assert code == 1 and rows["spins.hsaco"]["result"] == "not run" and not rows["spins.hsaco"]["diagnostics"]
    (found,) = rows["ends.hsaco"]["diagnostics"]
    assert found["code"] == "E701" and any("values are unknown here" in note for note in found["notes"])


def test_too_few_wait_states_are_a_result_of_their_own(tmp_path: Path) -> None:
    """An `s_nop` is moved past the read of a mask, in code that no launch executes: the exit code is 1."""
    code = load(built(DECIDES))
    states = next(m for m in mutants(code, code.kernel()) if m.kind == "wait states dropped")
    (tmp_path / "close.hsaco").write_bytes(patched_elf(code, states.words))
    exit_code, rows = swept(tmp_path)
    row = rows["close.hsaco"]
    assert exit_code == 1 and row["result"] == "wait states" and "of its code" in row["reason"]
    assert [d["code"] for d in row["diagnostics"]] == ["E714"]


def test_a_bundle_is_read_for_each_gpu_that_is_known(tmp_path: Path) -> None:
    entries = (("hip-amdgcn-amd-amdhsa--gfx942", built(PLANAR)), ("hip-amdgcn-amd-amdhsa--gfx1100", b"\x7fELF"))
    (tmp_path / "two.co").write_bytes(bundle(*entries))
    (row,) = sweep(tmp_path)
    assert (row.target, row.result, row.executed) == ("gfx942", "clean", 1.0)
    assert row.launch.startswith("4x4x1 blocks of 64x2x1 threads")


def test_the_threads_of_a_block_come_from_the_best_source_there_is() -> None:
    """Triton's metadata, `.reqd_workgroup_size`, `.max_flat_workgroup_size`, and a guess for the default of 1024."""
    kernel = load(built(WAITS)).kernel()

    def shape(most: int, compiled: Compiled | None = None, **metadata: object) -> Shape:
        of = Kernel(**{**vars(kernel), "most_threads": most, "metadata": metadata})
        return shape_of(of, compiled)

    assert shape(512).block == (512, 1, 1) and shape(1024).block == (256, 1, 1)
    assert shape(1024, **{".reqd_workgroup_size": [8, 8, 2]}).block == (8, 8, 2)
    assert shape(1024, Compiled(128, 0, 0, ())).block == (128, 1, 1)
    assert shape(512).blocks == (0, 3)


def test_pointers_of_a_struct_are_those_whose_memory_is_accessed() -> None:
    code = load(built(GEMM))
    kernel = code.kernel()
    (pointers,) = pointers_of(code, kernel, shape_of(kernel, None)).values()
    assert sorted(pointers) == [0, 40, 80]


@pytest.mark.parametrize("options", [["--grid", "4"], ["--arg", "i32=1"], ["--format", "sarif"]])
def test_options_of_one_launch_are_refused(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "a.hsaco").write_bytes(built(PLANAR))
    result = CliRunner().invoke(app, ["sanitize", str(tmp_path), *options])
    assert result.exit_code == 2 and options[0] in result.output


def test_a_folder_without_code_objects_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("nothing")
    result = CliRunner().invoke(app, ["sanitize", str(tmp_path)])
    assert result.exit_code == 2 and "no code object" in result.output
