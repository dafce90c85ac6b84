"""The bound of `run` and `test`: every right order of summation is within it, every lost or exchanged part is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tkgen.api import Spec, load
from tkgen.backends.cdna.kittens import include_dir
from tkgen.build import Build
from tkgen.execute.compare import Inputs, Reference, compare, random_inputs, references, ulp
from tkgen.execute.launch import run
from tkgen.ir.divided import extents_of
from tkgen.ir.launch import Launch
from tkgen.ir.types import Program
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.metadata import read_resources

DTYPES = ("bf16", "f16", "f32")
LARGEST = 32768
TORCH = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
SPEC = """kernel product
  dims M = 32, N = 32, K = {k}
  global A : {dtype}[M, K]
  global B : {dtype}[N, K]
{tensors}  global C : {out}[M, N]
  block 32 x 32 step 32
  waves 1 x 1
  shared A, B buffers 1
  registers A, B slice 16
  accumulate C : f32 tile 32 x 32
{epilogue}  store C
"""


def reference(program: Program, inputs: dict[str, torch.Tensor], scalars: dict[str, float]) -> Reference:
    """The only output of a kernel in f64, and the bound on each element's error."""
    launch = Launch(program, extents_of(program.kernel, inputs, {}))
    (found,) = references(launch, inputs, scalars).values()
    return found


def written(folder: Path, k: int, dtype: str, out: str, tensors: str = "", epilogue: str = "") -> Spec:
    path = folder / "product.tk"
    path.write_text(SPEC.format(k=k, dtype=dtype, out=out, tensors=tensors, epilogue=epilogue))
    return load(path)


def inputs_of(program: Program, k: int, kind: Inputs, seed: int = 0) -> dict[str, torch.Tensor]:
    return random_inputs(Launch(program, {"M": 32, "N": 32, "K": k}), seed, kind)


# ---------------------------------------------------------------- sums in fp32, made by torch


