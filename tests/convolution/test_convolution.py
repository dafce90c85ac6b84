"""Convolutions as matrix products: their meaning beside torch's operators, their code on each machine, refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from convolution_cases import CASES, Case
from sampling import only
from torch import Tensor
from torch.nn.functional import conv2d

import tkgen
from tkgen.api import load
from tkgen.backends.cdna import kittens
from tkgen.diagnostics import Severity, SpecError
from tkgen.execute.compare import Inputs, random_inputs
from tkgen.execute.launch import run
from tkgen.ir.meaning import evaluate
from tkgen.predict.workload import Workload
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.metadata import read_resources
from tkgen.verify.run import verified
from tkgen.verify.specs import case_of

BY_NAME = {case.name: case for case in CASES}
HURTING = {"infinite": torch.inf, "not a number": torch.nan}


def declared(case: Case, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors in the shapes that the spec declares."""
    reads = load(case.text).check().program.reads
    return {t.name: given[t.name].reshape([dim.size or 0 for dim in t.given]) for t in reads}


def assert_meant(case: Case, dtype: str, filler: float | None = None) -> None:
    """The equations mean what torch computes; with a `filler` at both ends of each dimension of X, NaN where it has
    some."""
    spec = load(case.of(dtype)).check()
    given = random_inputs(spec.launch(), kind=Inputs.NORMAL)
    if filler is not None:
        for dim, size in enumerate(given["X"].shape):
            for end in (0, size - 1):
                given["X"].select(dim, end).fill_(filler)
    found = evaluate(spec.program.kernel, given)["Y"].value
    expected = case.reference({name: x.double() for name, x in declared(case, given).items()})
    assert found.numel() == expected.numel()
    torch.testing.assert_close(found.reshape(expected.shape), expected, rtol=1e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", only(["bf16", "f16"], ["bf16"]))
def test_meaning_is_what_torch_computes(case: Case, dtype: str) -> None:
    assert_meant(case, dtype)


@pytest.mark.parametrize("filler", HURTING.values(), ids=HURTING)
def test_padding_is_zeros_beside_numbers_that_hurt(filler: float) -> None:
    """A convolution of torch multiplies its padding by weights: 0 times a number, never 0 times infinity."""
    assert_meant(BY_NAME["3 x 3, padding 1"], "bf16", filler)


SOME = [BY_NAME[name] for name in ("3 x 3, stride 2, bias and relu", "groups")]


@pytest.mark.parametrize("case", only(CASES, SOME), ids=str)
def test_machine_code(case: Case) -> None:
    """The code of gfx942 stores what the equations mean, touches nothing outside of tensors and spills nothing."""
    build = load(case.text, target="gfx942").check().build().check()
    assert build.resources.clean
    for kind in (Inputs.NORMAL, Inputs.EXACT):
        tried = run(build, kind=kind)
        assert tried.ok, tried.failure


@pytest.mark.parametrize("case", only(CASES, [BY_NAME["3 x 3 of channels that are no K-step"]]), ids=str)
@pytest.mark.parametrize("target", ["gfx90a", "gfx950"])
@pytest.mark.parametrize("dtype", only(["bf16", "f16"], ["f16"]))
def test_machine_code_of_other_machines_and_types(case: Case, target: str, dtype: str) -> None:
    build = load(case.of(dtype), target=target).check().build().check()
    assert build.resources.clean
    tried = run(build)
    assert tried.ok, tried.failure


EIGHT = """kernel eight
  dims BATCH = 2, T = 45, C = 64, OUT = 64, WIDTH = 3
  global X : {dtype}[BATCH, T, C]
  global V : {dtype}[OUT, WIDTH, C]
  global Y : {stored}[BATCH, T, OUT]
  over (b in BATCH, t in T) by 64, o in OUT by 64
  tail masked
  waves 2 x 2
  shared X, V
  each (w in WIDTH, c in C) by 64
    y = y + X[b, t + w - 1, c] @ V[o, w, c].T
  Y[b, t, o] = y
"""


@pytest.mark.parametrize(("dtype", "stored"), [("fp8", "f32"), ("i8", "i32")])
def test_operands_of_eight_bits(dtype: str, stored: str) -> None:
    build = load(EIGHT.format(dtype=dtype, stored=stored), target="gfx942").check().build().check()
    tried = run(build)
    assert tried.ok, tried.failure


ROLES = """kernel roles
  dims BATCH = 3, H = 9, W = 9, C = 64, OUT = 128, R = 3, S = 3
  global X : bf16[BATCH, H, W, C]
  global F : bf16[OUT, R, S, C]
  global Y : f32[BATCH, H, W, OUT]
  over (b in BATCH, y in H, x in W) by 128, o in OUT by 128
  tail masked
  {grid}
  shared X, F buffers 2
  role producer waves 0..3
    load X, F by 4 waves
  role consumer waves 4..7 as 2 x 2
    accumulate v : f32 tile 32 x 32
  each (r in R, s in S, c in C) by 32
    v = v + X[b, y + r - 1, x + s - 1, c] @ F[o, r, s, c].T
  Y[b, y, x, o] = v
"""


@pytest.mark.parametrize(
    "grid", only(["", "grid persistent(2)", "grid split_k(3)", "grid stream_k(5)"], ["grid split_k(3)"])
)
def test_roles_and_grids(grid: str) -> None:
    text = ROLES.format(grid=grid)
    tried = run(load(text, target="gfx942").check().build().check())
    assert tried.ok, tried.failure


MUTANTS = {
    "a tap that is another one": ("const int s_at = first / 32 % 3", "const int s_at = first / 32 % 2"),
    "taps in another order": ("{r_at, s_at}", "{s_at, r_at}"),
    "a row above the image is read": ("DIM_H, DIM_W>(X_s", "1 << 20, DIM_W>(X_s"),
    "a column beside the image is read": ("DIM_H, DIM_W>(X_s", "DIM_H, 1 << 20>(X_s"),
    "a shift by one too few": ("{p_at - 1, q_at - 1}", "{p_at, q_at - 1}"),
    "an image that is another one": ("row / 12;", "row / 13;"),
}


@pytest.mark.parametrize("mutant", only(MUTANTS, ["a column beside the image is read"]))
def test_verify_finds_mutants(mutant: str) -> None:
    """Code with another tap, shift or bound is not as meant; without the change it is."""
    old, new = MUTANTS[mutant]
    sizes: dict[str, int | None] = {"H": 4, "W": 3, "P": 4, "Q": 3, "C": 32, "OUT": 8}
    build = load(BY_NAME["3 x 3, padding 1"].text, sizes, target="gfx942").check().build(machine_check=False)
    text = build.spec.source.text
    assert old in text, text
    made = compile_device(text.replace(old, new), build.spec.target, build.compiler,
                          include_dirs=[kittens.include_dir()], source_name="mutant.cpp")  # fmt: skip
    assert made.asm is not None and made.hsaco is not None
    (resources,) = read_resources(made.hsaco).values()
    mutated = replace(build, asm=made.asm, hsaco=made.hsaco, resources=resources)
    assert verified(case_of(build), 1, 1, 0).ok
    assert not verified(case_of(mutated), 1, 1, 0).ok


def test_an_operator_takes_images_as_they_are() -> None:
    """Shapes are those that the spec declares; images with channels first are views of ones with channels last."""
    case = BY_NAME["3 x 3, padding 1"]
    build = load(case.text.replace("kernel same", "kernel convolution_of_images"), target="gfx942").check().build()
    convolve = tkgen.operator(build)
    x, f = torch.randn(2, 64, 9, 7).bfloat16(), torch.randn(40, 64, 3, 3).bfloat16()
    found = convolve(x.permute(0, 2, 3, 1), f.permute(0, 2, 3, 1))
    expected = conv2d(x.double(), f.double(), padding=1).permute(0, 2, 3, 1)
    assert found.shape == expected.shape
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-4)
    with pytest.raises(ValueError, match=r"X has H = 64, expected 9: X is \[BATCH, H, W, C\]"):
        convolve(x, f)


