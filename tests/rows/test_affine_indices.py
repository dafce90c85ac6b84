"""Kernels that read tensors at affine indices: their meaning beside plain torch, their code on each machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from affine_cases import CASES, Case
from sampling import only
from torch import Tensor

from tkgen.api import load
from tkgen.backends.cdna import kittens
from tkgen.backends.hopper.host.run import run as run_on_host
from tkgen.diagnostics import SpecError
from tkgen.execute.compare import Inputs, compare, random_inputs
from tkgen.execute.launch import run
from tkgen.ir.meaning import evaluate
from tkgen.proof.execution import Order
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.metadata import read_resources
from tkgen.verify import verify

BY_NAME = {case.name: case for case in CASES}
SCALARS = {"h": 0.5}
HURTING = {"infinite": torch.inf, "not a number": torch.nan}


def inputs_of(case: Case, dtype: str, filler: float | None = None) -> dict[str, Tensor]:
    """Normal numbers; with a filler, it is at both ends of each dimension of X."""
    spec = load(case.of(dtype)).check()
    given = random_inputs(spec.launch(case.sizes or None), kind=Inputs.NORMAL)
    if filler is not None:
        for dim, size in enumerate(given["X"].shape):
            for end in (0, size - 1):
                given["X"].select(dim, end).fill_(filler)
    return given


def assert_meant(case: Case, given: Mapping[str, Tensor], dtype: str) -> None:
    """The equations mean what torch computes: NaN and infinity where it has them."""
    kernel = load(case.of(dtype)).check().program.kernel
    found = evaluate(kernel, given, SCALARS, case.sizes)["Y"].value
    expected = case.reference({name: x.double() for name, x in given.items()})
    assert found.shape == expected.shape
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", only(["bf16", "f16", "f32"], ["bf16"]))
def test_meaning_is_what_torch_computes(case: Case, dtype: str) -> None:
    assert_meant(case, inputs_of(case, dtype), dtype)


@pytest.mark.parametrize("filler", HURTING.values(), ids=HURTING)
def test_elements_outside_are_zero_beside_numbers_that_hurt(filler: float) -> None:
    """A zero for what is outside, not a zero times what is inside: no NaN comes of an infinity next to it."""
    for name in ("causal conv1d", "rotary halves swapped", "flip of both, dynamic", "3 x 3 stencil of images"):
        case = BY_NAME[name]
        given = inputs_of(case, "f32", filler)
        assert_meant(case, given, "f32")


SOME = [
    BY_NAME[name]
    for name in (
        "causal conv1d", "flip of both, dynamic", "3 x 3 stencil of images", "long rows in a loop",
        "heads of a flat row", "five dimensions, one dynamic", "the batch before, and one number of it",
    )
]  # fmt: skip


@pytest.mark.parametrize("case", only(CASES, SOME), ids=str)
def test_machine_code(case: Case) -> None:
    """The code of gfx942 stores what the equations mean, touches nothing outside of tensors and spills nothing."""
    build = load(case.text, target="gfx942").check().build().check()
    assert build.resources.clean
    for kind in (Inputs.NORMAL, Inputs.EXACT):
        tried = run(build, extents=case.sizes or None, kind=kind, scalars=SCALARS if "scalar" in case.text else None)
        assert tried.ok, tried.failure


@pytest.mark.parametrize("case", only(CASES, [SOME[0]]), ids=str)
@pytest.mark.parametrize("target", ["gfx90a", "gfx950"])
@pytest.mark.parametrize("dtype", only(["bf16", "f16", "f32"], ["f16"]))
def test_machine_code_of_other_machines_and_types(case: Case, target: str, dtype: str) -> None:
    build = load(case.of(dtype), target=target).check().build().check()
    tried = run(build, extents=case.sizes or None, scalars=SCALARS if "scalar" in case.text else None)
    assert tried.ok, tried.failure


@pytest.mark.parametrize("case", only(CASES, SOME[:2]), ids=str)
def test_code_for_hopper(case: Case) -> None:
    """The C++ for sm_90a, executed on the CPU, and the model of its schedule."""
    spec = load(case.text, target="sm_90a").check()
    launch = spec.launch(case.sizes or None)
    given = random_inputs(launch, kind=Inputs.NORMAL)
    scalars = SCALARS if "scalar" in case.text else {}
    meant = evaluate(spec.program.kernel, given, scalars, launch.extents, "hopper")["Y"]
    for made in (
        run_on_host(spec, launch, given, scalars, Order()),
        spec.modelled(launch, given, scalars, Order()),
    ):
        assert not made.findings
        assert compare(made.outputs["Y"], meant.value, meant.bound).right


MUTANTS = {
    "what is before the start is read": ("causal conv1d", "uint32_t(t_0 + t_in - 1) < DIM_T ?", "true ?"),
    "a negative position counts": ("causal conv1d", "uint32_t(t_0 + t_in - 3) < DIM_T", "t_0 + t_in - 3 < DIM_T"),
    "a shift by one too few": ("causal conv1d", "uint64_t(t_0 - 2)", "uint64_t(t_0 - 1)"),
    "a flip from the next element on": ("flip of rows", "uint64_t(72 - n_0)", "uint64_t(73 - n_0)"),
    "a flip that is none": ("flip of rows", "(127 - (n_in + e))", "(n_in + e)"),
    "an end that is not looked for": ("5-point stencil", "uint32_t(x_0 + x_in + e + 1) < DIM_W", "true"),
}


@pytest.mark.parametrize("mutant", only(MUTANTS, ["a negative position counts"]))
def test_verify_finds_mutants(mutant: str) -> None:
    """Code with another position or bound is not as meant; without the change it is."""
    case, old, new = MUTANTS[mutant]
    build = load(BY_NAME[case].text, target="gfx942").check().build(machine_check=False)
    text = build.spec.source.text
    assert old in text, text
    made = compile_device(text.replace(old, new), build.spec.target, build.compiler,
                          include_dirs=[kittens.include_dir()], source_name="mutant.cpp")  # fmt: skip
    assert made.asm is not None and made.hsaco is not None
    (resources,) = read_resources(made.hsaco).values()
    assert verify(build).ok
    assert not verify(replace(build, asm=made.asm, hsaco=made.hsaco, resources=resources)).ok


@pytest.mark.parametrize(
    ("sizes", "code"),
    [("A = 2, B = 2, C = 3, D = dynamic, E = 8", ""), ("A = dynamic, B = 2, C = 3, D = 4, E = 8", "E209")],
)
def test_the_first_of_more_than_four_dimensions_are_known(sizes: str, code: str) -> None:
    text = f"""kernel five
  dims {sizes}
  global X : f32[A, B, C, D, E]
  global Y : f32[A, B, C, D, E]
  over a in A, b in B, c in C, d in D by 4
  waves 1
  Y[a, b, c, d] = X[a, b, c, d - 1]
