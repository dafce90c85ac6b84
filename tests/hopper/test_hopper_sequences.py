"""Several kernels in a spec for Hopper: their file, their builds, their numbers, their launches in order."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from nvcc import compiles
from test_launches import Recorder
from torch.nn import functional
from typer.testing import CliRunner

import tkgen
from tkgen.backends.hopper import prepared
from tkgen.backends.hopper.build import include_dirs
from tkgen.backends.hopper.toolchain import compile_cubin, find_nvcc
from tkgen.cli import app
from tkgen.diagnostics import SpecError
from tkgen.toolchain.cache import default_cache

SPEC = Path(__file__).parents[2] / "specs/hopper/h100_split_k_gelu.tk"
SMALL: dict[str, int | None] = {"TOKENS": 100, "OUT": 264, "IN": 1024}
IN_PLACE = """sequence in_place
target sm_90a
dims ROWS = dynamic, D = 200
global X : f32[ROWS, D]
global T : bf16[ROWS, D]
global Y : f32[ROWS, D]
kernel first
  over r in ROWS by 4
  waves 1
  T[r] = X[r] * 2
  X[r] = X[r] + 1
kernel second
  over r in ROWS by 8
  waves 2
  Y[r] = T[r] - rowmax(T[r])
"""
HALVES = """sequence halves
target sm_90a
dims ROWS = 13, D = 100, TWO = 2
global X : f32[ROWS, D]
global T : f32[ROWS, TWO, D]
global Y : f32[ROWS, D]
kernel first
  over r in ROWS by 4
  waves 1
  T[r, 0] = X[r] + 1
kernel second
  over r in ROWS by 4
  waves 1
  T[r, 1] = X[r] - 1
kernel third
  over r in ROWS by 8
  waves 2
  Y[r] = T[r, 0] * T[r, 1]
