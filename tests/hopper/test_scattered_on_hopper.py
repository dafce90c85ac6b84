"""Products that Hopper stores to computed positions, with everything else that its products have."""

from __future__ import annotations

import pytest
import torch
from nvcc import compiles
from sampling import only

from tkgen.api import load
from tkgen.backends.hopper.host.run import run as run_on_host
from tkgen.diagnostics import SpecError
from tkgen.execute.compare import Inputs, compare, random_inputs
from tkgen.ir.meaning import evaluate
from tkgen.proof.execution import Order

GROUPED = """kernel moe_down
  dims TOKENS = 50, SLOTS = 300, EXPERTS = 3, OFFSETS = EXPERTS + 1, K = 128, N = 128
  global FIRST : i32[OFFSETS]
  global SOURCE : i32[SLOTS]
  global ROW : i32[SLOTS]
  global W : f32[SLOTS]
  global A : bf16[TOKENS, K]
  global B : bf16[EXPERTS, N, K]
  global Y : f32[TOKENS, N]

  over e in EXPERTS, m in SLOTS within FIRST[e] by 128, n in N by 128
  tail masked
  shared A, B
  each k in K by 64
    c = c + A[SOURCE[m], k] @ B[e, n, k].T
  Y[ROW[m], n] += W[m] * c
"""
OWN_ROWS = GROUPED.replace("  global SOURCE : i32[SLOTS]\n", "").replace("A : bf16[TOKENS", "A : bf16[SLOTS").replace(
    "SOURCE[m]", "m")  # fmt: skip


def plain(outputs: str, stores: str, clauses: str = "", m: int = 300, n: int = 200) -> str:
    """A product of M x N with these outputs: lines of `global`, of stores and of clauses."""
    held = "".join(f"  global {name} : i32[M]\n" for name in ("ROW", "TWIN") if f"{name}[" in stores)
    sizes = {"ROWS": 400, "TILES": 2, "SUMS": m + n - 1}
    dims = "".join(f", {name} = {size}" for name, size in sizes.items() if name in outputs)
    return f"""kernel scattered
  dims M = {m}, N = {n}, K = 256{dims}
{held}  global A : bf16[M, K]
  global B : bf16[N, K]
{outputs}
  over m in M by 128, n in N by 128
{clauses}  tail masked
  shared A, B
  each k in K by 64
    c = c + A[m, k] @ B[n, k].T
{stores}"""


Y = "  global Y : f32[ROWS, N]\n"
CASES = {
    "experts with gathered rows": GROUPED,
    "on a persistent grid": GROUPED.replace("  tail", "  grid persistent(5)\n  tail"),
    "consumers in turn": OWN_ROWS.replace("  tail", "  schedule ping_pong\n  tail"),
    "a position counted in its group": OWN_ROWS.replace("  global ROW : i32[SLOTS]\n", "").replace(
        "Y : f32[TOKENS", "Y : f32[SLOTS").replace("Y[ROW[m], n] +=", "Y[m + 1, n] ="),
    "beside rows of groups": OWN_ROWS.replace("  global Y", "  global Z : bf16[SLOTS, N]\n  global Y") +
        "  Z[m, n] = c\n",
    "in turn, beside a plain store": plain(f"{Y}  global Z : bf16[M, N]\n", "  Y[ROW[m], n] += c\n  Z[m, n] = 2 * c\n",
                                           "  schedule ping_pong\n"),
    "clusters along rows": plain(Y, "  Y[ROW[m], n] max= c\n", "  clusters 2 along m\n"),
    "clusters along columns": plain(Y, "  Y[ROW[m], n] min= c\n", "  clusters 2 along n\n"),
    "two stores to one tensor": plain(Y, "  Y[ROW[m], n] += c\n  Y[TWIN[m], n] += 2 * c\n"),
    "8-bit floats": plain("  global Y : fp8[ROWS, N]\n", "  distinct Y[ROW[m], n] = c / 64\n"),
    "an odd number of columns": plain("  global Y : f16[ROWS, N]\n", "  distinct Y[ROW[m], n] = c\n", n=199),
    "sums of diagonals": plain("  global Y : f32[SUMS]\n", "  Y[m + n] += c\n"),
    "maxima of tiles": plain("  global Y : f32[ROWS, TILES]\n  global Z : bf16[M, N]\n",
                             "  Y[ROW[m], n / 128] max= rowmax(c)\n  Z[m, n] = c\n", n=256),
    "sums of rows alone": plain("  global Y : f32[ROWS]\n", "  Y[ROW[m]] += rowsum(c)\n", n=128),
    "no matrix": plain("  global Y : f32[M]\n", "  Y[m] = rowsum(c * c)\n", n=128),
    "rows of groups alone": OWN_ROWS.replace("Y : f32[TOKENS, N]", "Y : f32[TOKENS]").replace(
        "Y[ROW[m], n] += W[m] * c", "Y[ROW[m]] += rowsum(W[m] * c)"),
    "sums of columns": plain("  global Y : f32[ROWS]\n  global Z : bf16[M, N]\n",
                             "  Y[ROW[n]] += colsum(c)\n  Z[m, n] = c\n", m=128).replace(
                                 "ROW : i32[M]", "ROW : i32[N]"),
}  # fmt: skip


@pytest.mark.parametrize("name", only(CASES, ["experts with gathered rows", "in turn, beside a plain store"]))
def test_code_for_hopper(name: str) -> None:
    """The C++, executed on the CPU, and the model of its schedule store what the equations say."""
    spec = load(CASES[name], target="sm_90a").check()
    launch = spec.launch()
    given = random_inputs(launch, kind=Inputs.NORMAL)
    meant = evaluate(spec.program.kernel, given, {}, launch.extents, "hopper")
    for made in (run_on_host(spec, launch, given, {}, Order()), spec.modelled(launch, given, {}, Order())):
        assert not made.findings
        wrong = [n for n, value in made.outputs.items() if not compare(value, meant[n].value, meant[n].bound).right]
        assert not wrong


@compiles
@pytest.mark.parametrize("name", only(CASES, ["on a persistent grid"]))
def test_compiled_without_spills(name: str) -> None:
    figures = load(CASES[name], target="sm_90a").check().build().figures
    assert figures.spill_bytes == figures.stack_bytes == 0


def test_a_dynamic_number_of_rows() -> None:
    text = plain(Y, "  Y[ROW[m], n] += c\n").replace("M = 300", "M = dynamic")
    spec = load(text, target="sm_90a").check()
    launch = spec.launch({"M": 301})
    given = random_inputs(launch, kind=Inputs.EXACT)
    meant = evaluate(spec.program.kernel, given, {}, launch.extents, "hopper")
    found = run_on_host(spec, launch, given, {}, Order())
    assert not found.findings
    assert torch.equal(found.outputs["Y"].double(), meant["Y"].value)


def test_shared_memory_has_no_panels_where_all_is_scattered() -> None:
    """Nothing leaves through shared memory, so stages have all of it."""
    layout = load(GROUPED, target="sm_90a").check().layout
    assert (layout.panels, layout.store_buffers) == (0, 0)
    assert layout.shared_bytes(0) <= layout.machine.shared_bytes_per_block


@pytest.mark.parametrize("grid", ["split_k(2)", "stream_k(4)"])
def test_parts_of_sums_are_not_scattered(grid: str) -> None:
    with pytest.raises(SpecError, match="adds parts of sums, and `Y` is stored at computed positions"):
        load(plain(Y, "  Y[ROW[m], n] += c\n", f"  grid {grid}\n"), target="sm_90a").check()
