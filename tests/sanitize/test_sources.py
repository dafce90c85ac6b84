"""A hand-written ThunderKittens source, host part and all, under the referee: what is found and where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kernels import ARGUMENT, GEMM, LAUNCH
from typer.testing import CliRunner, Result

from tkgen.cli import app
from tkgen.emulate import Buffer, Struct
from tkgen.sanitize import Launch, Verdict, from_source, parse, sanitize
from tkgen.toolchain import checkout as checkout_compiler
from tkgen.toolchain.compiler import ToolchainError


@pytest.fixture
def gemm(tmp_path: Path) -> Path:
    path = tmp_path / "gemm.cpp"
    path.write_text(GEMM)
    return path


def run(path: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["sanitize", str(path), *LAUNCH, "--arg", ARGUMENT, "--schedules", "3", *options])


def line_of(text: str) -> int:
    return 1 + next(i for i, line in enumerate(GEMM.splitlines()) if text in line)


def test_the_right_kernel_is_clean_and_right(gemm: Path) -> None:
    import numpy as np

    arguments = parse([ARGUMENT])
    left: list[Struct] = []

    def check(outcome: object, args: object) -> str:
        left.append(args[0])  # type: ignore[index]
        return ""

    launch = Launch((2, 2, 1), (256, 1, 1), type(arguments)(arguments.make, check), 16384)
    verdict = sanitize(from_source(gemm, "gfx942"), launch, schedules=2)
    assert verdict.clean and verdict.diagnostics == () and (verdict.blocks, verdict.schedules) == (4, 2)
    a, b, c = (f.fields[0].data for f in left[0].fields)  # type: ignore[union-attr]
    wide = [(x.astype(np.uint32) << 16).view(np.float32) for x in (a, b)]
    assert np.abs(c - wide[0] @ wide[1].T).max() < 1e-4
    assert isinstance(left[0].fields[0].fields[0], Buffer)  # type: ignore[union-attr]


def test_a_race_names_both_statements_of_the_file_not_of_the_headers(gemm: Path) -> None:
    result = run(gemm, "-D", "RACE", "--format", "json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert {d["code"] for d in found} == {"E701"}
    assert all("may still read bytes of LDS" in d["message"] for d in found)
    places = {(d["primary"]["line"], *(s["line"] for s in d["secondary"])) for d in found}
    brings = line_of("group<GROUP>::load")  # the helper's line; its callers are in the notes
    assert {brings} == {second for _, second in places}
    assert {line_of("load(a, sub"), line_of("load(b, sub")} <= {first for first, _ in places}
    assert all(d["primary"]["file"] == str(gemm) for d in found)
    notes = " ".join(note for d in found for note in d["notes"])
    assert f"called from gemm.cpp:{line_of('bring(left, g.left')}" in notes
    assert "include/kittens/" in notes and "seen on 3 of 3 schedules" in notes


def test_a_read_that_came_too_early_is_a_race_not_lds_that_nobody_wrote(gemm: Path) -> None:
    first = GEMM.index("        __syncthreads();")
    gemm.write_text(GEMM[:first] + GEMM[first:].replace("        __syncthreads();\n", "", 1))
    found = json.loads(run(gemm, "--format", "json").stdout)
    assert {d["code"] for d in found} == {"E701"}
    assert any("before wave" in d["message"] for d in found)


def test_one_step_has_no_race(gemm: Path) -> None:
    short = ARGUMENT.replace("128,192", "128,64")
    result = CliRunner().invoke(app, ["sanitize", str(gemm), *LAUNCH, "--arg", short, "-D", "RACE"])
    assert result.exit_code == 0, result.output


def test_a_collective_of_eight_waves_on_four_leaves_half_a_tile(gemm: Path) -> None:
    result = run(gemm, "-D", "GROUP=8")
    assert result.exit_code == 1 and "error[E702]" in result.output
    assert "group<N>::load must run on all N waves" in " ".join(result.output.split())


def test_too_small_a_grid_leaves_output_unwritten(gemm: Path) -> None:
    result = CliRunner().invoke(app, ["sanitize", str(gemm), *LAUNCH, "--arg", ARGUMENT, "--grid", "2"])
    assert "error[E707]: 32768 of 65536 bytes of C are never written" in result.output


def test_some_blocks_alone(gemm: Path) -> None:
    result = run(gemm, "--blocks", "0,2..3")
    assert result.exit_code == 0 and "; 3 blocks, 3 schedules" in result.output


def test_elements_instead_of_tiles_as_coordinates_are_out_of_bounds(gemm: Path) -> None:
    gemm.write_text(GEMM.replace("int(blockIdx.y) * 2 + row", "int(blockIdx.y) * 64 + row * 32"))
    found = run(gemm).output
    assert "E707" in found  # buffer stores past the tensor are dropped by the hardware, so rows stay unwritten


def test_missing_lds_is_named(gemm: Path) -> None:
    result = CliRunner().invoke(
        app, ["sanitize", str(gemm), "--grid", "2,2", "--block", "256", "--arg", ARGUMENT, "--schedules", "1"]
    )
    assert result.exit_code == 1 and "the block has 0 bytes" in result.output and "--lds" in result.output


def test_sarif_and_github(gemm: Path) -> None:
    log = json.loads(run(gemm, "-D", "RACE", "--format", "sarif").stdout)
    assert log["version"] == "2.1.0"
    (sarif,) = log["runs"]
    rules = [r["id"] for r in sarif["tool"]["driver"]["rules"]]
    assert rules == ["E701"] and "fullDescription" in sarif["tool"]["driver"]["rules"][0]
    for result in sarif["results"]:
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"].endswith("/gemm.cpp") and place["region"]["startLine"] > 1
        assert result["level"] == "error" and rules[result["ruleIndex"]] == result["ruleId"]
        assert result["relatedLocations"][0]["physicalLocation"]["region"]["startLine"]
    assert run(gemm, "-D", "RACE", "--format", "github").stdout.startswith("::error file=")


def test_a_header_beside_the_file_is_found(gemm: Path, tmp_path: Path) -> None:
    (tmp_path / "shapes.cuh").write_text("#define GROUP 4\n")
    gemm.write_text('#include "shapes.cuh"\n' + GEMM)
    assert run(gemm, "--schedules", "1").exit_code == 0


def verdict_of(path: Path) -> Verdict:
    launch = Launch((1, 1, 1), (64, 1, 1), parse(["f32[64]=randn", "f32[64]=nan:out"]))
    return sanitize(from_source(path, "gfx942"), launch, schedules=2)


def test_names_of_a_file_that_are_odd(tmp_path: Path) -> None:
    path = tmp_path / 'a "quoted" name.cpp'
    path.write_text(
        "#include <hip/hip_runtime.h>\n#include <type_traits>\n"
        "__global__ void copy(const float *in, float *out) { out[threadIdx.x] = in[threadIdx.x]; }\n"
    )
    assert verdict_of(path).clean


def test_an_index_outside_of_an_array_is_found_though_the_machine_code_does_not_show_it(tmp_path: Path) -> None:
    path = tmp_path / "gemm.cpp"
    tile = "rt_fl<32, 32, ducks::rt_layout::col> sum;\n    zero(sum);"
    assert tile in GEMM
    loop = "for (int i = 0; i < LIMIT; ++i) zero(sums[i]);"
    path.write_text(
        GEMM.replace(tile, f"rt_fl<32, 32, ducks::rt_layout::col> sums[2];\n    {loop}\n    auto &sum = sums[0];")
    )
    assert run(path, "-D", "LIMIT=2").exit_code == 0
    result = run(path, "-D", "LIMIT=4", "--format", "json")
    assert result.exit_code == 1
    (found,) = [d for d in json.loads(result.stdout) if "outside of its bounds" in d["message"]]
    assert found["code"] == "E703"
    assert found["primary"]["line"] == 1 + path.read_text().splitlines().index(f"    {loop}")


# A tile library of another make, which asks HIP and the standard library for their types.
CHECKOUT = """\
#pragma once
#include <concepts>
#include <memory>
#include <string>
#include <hip/hip_runtime.h>
#include <hip_bf16.h>
#include <hip_fp16.h>
#include <hip_fp8.h>
namespace kittens {
constexpr int WARP_THREADS = 64;
using bf16 = __hip_bfloat16;
using bf16_2 = __hip_bfloat162;
template <typename T> concept element = std::same_as<T, float> || std::same_as<T, bf16>;
__device__ inline void put(float2 *to, float2 value) { *to = value; }
template <element T> __device__ float2 wide(HIP_vector_type<unsigned short, 2> x) {
    return __bfloat1622float2(__builtin_bit_cast(bf16_2, x));
}
}
"""
USER = """\
#include "kittens.cuh"
#include "pyutils/pyutils.cuh"
#include <iostream>
#include <vector>
using namespace kittens;
struct globals { const ushort2 *in; float2 *out; hipStream_t stream; };
__global__ __launch_bounds__(64) void widen(const globals g) {
    const float2 x = wide<bf16>(g.in[threadIdx.x]);
    put(g.out + threadIdx.x, {x.x, x.y});
}
void dispatch(globals g) {
    std::vector<float> host(64, 1.0f);
    std::cout << host.size() << std::string("values") << std::endl;
    widen<<<1, 64, 0, g.stream>>>(g);
}
PYBIND11_MODULE(example, m) { py::bind_function<dispatch>(m, "dispatch", &globals::in, &globals::out); }
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(checkout_compiler, "find_hip", lambda: None)
    monkeypatch.setattr(checkout_compiler, "knows_hip", lambda compiler: False)
    (tmp_path / "tk/include").mkdir(parents=True)
    (tmp_path / "tk/include/kittens.cuh").write_text(CHECKOUT)
    return tmp_path / "tk"


def test_a_checkout_needs_no_hip(checkout: Path, tmp_path: Path) -> None:
    path = tmp_path / "widen.cpp"
    path.write_text(USER)
    values = "{bf16[64,2]=arange, f32[64,2]=nan:out, u64}"
    launch = Launch((1, 1, 1), (64, 1, 1), parse([values]))
    assert sanitize(from_source(path, "gfx950", kittens=checkout), launch, schedules=1).diagnostics == ()


def test_a_checkout_that_wants_more_of_hip_says_what_to_install(checkout: Path, tmp_path: Path) -> None:
    path = tmp_path / "widen.cpp"
    path.write_text(USER.replace("put(g.out", "__a_function_of_hips(g.out"))
    with pytest.raises(ToolchainError, match=r"widen\.cpp:9:5: .*_of_hips.*HIP's own headers may do: apt-get"):
        from_source(path, "gfx950", kittens=checkout)
