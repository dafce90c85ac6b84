"""The library's face: load, check, build, run, and a built kernel as a torch operator."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import tkgen

SPECS = Path(__file__).parents[2] / "specs"


def tensors(*shapes: tuple[int, int], dtype: torch.dtype = torch.bfloat16) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


@pytest.fixture(scope="module")
def dynamic() -> tkgen.Build:
    return tkgen.load(SPECS / "dynamic_sizes.tk").check().build()


def test_load_check_build_run() -> None:
    a, b = tensors((256, 192), (128, 192))
    build = tkgen.load(SPECS / "eight_wave.tk", {"M": 256, "N": 128, "K": 192}).check().build()
    torch.testing.assert_close(tkgen.run(build, a, b), a.float() @ b.float().T, atol=1e-3, rtol=1e-5)


def test_scalars_have_defaults_and_can_be_given() -> None:
    (a, b), (c,) = tensors((128, 128), (128, 128)), tensors((128, 128), dtype=torch.float32)
    build = tkgen.load(SPECS / "alpha_beta.tk", {"M": 128, "N": 128, "K": 128}).build()
    product = a.float() @ b.float().T
    torch.testing.assert_close(tkgen.run(build, a, b, c, alpha=2.0, beta=-1.0), 2 * product - c, atol=1e-3, rtol=1e-5)


def test_names_that_are_keywords_of_python_get_an_underscore(tmp_path: Path) -> None:
    text = (SPECS / "alpha_beta.tk").read_text()
    for name, other in (("A", "in"), ("alpha", "None"), ("beta", "class"), ("alpha_beta", "keyworded")):
        text = re.sub(rf"\b{name}\b", other, text)
    (tmp_path / "t.tk").write_text(text)
    (a, b), (c,) = tensors((128, 128), (128, 128)), tensors((128, 128), dtype=torch.float32)
    gemm = tkgen.operator(tkgen.load(tmp_path / "t.tk", {"M": 128, "N": 128, "K": 128}).build())
    product = a.float() @ b.float().T
    torch.testing.assert_close(gemm(a, b, c, None_=2.0, class_=-1.0), 2 * product - c, atol=1e-3, rtol=1e-5)


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
    dynamic: tkgen.Build,
    shapes: list[tuple[int, int]],
    dtype: torch.dtype,
    message: str,
) -> None:
    with pytest.raises(ValueError, match=message):
        tkgen.run(dynamic, *tensors(*shapes, dtype=dtype))


def test_an_operator_runs_compiles_and_infers_shapes(dynamic: tkgen.Build) -> None:
    gemm = tkgen.operator(dynamic)
    a, b = tensors((256, 128), (128, 128))
    expected = a.float() @ b.float().T
    torch.testing.assert_close(gemm(a, b), expected, atol=1e-3, rtol=1e-5)
    assert torch.equal(torch.ops.tkgen.dynamic_sizes(a, b), gemm(a, b))
    compiled = torch.compile(lambda x, y: gemm(x, y).relu() + 1, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(a, b), expected.relu() + 1, atol=1e-3, rtol=1e-5)
    with torch._subclasses.FakeTensorMode() as mode:
        shape = gemm(mode.from_tensor(a), mode.from_tensor(b))
        assert shape.shape == (256, 128) and shape.dtype is torch.float32
        with pytest.raises(ValueError, match="B has K = 64, expected 128"):
            gemm(mode.from_tensor(a), torch.empty(128, 64, dtype=torch.bfloat16))
        with pytest.raises(ValueError, match="M must be a multiple of"):
            gemm(mode.from_tensor(a)[:100], mode.from_tensor(b))
    with pytest.raises(RuntimeError, match=r"A is bf16, not torch\.float16"):
        compiled(a.half(), b)


def test_dynamic_sizes_are_traced_once(dynamic: tkgen.Build) -> None:
    gemm, traces = tkgen.operator(dynamic), 0

    def backend(module: torch.fx.GraphModule, _: list[torch.Tensor]) -> Any:
        nonlocal traces
        traces += 1
        return module.forward

    compiled = torch.compile(lambda x, y: gemm(x, y) + 1, backend=backend, dynamic=True, fullgraph=True)
    (b,) = tensors((128, 128))
    for rows in (256, 128, 384):
        (a,) = tensors((rows, 128))
        torch.testing.assert_close(compiled(a, b), a.float() @ b.float().T + 1, atol=1e-3, rtol=1e-5)
    assert traces == 1


def test_inputs_of_any_stride(dynamic: tkgen.Build) -> None:
    a, b = tensors((512, 256), (128, 128))
    for view in (a[::2, ::2], a[:128].T, a[:1, :128].expand(128, 128)):
        torch.testing.assert_close(tkgen.run(dynamic, view, b), view.float() @ b.float().T, atol=1e-3, rtol=1e-5)


def test_the_same_kernel_registers_again_and_another_one_not(dynamic: tkgen.Build, tmp_path: Path) -> None:
    first, again = tkgen.operator(dynamic), tkgen.operator(dynamic)
    assert first is again
    path = tmp_path / "other.tk"
    path.write_text((SPECS / "dynamic_sizes.tk").read_text().replace("buffers 2", "buffers 1"))
    other = tkgen.load(path).build()
    with pytest.raises(ValueError, match="already another kernel"):
        tkgen.operator(other)
    a, b = tensors((128, 64), (128, 64))
    named = tkgen.operator(other, name="other_dynamic_sizes")
    assert torch.equal(named(a, b), torch.ops.tkgen.other_dynamic_sizes(a, b))
    with pytest.raises(ValueError, match="cannot name"):
        tkgen.operator(other, name="1x")


def test_there_is_no_gradient_and_it_says_so(dynamic: tkgen.Build) -> None:
    a, b = tensors((128, 64), (128, 64))
    out = tkgen.operator(dynamic)(a.requires_grad_(), b)
    with pytest.raises(RuntimeError, match="no gradient"):
        out.sum().backward()
    assert tkgen.run(dynamic, a, b).grad_fn is None


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda a, b: (a.tolist(), b), TypeError, "A is a torch tensor, not list"),
        (lambda a, b: (a.to_sparse(), b), ValueError, "A is a dense tensor"),
        (lambda a, b: (a[:0], b), ValueError, "M = 0"),
        (lambda a, b: (a[:, :0], b[:, :0]), ValueError, "K = 0"),
        (lambda a, b: (a[None], b), ValueError, "2 dimensions, not 3"),
        (lambda a, b: (a, b.to("meta")), ValueError, "not on cpu, meta"),
    ],
)
def test_odd_inputs_are_named(dynamic: tkgen.Build, wrong: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tkgen.run(dynamic, *wrong(*tensors((128, 64), (128, 64))))


def test_what_is_no_kernel_for_an_amd_gpu_is_named() -> None:
    for taken in (tkgen.run, tkgen.operator):
        with pytest.raises(TypeError, match="needs a built kernel, not Spec"):
            taken(tkgen.load(SPECS / "one_wave.tk"))  # type: ignore[arg-type]


def test_unknown_scalars_and_defines_are_named(dynamic: tkgen.Build) -> None:
    a, b = tensors((128, 64), (128, 64))
    with pytest.raises(TypeError, match="no scalar alpha"):
        tkgen.run(dynamic, a, b, alpha=2.0)
    for value in ("64", 64.0, True):
        with pytest.raises(TypeError, match="K is an integer"):
            tkgen.load(SPECS / "one_wave.tk", {"K": value})  # type: ignore[dict-item]


@pytest.mark.slow
def test_a_users_script_type_checks(tmp_path: Path) -> None:
    """The package is typed: mypy knows what each call returns, and refuses a wrong one."""
    script = tmp_path / "script.py"
    script.write_text(
        "from typing import assert_type\n\nimport torch\n\nimport tkgen\n\n"
        "build = tkgen.load_products('gemm.tk', {'M': 256, 'K': None}).check().build()\n"
        "assert_type(build, tkgen.Build)\n"
        "result = tkgen.run(build, torch.ones(2), torch.ones(2), alpha=1.0)\n"
        "assert_type(result, torch.Tensor | tuple[torch.Tensor, ...])\n"
        "assert_type(build.resources.vgpr, int)\n"
        "tkgen.run(build, 1)\n"
        "tkgen.operator(tkgen.load('rows.tk').check().build())(torch.ones(2))\n"
    )
    # In the project's own settings and cache, as torch is long to read.
    done = subprocess.run([sys.executable, "-m", "mypy", str(script)], cwd=SPECS.parent, capture_output=True, text=True)
    (error,) = [line for line in done.stdout.splitlines() if "error:" in line]
    assert "script.py:12" in error and 'incompatible type "int"; expected "Tensor"' in error


def test_opcheck(dynamic: tkgen.Build) -> None:
    gemm = tkgen.operator(dynamic)
    torch.library.opcheck(gemm, tuple(tensors((128, 64), (128, 64))))
