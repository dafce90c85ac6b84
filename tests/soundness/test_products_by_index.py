"""The indices of an equation decide the layout of operands: dimensions may share names and sizes.

The layout of a factor was taken from the name of the contracted dimension, so `X[m, k] @ W[n, k].T` with a square W
was compiled as another product. What is drawn here is compared with einsum of the indices (`drawn_products`).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from drawn_products import TARGETS, Kernel, drawn, dynamic
from typer.testing import CliRunner

import tkgen
from tkgen.backends.registry import backend_of
from tkgen.cli import app
from tkgen.diagnostics import Severity, SpecError

SAMPLE = (7, 13, 15, 184, 183)  # all four layouts, a batch, groups


# the output projection of attention, and both factors with the contracted dimension last
SQUARE = """kernel square
  dims T = {rows}, D = 128
  global X : bf16[{left}, D]
  global W : bf16[D, D]
  global Y : f32[{left}, D]
  over t in {left} by 128, d in D by 128
  waves 4 x 2
  shared X, W
  target {target}
  each k in D by 64
    y = y + X[t, k] @ W[d, k].T
  Y[t, d] = y
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("left", ["T", "D"])
def test_a_square_weight(target: str, left: str) -> None:
    build = tkgen.load(SQUARE.format(rows=128, left=left, target=target)).check().build()
    x, w = torch.randn(128, 128).bfloat16(), torch.randn(128, 128).bfloat16()
    assert torch.allclose(tkgen.run(build, x, w), x.float() @ w.float().T, atol=1e-3)


def wrong(found: torch.Tensor, meant: torch.Tensor) -> int:
    """The number of wrong elements among those that are written."""
    return int(((found.double() != meant) & ~meant.isnan()).sum())


def ran(kernel: Kernel, seed: int) -> int | None:
    """Elements that the machine code gets wrong; None where the kernel is refused, with a reason."""
    try:
        build = tkgen.load(kernel.text).check().build()
    except SpecError as error:
        assert {d.code for d in error.diagnostics if d.severity is Severity.ERROR} == {"E230"}, kernel.text
        return None
    inputs = kernel.inputs(seed)
    result = tkgen.run(build, *(inputs[t.name] for t in build.spec.program.reads))
    return wrong(result, kernel.expected(inputs))


def sized_at_run_time(kernel: Kernel, seed: int, path: Path) -> int | None:
    """The same with sizes known only at run time; one block by itself and the referee find nothing, either."""
    text, sizes = dynamic(kernel.text, seed)
    path.write_text(text)
    try:
        build = tkgen.load(path).check().build()
    except SpecError as error:
        codes = {d.code for d in error.diagnostics if d.severity is Severity.ERROR}
        assert codes <= {"E230", "E232"}, text
        return None
    inputs = kernel.inputs(seed)
    count = wrong(tkgen.run(build, *(inputs[t.name] for t in build.spec.program.reads)), kernel.expected(inputs))
    given = [f"-D{name}={size}" for name, size in sizes.items()]
    assert CliRunner().invoke(app, ["run", str(path), *given]).exit_code == 0, text
    if "where(" not in text:  # which names coordinates: of such kernels all blocks are run
        ran_block = CliRunner().invoke(app, ["run", str(path), *given, "--blocks", "0"])
        assert ran_block.exit_code == 0, (text, ran_block.output)
    return count


def on_hopper(kernel: Kernel, seed: int, executor: str) -> int | None:
    """The same of the C++ for sm_90a, executed on the CPU, or of the model of its schedule."""
    try:
        spec = tkgen.load(kernel.text).check()
    except SpecError as error:
        assert {d.code for d in error.diagnostics if d.severity is Severity.ERROR} == {"E230"}, kernel.text
        return None
    assert set(re.findall(r"\bmma?_(A\w*B\w*)\b", spec.text)) == {kernel.multiplied}, kernel.text
    inputs, run = kernel.inputs(seed), backend_of("sm_90a").executors[executor]
    made = run.run(spec, spec.launch(), inputs, {}, run.orders(1)[0])
    assert not made.findings
    return wrong(made.outputs["Y"], kernel.expected(inputs))


@pytest.mark.parametrize("seed", SAMPLE)
def test_dimensions_that_share_names_and_sizes(seed: int) -> None:
    kernel = drawn(seed)
    assert ran(kernel, seed) == 0, kernel.text


@pytest.mark.parametrize("seed", (4, 16))
def test_they_may_be_known_at_run_time_alone(seed: int, tmp_path: Path) -> None:
    assert sized_at_run_time(drawn(seed), seed, tmp_path / "spec.tk") == 0


def test_sizes_that_are_tried_suit_all_that_a_dimension_is(tmp_path: Path) -> None:
    """`tkgen test` chose D for the columns, then for a K-step: less than a tile of the rows."""
    spec = SQUARE.format(rows=128, left="D", target="gfx942").replace("T = 128, D = 128", "D = dynamic")
    (tmp_path / "square.tk").write_text(spec.replace("d in D by 128", "d in D by 64"))
    done = CliRunner().invoke(app, ["test", str(tmp_path / "square.tk"), "--schedules", "1"])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(("seed", "executor"), [(2, "model"), (8, "host"), (11, "host")])
def test_dimensions_that_share_names_and_sizes_on_hopper(seed: int, executor: str) -> None:
    kernel = drawn(seed, "sm_90a")
    assert on_hopper(kernel, seed, executor) == 0, kernel.text


@pytest.mark.slow
def test_many_are_known_at_run_time_alone(tmp_path: Path) -> None:
    results = {seed: sized_at_run_time(drawn(seed), seed, tmp_path / "spec.tk") for seed in range(100)}
    assert {seed for seed, count in results.items() if count} == set()
    assert sum(count == 0 for count in results.values()) > 50


@pytest.mark.slow
@pytest.mark.parametrize("target", [*TARGETS, "host", "model"])
def test_many_of_them(target: str) -> None:
    results = {}
    for seed in range(150):
        if target in TARGETS:
            results[seed] = ran(drawn(seed, target), seed)
        else:
            results[seed] = on_hopper(drawn(seed, "sm_90a"), seed, target)
    assert {seed for seed, count in results.items() if count} == set()
    assert sum(count == 0 for count in results.values()) > 90