def test_the_same_values_for_rows_of_flattened_axes() -> None:
    """A row kernel may flatten axes that index neighbouring dimensions."""
    text = """kernel scaled
  dims B = 3, T = 5, D = 64
  global X : bf16[B, T, D]
  global Y : f32[B, T, D]
  over (b in B, t in T) by 4
  waves 1
  Y[b, t] = 2 * X[b, t]
"""
    build = load(text, target="gfx942").check().build().check()
    tried = run(build)
    assert tried.ok, tried.failure


def test_sizes_that_are_tried_are_those_of_the_parts() -> None:
    """A regression changes pixels and taps: of these there are no dimensions of flattened axes."""
    cases = list(load(BY_NAME["3 x 3, padding 1"].text).check().size_cases())
    assert {frozenset(case) for case in cases} == {frozenset({"BATCH", "P", "Q", "OUT", "R", "S", "C"})}
    assert len({(case["R"], case["S"]) for case in cases}) > 2
    assert len({case["BATCH"] * case["P"] * case["Q"] % 64 for case in cases}) > 1


def test_a_prediction_knows_that_taps_read_the_same_pixels() -> None:
    """Of the tensor all bytes come from memory, not of the matrix of patches."""
    build = load(BY_NAME["3 x 3, padding 1"].text, target="gfx942").check().build(machine_check=False)
    workload = Workload.of(build)
    pixels, weights = 2 * 9 * 7 * 64, 40 * 9 * 64
    assert workload.again == 9.0
    assert workload.operand_bytes == 2 * (pixels + weights)