"""
    if not code:
        assert load(text).check().program.dynamic
        return
    with pytest.raises(SpecError) as caught:
        load(text)
    assert {d.code for d in caught.value.diagnostics} == {code}


PRODUCT = """kernel product
  dims A = 2, B = 2, C = 2, M = 128, N = 128, K = 64
  global X : bf16[A, B, C, M, K]
  global W : bf16[N, K]
  global Y : f32[A, B, C, M, N]
  over a in A, b in B, c in C, m in M by 128, n in N by 128
  waves 2 x 2
  shared X, W
  each k in K by 32
    y = y + X[a, b, c, m, k] @ W[n, k].T
  Y[a, b, c, m, n] = y
"""


@pytest.mark.parametrize("target", ["gfx942", "sm_90a"])
def test_factors_of_more_than_four_dimensions_are_refused(target: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(PRODUCT, target=target).check()
    (found,) = caught.value.diagnostics
    assert found.code == "E230" and found.message == "`X` has 5 dimensions, and factors have at most 4"
    assert found.fix is not None and found.fix.text == "combine dimensions that are neighbors in memory"


@pytest.mark.parametrize("index", ["2 * t", "T - 1 - t", "t + s"])
def test_of_a_group_an_index_is_a_shift(index: str) -> None:
    text = BY_NAME["causal conv1d of packed sequences"].text.replace("X[t + 1, c]", f"X[{index}, c]")
    with pytest.raises(SpecError) as caught:
        load(text)
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("E232", f"`{index}` is no shift of `t`, which is counted in each group")
