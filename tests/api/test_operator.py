"""The library's face: load, check, build, run, and a built kernel as a torch operator."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import tkgen

SPECS = Path(__file__).parents[2] / "specs"


def tensors(*shapes: tuple[int, int], dtype: torch.dtype = torch.bfloat16) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


@pytest.fixture(scope="module")
def dynamic() -> tkgen.api.Build:  # type: ignore[name-defined]
    return tkgen.load(SPECS / "dynamic_sizes.tk").check().build()


def test_load_check_build_run() -> None:
    a, b = tensors((256, 192), (128, 192))
    build = tkgen.load(SPECS / "eight_wave.tk", {"M": 256, "N": 128, "K": 192}).check().build()
    torch.testing.assert_close(build.run(a, b), a.float() @ b.float().T, atol=1e-3, rtol=1e-5)


def test_scalars_have_defaults_and_can_be_given() -> None:
    (a, b), (c,) = tensors((128, 128), (128, 128)), tensors((128, 128), dtype=torch.float32)
    build = tkgen.load(SPECS / "alpha_beta.tk", {"M": 128, "N": 128, "K": 128}).build()
    product = a.float() @ b.float().T
    torch.testing.assert_close(build.run(a, b, c, alpha=2.0, beta=-1.0), 2 * product - c, atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize(
    ("shapes", "dtype", "message"),
    [
        ([(256, 192)], torch.bfloat16, "takes 2 tensors"),
        ([(256, 192), (128, 128)], torch.bfloat16, "expected 192"),
        ([(256, 192), (128, 192)], torch.float16, "is bf16"),
        ([(100, 192), (128, 192)], torch.bfloat16, "M must be a multiple of"),
    ],
)
def test_wrong_tensors_are_named(
    dynamic: tkgen.api.Build,  # type: ignore[name-defined]
    shapes: list[tuple[int, int]],
    dtype: torch.dtype,
    message: str,
) -> None:
    with pytest.raises(ValueError, match=message):
        dynamic.run(*tensors(*shapes, dtype=dtype))


def test_an_operator_runs_compiles_and_infers_shapes(dynamic: tkgen.api.Build) -> None:  # type: ignore[name-defined]
    gemm = dynamic.operator()
    a, b = tensors((256, 128), (128, 128))
    expected = a.float() @ b.float().T
    torch.testing.assert_close(gemm(a, b), expected, atol=1e-3, rtol=1e-5)
    assert torch.equal(torch.ops.tkgen.dynamic_sizes(a, b), gemm(a, b))
    compiled = torch.compile(lambda x, y: gemm(x, y).relu() + 1, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(a, b), expected.relu() + 1, atol=1e-3, rtol=1e-5)
    with torch._subclasses.FakeTensorMode() as mode:
        shape = gemm(mode.from_tensor(a), mode.from_tensor(b))
        assert shape.shape == (256, 128) and shape.dtype is torch.float32
        with pytest.raises(RuntimeError, match="differ in a dimension"):
            gemm(mode.from_tensor(a), torch.empty(128, 64, dtype=torch.bfloat16))


def test_registering_again_replaces(dynamic: tkgen.api.Build) -> None:  # type: ignore[name-defined]
    first = dynamic.operator()
    again = dynamic.operator()
    a, b = tensors((128, 64), (128, 64))
    assert again(a, b).shape == (128, 128) and first is not None


def test_opcheck(dynamic: tkgen.api.Build) -> None:  # type: ignore[name-defined]
    gemm = dynamic.operator()
    torch.library.opcheck(gemm, tuple(tensors((128, 64), (128, 64))), test_utils=("test_schema", "test_faketensor"))
