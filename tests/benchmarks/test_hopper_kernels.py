"""The kernels of `benchmarks/hopper_kernels.py`: the generated C++ gives torch's results; a wrong result is found."""

from __future__ import annotations

import pytest
import torch
from hopper_kernels import KERNELS, SPECS, declared, differences, on_the_host, table, tensors_of, values_of
from sampling import only

from tkgen.execute import given


@pytest.mark.parametrize("name", only(KERNELS, ["cross_entropy"]))
def test_the_generated_cpp_gives_the_results_of_torch(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    on_the_host(name)
    assert name in capsys.readouterr().out


def test_a_wrong_or_missing_number_is_found() -> None:
    one, found = KERNELS["conv2d"], given.Asked(SPECS / "conv2d.tk", values_of("conv2d"), "sm_90a").chosen()
    tensors = tensors_of(one, found.launch, "cpu")
    read = declared(found.launch, {n: t for n, t in tensors.items() if n != "Y"})
    exact = one.torch({n: t.float() for n, t in read.items()})["Y"]
    assert differences(one, read, {"Y": exact.bfloat16()})["Y"] < 2.0**-7
    assert differences(one, read, {"Y": exact.flip(0)})["Y"] > 2.0**-7
    assert differences(one, read, {"Y": tensors["Y"]})["Y"] == float("inf")  # what nobody wrote
    assert torch.isnan(tensors["Y"]).all()


def test_the_table_says_how_much_faster_and_what_was_left_out() -> None:
    line = {"kernel": "conv2d", "spread": 0.02, "work": 2e9, "unit": "TFLOP/s", "sizes": "BATCH=1"}
    said = table([
        {"kernel": "conv2d", "off": {"Y": 0.001}},
        {**line, "who": "tkgen", "seconds": 1e-5},
        {**line, "who": "torch", "seconds": 2e-5},
        {"kernel": "conv2d", "who": "torch.compile", "error": "RuntimeError: no compiler"},
    ])  # fmt: skip
    assert "| conv2d | BATCH=1 | tkgen | 0.010 ± 1.0 % | 200 TFLOP/s |  |" in said
    assert "|  |  | torch | 0.020 ± 1.0 % | 100 TFLOP/s | 2.00 |" in said
    assert "- conv2d torch.compile: RuntimeError: no compiler" in said