REFUSED = {
    "a clamped tail": ("tail masked", "tail clamped", "`tail clamped` would move the tiles of `X` inward"),
    "no LDS": ("shared X, F", "shared F\n  registers X",
               "`X[b, p + r - 1, q + s - 1, c]` is read at computed positions, which needs registers on the way to "
               "LDS"),
    "a dynamic row": ("W = 7", "W = dynamic",
                      "`W` is dynamic, but `X[b, p + r - 1, q + s - 1, c]` needs the sizes of `X` at build time"),
    "a channel by taps": ("X[b, p + r - 1, q + s - 1, c]", "X[b, p + r - 1, q + 1, c + s]",
                          "`X` is read in chunks of 8 elements, and `s` shifts its last index by less"),
    "channels backwards": ("q + s - 1, c]", "q + s - 1, C - 1 - c]",
                           "`X[b, p + r - 1, q + s - 1, 63 - c]` does not read neighbors of `C` along the "
                           "contraction"),
    "two forms of one tensor": ("Y[b, p, q, o] = y", "Y[b, p, q, o] = y + F[o, 0, 0, 0]",
                                "`F` is indexed along a flattened axis, and in another way"),
    "a part twice": ("X[b, p + r - 1, q + s - 1, c]", "X[b, p + r - 1, p + s - 1, c]",
                     "`X[b, p + r - 1, p + s - 1, c]` indexes two dimensions of `X[BATCH, H, W, C]` along `p`"),
    "more than 31 bits": ("BATCH = 2, H = 9, W = 7", "BATCH = 20000, H = 9, W = 999",
                          "`X[b, p + r - 1, q + s - 1, c]` reaches 23016960000 bytes of `X`, and offsets reach "
                          "2147483392"),
    "names that are taken": ("(r in R, s in S, c in C)", "(r in R, p in S, c in C)", "`p` is declared twice"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_lanes_cannot_read_is_refused(what: str) -> None:
    old, new, message = REFUSED[what]
    text = BY_NAME["3 x 3, padding 1"].text
    assert old in text
    with pytest.raises(SpecError) as caught:
        load(text.replace(old, new), target="gfx942").check()
    assert message in [d.message for d in caught.value.diagnostics]
    assert all(d.fix is not None for d in caught.value.diagnostics)


def test_a_sequence_sees_a_tensor_in_one_form() -> None:
    text = """sequence pooled
dims BATCH = 2, T = 64, HALF = T / 2, C = 32, OUT = 64, TAPS = 3
global X : bf16[BATCH, T, C]
global V : bf16[OUT, TAPS, C]
global Y : bf16[BATCH, T, OUT]
global Z : bf16[BATCH, HALF, OUT]
kernel convolve
  over (b in BATCH, t in T) by 64, o in OUT by 64
  waves 2 x 2
  shared X, V buffers 2
  each (w in TAPS, c in C) by 32
    v = v + X[b, t + w - 1, c] @ V[o, w, c].T
  Y[b, t, o] = v
kernel pool
  over b in BATCH, p in HALF by 4
  waves 1
  Z[b, p] = max(Y[b, 2 * p], Y[b, 2 * p + 1])
"""
    with pytest.raises(SpecError) as caught:
        load(text, target="gfx942").check()
    (found,) = [d for d in caught.value.diagnostics if d.severity is Severity.ERROR]
    assert found.message == "two kernels see `Y` in different forms, one of them along a flattened axis"
    apart = text.replace("over (b in BATCH, t in T) by 64", "over b in BATCH, t in T by 64")
    tried = run(load(apart, target="gfx942").check().build().check())
    assert tried.ok, tried.failure


def test_a_table_of_points_and_taps_is_refused() -> None:
    """As sparse convolutions have them: the verifier found it after typing."""
    text = """kernel sparse
  dims POINTS = 128, TAPS = 27, C = 64, OUT = 64
  global NEIGHBOUR : i32[POINTS, TAPS]
  global X : bf16[POINTS, C]
  global F : bf16[OUT, TAPS, C]
  global Y : bf16[POINTS, OUT]
  over p in POINTS by 64, o in OUT by 64
  shared X, F
  each (r in TAPS, c in C) by 64
    v = v + X[NEIGHBOUR[p, r], c] @ F[o, r, c].T
  Y[p, o] = v
"""
    with pytest.raises(SpecError) as caught:
        load(text, target="gfx942").check()
    assert [d.message for d in caught.value.diagnostics] == [
        "`NEIGHBOUR[p, r]` does not have one position for each position of one axis"
    ]