"""
ATTENTION = (SPEC.parent / "h100_attention.tk").read_text()


def tkgen_(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == code, result.output
    return result.output


def given() -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    return {"X": torch.randn(100, 1024), "W": torch.randn(264, 1024), "b": torch.randn(264)}


# ---------------------------------------------------------------- the file and its builds


def test_a_namespace_for_each_kernel_and_one_launch_of_all() -> None:
    spec = tkgen.load(SPEC).check()
    text = spec.text
    assert re.findall(r"^namespace (\w+) \{", text, re.MULTILINE) == ["h100_split_k_gelu", "sums_", "finish"]
    body = text[text.index("cudaError_t launch(") :]
    order = [
        body.index(part) for part in ("clear(g.sums_.S, stream)", "launched(sums_::kernel,", "launched(finish::kernel,")
    ]
    assert order == sorted(order) and "int sums_ = 128;" in text and "int finish = 512;" in text
    assert text.count("#include") == 2
    where = next(n for n, line in enumerate(text.split("\n"), 1) if "gelu((" in line)
    origin = spec.source.origin(where)
    assert SPEC.read_text().split("\n")[origin.line - 1].lstrip().startswith("Y[m, n]")


def test_blocks_are_given_where_only_run_time_knows_them() -> None:
    assert "    int first_;\n    int second;\n" in tkgen.load(IN_PLACE).check().text


@compiles
def test_the_file_of_all_kernels_compiles_to_the_code_of_each() -> None:
    build = tkgen.load(SPEC, SMALL).check().build()
    whole = compile_cubin(build.spec.text, build.spec.name, "sm_90a", find_nvcc(), include_dirs(), default_cache())
    used = re.findall(r"Used (\d+) registers", whole.remarks)
    assert Counter(used) == Counter(str(k.figures.registers) for k in build.kernels)
    if whole.sass:
        apart = sum((Counter(k.figures.instructions) for k in build.kernels), Counter[str]())
        assert whole.figures.instructions == apart


@compiles
def test_check_and_build(tmp_path: Path) -> None:
    sizes = ["-D", "TOKENS=100 OUT=264 IN=1024"]
    assert "0 errors" in tkgen_("check", SPEC, *sizes)
    (report,) = json.loads(tkgen_("build", SPEC, *sizes, "-o", tmp_path, "--json"))
    assert [k["kernel"] for k in report["kernels"]] == ["sums", "finish"] and report["between"] == ["S"]
    name = "h100_split_k_gelu"
    written = {p.name for p in tmp_path.iterdir()}
    assert written >= {f"{name}.cu", f"{name}.json", f"{name}.sums.cubin", f"{name}.finish.cubin"}
    lines = tkgen_("build", SPEC, *sizes, "-o", tmp_path).splitlines()
    assert [line.split(" ")[0] for line in lines] == [f"{name}/sums", f"{name}/finish"]


def test_mistakes_of_sequences_are_said_as_for_other_machines() -> None:
    with pytest.raises(SpecError) as caught:
        tkgen.load(HALVES.replace("T[r, 1] = X[r] - 1", "T[r, 0] = X[r] - 1")).check()
    assert [d.code for d in caught.value.diagnostics] == ["E231"]


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("executor", ["host", "model"])
@pytest.mark.parametrize("text", [IN_PLACE, HALVES], ids=["in place", "halves"])
def test_kernels_run_in_order(text: str, executor: str, tmp_path: Path) -> None:
    (tmp_path / "spec.tk").write_text(text)
    sizes = ["-D", "ROWS=13"] if text is IN_PLACE else []
    rows = json.loads(tkgen_("run", tmp_path / "spec.tk", *sizes, "--executor", executor, "--schedules", 2, "--json"))
    assert len(rows) == 2 and all(row["ok"] for row in rows)


@pytest.mark.parametrize("executor", ["host", "model"])
def test_blocks_that_add_begin_at_zero(executor: str) -> None:
    sizes = ["-D", "TOKENS=100 OUT=264 IN=1024"]
    (row,) = json.loads(tkgen_("run", SPEC, *sizes, "--executor", executor, "--json"))
    assert row["ok"] and row["executor"] == executor and row["grid"] == 16 + 100


def test_another_second_kernel_is_found(tmp_path: Path) -> None:
    """Each kernel is compared with its own equations, on the results of the one before."""
    from tkgen.backends.registry import backend_of
    from tkgen.execute.given import Asked
    from tkgen.execute.modelled import trials

    text = SPEC.read_text()
    for name, words in (("right", text), ("wrong", text.replace("+ b[n]", "- b[n]"))):
        (tmp_path / f"{name}.tk").write_text(words)
    right, wrong = (Asked(tmp_path / f"{name}.tk", SMALL).chosen() for name in ("right", "wrong"))
    exchanged = type(right.spec)(**{**vars_of(right.spec), "parts": (right.spec.kernels[0], wrong.spec.kernels[1])})
    found = type(right)(exchanged, right.launch, right.extents, right.scalars)
    (trial,) = trials(backend_of("sm_90a"), found, 1, executor="model")
    assert trial.failure and trial.comparison.wrong > 10_000


def vars_of(spec: Any) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in ("path", "program", "target", "defines", "parts", "joined")}


@compiles
def test_an_operator_of_all_kernels() -> None:
    tensors = {name: t.bfloat16() for name, t in given().items()}
    build = tkgen.load(SPEC, SMALL).check().build()
    y = tkgen.operator(build, "h100_split_k_gelu")(*tensors.values())
    x, w, b = (t.double() for t in tensors.values())
    torch.testing.assert_close(y.double(), functional.gelu(functional.linear(x, w, b)), rtol=2**-7, atol=1e-4)
    assert torch.equal(tkgen.run(build, *tensors.values()), y)


# ---------------------------------------------------------------- launches


@compiles
def test_kernels_are_launched_in_order_on_the_same_memory() -> None:
    tensors = [t.bfloat16() for t in given().values()]
    build = tkgen.load(SPEC, SMALL).check().build()
    recorder = Recorder()
    with prepared.simulated(recorder):
        for _ in range(2):
            y = tkgen.run(build, *tensors)
    sums, finish, *again = recorder.launches
    x, w, b = tensors
    assert [t.address for t in sums.tensors[:2]] == [x.data_ptr(), w.data_ptr()]
    assert (finish.tensors[0].address, finish.tensors[2].address) != (0, 0)
    assert finish.tensors[0].address == b.data_ptr() and sums.tensors[2].address == finish.tensors[1].address
    assert (sums.blocks, finish.blocks) == (16, 100) and sums.threads == 384
    assert sums.tensors[2].memory == bytes(64), "what blocks add to is cleared"
    assert len(again) == 2 and again[1].tensors[2].address == y.data_ptr()
    assert recorder.functions == 2, "a signature is prepared once"


# ---------------------------------------------------------------- launches that overlap


def test_a_kernel_after_products_of_one_tile_for_each_block_begins_early() -> None:
    """It waits before it reads anything; the products say when their blocks are about to end."""
    text = tkgen.load(SPEC).check().text
    first, second = text[: text.index("namespace finish")], text[text.index("namespace finish") :]
    assert first.count("pdl::arrive();") == second.count("pdl::wait();") == 1
    assert first.index("mma_async_wait();") < first.index("pdl::arrive();") < first.index("store_add_async")
    kernel = second[second.index("void kernel(") :].split("\n")
    assert kernel[1].strip().startswith("pdl::wait();")
    assert "finish::THREADS, 0, true, stream)" in second and "230400, false, stream)" in second


def test_other_kernels_begin_when_all_before_them_have_ended() -> None:
    """Rows after rows, and products of which a block has several tiles."""
    persistent = SPEC.read_text().replace("  grid split_k(PARTS)\n", "  grid persistent(132)\n")
    assert "persistent" in persistent
    for spec in (IN_PLACE, persistent):
        text = tkgen.load(spec).check().text
        assert "pdl::" not in text and ", true, stream)" not in text