def backwards(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """One product after another, last first."""
    total = torch.zeros(a.shape[0], b.shape[0])
    for k in reversed(range(a.shape[1])):
        total += a[:, k : k + 1] * b[:, k]
    return total


def pairwise(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A tree."""
    terms = a[:, None, :] * b[None, :, :]
    while terms.shape[2] > 1:
        terms = terms[..., ::2] + terms[..., 1::2]
    return terms[..., 0]


def by_instructions(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """As matrix instructions do: 16 products into the accumulator at a time."""
    total = torch.zeros(a.shape[0], b.shape[0])
    for k in range(0, a.shape[1], 16):
        total += pairwise(a[:, k : k + 16], b[:, k : k + 16])
    return total


@pytest.mark.parametrize("out", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [32, 2048])
@pytest.mark.parametrize("kind", Inputs)
def test_every_order_of_summation_is_within_the_bound(
    k: int, dtype: str, out: str, kind: Inputs, tmp_path: Path
) -> None:
    program = written(tmp_path, k, dtype, out).program
    inputs = inputs_of(program, k, kind, seed=k)
    expected, bound = reference(program, inputs, {})
    results = [sums(inputs["A"].float(), inputs["B"].float()) for sums in (backwards, pairwise, by_instructions)]
    for result in results:
        compared = compare(result.to(TORCH[out]), expected, bound)
        assert compared.right and compared.max_error <= compared.bound
    if kind is Inputs.EXACT:
        assert all(torch.equal(results[0], other) for other in results[1:])
        assert torch.equal(results[0].double(), expected)


def last_step(a: torch.Tensor) -> torch.Tensor:
    return torch.cat([a[:, :-32], torch.zeros_like(a[:, -32:])], 1)


def first_step(a: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.zeros_like(a[:, :32]), a[:, 32:]], 1)


def one_slice(a: torch.Tensor) -> torch.Tensor:
    middle = a.shape[1] // 32 * 16
    return torch.cat([a[:, :middle], torch.zeros_like(a[:, middle : middle + 16]), a[:, middle + 16 :]], 1)


def step_twice(a: torch.Tensor) -> torch.Tensor:
    return torch.cat([a[:, :-32], 2 * a[:, -32:]], 1)


def one_pair(a: torch.Tensor) -> torch.Tensor:
    """Two neighbours of one row exchanged."""
    order = torch.arange(a.shape[1])
    row = int((a[:, 0] - a[:, 1]).abs().argmax())
    order[0], order[1] = 1, 0
    changed = a.clone()
    changed[row] = a[row, order]
    return changed


@pytest.mark.parametrize("damage", [last_step, first_step, one_slice, step_twice, one_pair])
@pytest.mark.parametrize("out", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [64, LARGEST])
@pytest.mark.parametrize("kind", Inputs)
def test_what_is_lost_or_exchanged_is_beyond_the_bound(
    k: int, dtype: str, out: str, kind: Inputs, damage: Callable[[torch.Tensor], torch.Tensor], tmp_path: Path
) -> None:
    program = written(tmp_path, k, dtype, out).program
    inputs = inputs_of(program, k, kind)
    expected, bound = reference(program, inputs, {})
    a, b = inputs["A"].float(), inputs["B"].float()
    result = (damage(a) @ b.T).to(TORCH[out])
    compared = compare(result, expected, bound)
    assert compared.wrong > (4 if damage is one_pair else 32 * 32 // 4)
    exchanged = (a @ b.T).to(TORCH[out])
    exchanged[3, 5], exchanged[3, 6] = exchanged[3, 6].clone(), exchanged[3, 5].clone()
    if exchanged[3, 5] != exchanged[3, 6]:
        assert compare(exchanged, expected, bound).wrong == 2


# ---------------------------------------------------------------- how errors read


# ---------------------------------------------------------------- blocks that add their parts

APART = """kernel apart
  dims M = 128, N = 128, K = 512, STEPS = K / 64
  global A : bf16[M, K]
  global B : {dtype}[N, K]
  global s : f32[M, STEPS]
  global z : f32[N, STEPS]
  global C : f32[M, N]
  over m in M by 64, n in N by 64
  grid {grid}
  waves 2 x 2
  shared A, B
  each k in K by 64
    p = A[m, k] @ {factor}.T
    c = c + {scaled}
  C[m, n] = {stored}
"""
SCALED = {"dtype": "bf16", "factor": "B[n, k]", "scaled": "s[m, k / 64] * p", "stored": "c"}
MADE = {"dtype": "i8", "factor": "bf16(B[n, k] - z[n, k / 64])", "scaled": "p", "stored": "0.3 * c"}


def in_parts(program: Program, given: dict[str, torch.Tensor], order: list[list[int]]) -> torch.Tensor:
    """Results of blocks that sum these K-steps each: every sum of 64 products exact, all else rounded to f32."""
    a, b, s = given["A"].double(), given["B"].double(), given.get("s")
    if "z" in given:
        b = (b.float() - given["z"].repeat_interleave(64, 1)).bfloat16().double()
    total = torch.zeros(128, 128)
    for steps in order:
        part = torch.zeros(128, 128)
        for k in steps:
            p = (a[:, 64 * k : 64 * k + 64] @ b[:, 64 * k : 64 * k + 64].T).float()
            part = part + (p if s is None else s[:, k : k + 1] * p)
        total = total + (part if "s" in given else 0.3 * part)
    return total


ORDERS = {
    "split_k(4)": [[4, 5], [0, 1], [6, 7], [2, 3]],
    "split_k(8)": [[7], [2], [5], [0], [3], [6], [1], [4]],
    "stream_k(6)": [[6, 7], [0, 1, 2, 3, 4, 5]],
}


@pytest.mark.parametrize("kind", Inputs)
@pytest.mark.parametrize("grid", ORDERS)
@pytest.mark.parametrize("loop", [SCALED, MADE], ids=["scaled", "made"])
def test_parts_of_scaled_sums_are_within_the_bound(
    loop: dict[str, str], grid: str, kind: Inputs, tmp_path: Path
) -> None:
    path = tmp_path / "apart.tk"
    text = APART.format(grid=grid, **loop)
    unread = "s" if loop is MADE else "z"
    path.write_text("".join(x for x in text.splitlines(True) if f"global {unread} " not in x))
    program = load(path).check().program
    assert isinstance(program, Program)
    for seed in range(2):
        given = random_inputs(Launch(program, {"M": 128, "N": 128, "K": 512, "STEPS": 8}), seed, kind)
        if loop is MADE:  # far from zero, though what it is made of is not apart
            given["B"], given["z"] = given["B"] % 3 + 7, torch.full((128, 8), -8.0)
        expected = reference(program, given, {})
        assert compare(in_parts(program, given, ORDERS[grid]), *expected).right
        for lost in (0, 5)[seed : seed + 1]:
            parts = [[k for k in steps if k != lost] for steps in ORDERS[grid]]
            assert compare(in_parts(program, given, parts), *expected).wrong > 16000


def test_errors_are_shown_in_units_of_the_last_place() -> None:
    """A bf16 result near 300 that is off by 0.99 is rounded as well as bf16 can."""
    expected = torch.tensor([[300.99, 1.0]], dtype=torch.float64)
    bound = ulp(expected, torch.bfloat16) / 2
    compared = compare(expected.to(torch.bfloat16), expected, bound)
    assert compared.right and compared.bound == 1.0
    assert compared.max_error == pytest.approx(0.99) and compared.ulps == pytest.approx(0.495)
    wrong = compare(torch.tensor([[304.0, 1.0]], dtype=torch.bfloat16), expected, bound)
    assert wrong.wrong == 1 and "1 of 2 elements are wrong, 0 NaN" in str(wrong) and "1.5 ulp" in str(wrong)


@pytest.mark.parametrize("dtype", TORCH.values())
def test_a_unit_in_the_last_place_is_the_gap_to_the_next_number(dtype: torch.dtype) -> None:
    limits = torch.finfo(dtype)
    for exponent in (-3, 0, 8):
        for fraction in (1.0, 1.5, 2 - limits.eps):
            assert float(ulp(torch.tensor(fraction * 2.0**exponent), dtype)) == limits.eps * 2.0**exponent
    for subnormal in (limits.tiny, limits.tiny / 4, 0.0):
        assert float(ulp(torch.tensor(subnormal, dtype=torch.float64), dtype)) == limits.eps * limits.tiny


def test_numbers_that_overflow_and_nan_are_compared_as_they_are() -> None:
    expected = torch.tensor([[1e6, float("nan"), 1.0]], dtype=torch.float64)
    bound = torch.full_like(expected, 1e-3)
    assert compare(torch.tensor([[float("inf"), float("nan"), 1.0]]).half(), expected, bound).right
    wrong = compare(torch.tensor([[float("nan"), 0.0, float("nan")]]).half(), expected, bound)
    assert (wrong.nan, wrong.wrong) == (2, 1)


# ---------------------------------------------------------------- machine code


def built(spec: Spec, change: tuple[str, str] | None = None) -> Build:
    """The spec's C++ with a text replaced, compiled."""
    compiler, source = find_compiler(spec.target), spec.source.text
    if change:
        assert change[0] in source
        source = source.replace(*change)
    made = compile_device(source, spec.target, compiler, include_dirs=[include_dir()])
    assert made.asm is not None and made.hsaco is not None
    resources = next(iter(read_resources(made.hsaco).values()))
    return Build(spec, compiler, made.asm, made.hsaco, resources, None, made.seconds, False)


LOOP = "for (int k = 0; k < K_STEPS; ++k)"
MULTIPLY = "mma_ABt(C_acc[0][0], A_r[0][0], B_r[0][0], C_acc[0][0])"
DAMAGES = {
    "last step": (LOOP, "for (int k = 0; k < K_STEPS - 1; ++k)"),
    "first step": (LOOP, "for (int k = 1; k < K_STEPS; ++k)"),
    "a slice of a step": (MULTIPLY, f"if (k != K_STEPS / 2) {MULTIPLY}"),
    "two elements": (
        "store(g.C, C_acc[0][0]",
        "auto &pair = C_acc[0][0].tiles[0][0].data[0]; const float x = pair.x; "
        "if (laneid() == 5) { pair.x = pair.y; pair.y = x; } store(g.C, C_acc[0][0]",
    ),
}


def insist_on_damage(k: int, dtype: str, out: str, damage: str, folder: Path) -> None:
    spec = written(folder, k, dtype, out)
    build = built(spec, DAMAGES[damage])
    for kind in Inputs:
        assert run(build, kind=kind, watch=False).comparison.wrong, kind


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_machine_code_is_beyond_the_bound_at_the_largest_size(damage: str, tmp_path: Path) -> None:
    insist_on_damage(LARGEST, "bf16", "bf16", damage, tmp_path)


@pytest.mark.parametrize("dtype", DTYPES)
def test_machine_code_is_within_the_bound_at_the_largest_size(dtype: str, tmp_path: Path) -> None:
    build = built(written(tmp_path, LARGEST, dtype, "f32"))
    for kind in Inputs:
        compared = run(build, kind=kind, watch=False).comparison
        assert compared.right and (compared.max_error == 0) == (kind is Inputs.EXACT)


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("out", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [256, 8192, LARGEST])
def test_damaged_machine_code_is_beyond_the_bound(k: int, dtype: str, out: str, damage: str, tmp_path: Path) -> None:
    insist_on_damage(k, dtype, out, damage, tmp_path)


# ---------------------------------------------------------------- NaN, and factors of zero


def outputs(spec: Spec, changed: Callable[[dict[str, torch.Tensor]], None], beta: float = 1.0) -> torch.Tensor:
    """Results of the emulator and the reference for changed inputs; they must agree."""
    from tkgen.execute.arguments import scalar_values
    from tkgen.execute.launch import emulate

    launch, scalars = spec.launch(), scalar_values(spec.program, {"beta": beta})
    inputs = random_inputs(launch)
    changed(inputs)
    (result,) = emulate(spec.build(), launch, inputs, scalars)[0].values()
    compared = compare(result, *reference(spec.program, inputs, scalars))
    assert compared.right, compared
    return result


def test_relu_of_nan_is_nan(tmp_path: Path) -> None:
    def change(inputs: dict[str, torch.Tensor]) -> None:
        inputs["A"][3, 7] = float("nan")

    result = outputs(written(tmp_path, 64, "bf16", "f32", epilogue="  epilogue relu\n"), change)
    assert result[3].isnan().all() and not result[torch.arange(32) != 3].isnan().any()
    assert (result[4] == 0).any()


@pytest.mark.parametrize("tail", ["", "  tail masked\n"])
def test_a_factor_of_zero_does_not_read_the_tensor(tail: str, tmp_path: Path) -> None:
    """BLAS: where beta is zero, C need not be set."""

    def change(inputs: dict[str, torch.Tensor]) -> None:
        inputs["D"].fill_(float("nan"))

    tensors = "  global D : f32[M, N]\n  scalar beta : f32 = 1.0\n" + tail
    spec = written(tmp_path, 64, "bf16", "f32", tensors, "  epilogue add(D, beta)\n")
    assert not outputs(spec, change, beta=0.0).isnan().any()
    assert outputs(spec, change, beta=0.5).isnan().all()


@pytest.mark.parametrize("factor", ["0", "-0.0"])
def test_a_tensor_times_zero_is_not_even_taken(factor: str, tmp_path: Path) -> None:
    tensors = "  global D : f32[M, N]\n  scalar beta : f32 = 1.0\n"
    spec = written(tmp_path, 64, "bf16", "f32", tensors, f"  epilogue add(D, {factor}) | scale(beta)\n")
    assert [t.name for t in spec.program.arguments] == ["A", "B", "C"]
    assert [(u.what, u.name) for u in spec.program.unused] == [("tensor", "D")]
    outputs(spec, lambda inputs: None)


def test_inputs_that_are_not_exact_get_the_bound_of_normal_ones(tmp_path: Path) -> None:
    program = written(tmp_path, 64, "bf16", "f32").program
    inputs = inputs_of(program, 64, Inputs.EXACT)
    assert not reference(program, inputs, {})[1].any()
    inputs["A"][0, 0] = 1 / 3
    assert reference(program, inputs, {})[1].all()
