"""The operators for Hopper: CPU tensors by the model of their schedules, and which kernels a device's tensors get."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from nvcc import compiles
from ops_cases import cases, normal, refusals
from sampling import sample

import tkgen
from tkgen import ops
from tkgen.backends.hopper.build import CudaBuild
from tkgen.ops import kernels
from tkgen.ops.attention import _attention
from tkgen.ops.kernels import HOPPER, SPECS, architecture, forms
from tkgen.ops.layers import _linear

OWN = sorted((SPECS / HOPPER).glob("*.tk"))
CUDA = torch.device("cuda", 0)


def a_cuda_device(monkeypatch: pytest.MonkeyPatch, major: int, minor: int) -> None:
    """From here on a GPU of NVIDIA's is here, of that compute capability."""
    monkeypatch.setattr(kernels, "_architectures", {})
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (major, minor))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA A100")


# ---------------------------------------------------------------- which kernels


def test_a_hopper_gpu_gets_the_kernels_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    a_cuda_device(monkeypatch, 9, 0)
    assert architecture(CUDA) == HOPPER
    assert forms("linear", HOPPER) == (SPECS / HOPPER / "linear.tk",)
    assert forms("rmsnorm", HOPPER) == (SPECS / "rmsnorm.tk",)  # rows are carried out as they stand


def test_another_gpu_of_nvidias_is_told_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    a_cuda_device(monkeypatch, 8, 0)
    with pytest.raises(ValueError, match=r"no kernels for the NVIDIA A100, of compute capability 8\.0: .* Hopper"):
        architecture(CUDA)


def test_an_amd_gpu_gets_the_kernels_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_architectures", {})
    monkeypatch.setattr(torch.version, "hip", "6.4")
    device = SimpleNamespace(gcnArchName="gfx950:sramecc+:xnack-")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: device)
    assert architecture(CUDA) == "gfx950"


@pytest.mark.parametrize("said", refusals("cpu"))
def test_what_there_is_no_kernel_for_is_said(said: str) -> None:
    with ops.emulated(HOPPER), pytest.raises(ValueError, match=f"{said}: tkgen.ops has no kernel"):
        refusals("cpu")[said]()


@pytest.mark.parametrize("path", sample(OWN, 3), ids=lambda path: path.stem)
def test_specs_for_hopper_take_what_the_others_take(path: Path) -> None:
    own = tkgen.load(path, target=HOPPER).check().program
    other = tkgen.load(SPECS / path.name, target="gfx950").program
    assert own.name == other.name
    for mine, theirs in ((own.reads, other.reads), (own.outputs, other.outputs)):
        assert [(t.name, t.dtype) for t in mine] == [(t.name, t.dtype) for t in theirs]
        if not own.name.startswith("attention"):  # whose heads are a dimension of their own
            assert [[d.name for d in t.dims] for t in mine] == [[d.name for d in t.dims] for t in theirs]
    assert [s.name for s in own.scalars] == [s.name for s in other.scalars]


# ---------------------------------------------------------------- what they compute


SAMPLE = ("linear", "attention", "scaled_linear")


@compiles
@pytest.mark.parametrize("name", [n if n in SAMPLE else pytest.param(n, marks=pytest.mark.slow) for n in cases("cpu")])
def test_numbers_and_gradients_are_torchs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[CudaBuild] = []
    built = kernels._built

    def noted(*key: object) -> object:
        build = built(*key)  # type: ignore[arg-type]
        assert isinstance(build, CudaBuild)
        made.append(build)
        return build

    monkeypatch.setattr(kernels, "_built", noted)
    case = cases("cpu")[name]
    with ops.emulated(HOPPER):
        assert max(case.deviations()) <= case.most
    assert made and not any(build.figures.spill_bytes for build in made)


@compiles
def test_one_build_serves_all_batches_and_lengths_of_attention() -> None:
    before = kernels._built.cache_info().misses
    with ops.emulated(HOPPER):
        for batch, queries, keys in ((1, 40, 70), (2, 130, 130), (1, 1, 200)):
            q, k, v = (normal(batch, 2, n, 48, seed=n) for n in (queries, keys, keys + 1))
            v = v[:, :, :keys]
            wanted = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double())
            found = ops.attention(q, k, v).double()
            assert (found - wanted).norm() <= 0.01 * wanted.norm()
    assert kernels._built.cache_info().misses == before + 1


def test_queries_in_a_window_that_see_no_key_are_refused_on_hopper() -> None:
    q, k = normal(1, 1, 400, 64), normal(1, 1, 64, 64)
    with ops.emulated(HOPPER), pytest.raises(ValueError, match="at this KEYS and LENGTH a tile of q has no `j`"):
        ops.attention(q, k, k, causal=True, window=20)


@compiles
def test_torch_checks_and_compiles_them() -> None:
    x, w = normal(40, 72), normal(136, 72)
    q, k, v = (normal(1, 2, 64, 64, seed=n) for n in (1, 2, 3))
    with ops.emulated(HOPPER):
        torch.library.opcheck(_linear.operator, (x, w))
        torch.library.opcheck(_attention.operator, (q, k, v, 0.125, False, 0, True))
        compiled = torch.compile(lambda x, w: ops.linear(x, w).relu(), backend="aot_eager", fullgraph=True)
        assert torch.equal(compiled(x, w), ops.linear(x, w).relu())
