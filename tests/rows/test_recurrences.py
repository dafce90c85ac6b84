"""Loops of rows that take one position at a time: what is carried are elements, not numbers of rows."""

from __future__ import annotations

import pytest
import torch

from tkgen.api import load
from tkgen.backends.registry import backend_of
from tkgen.diagnostics import SpecError
from tkgen.emulate import Interleaving
from tkgen.execute.compare import Inputs, compare, random_inputs
from tkgen.execute.launch import emulate_all, run
from tkgen.execute.modelled import in_order
from tkgen.ir.meaning import evaluate
from tkgen.ir.verifier import Broken
from tkgen.schedule import row_verifier

GATED = """kernel gated
  dims T = {t}, D = 100
  global X : f32[T, D]
  global G : f32[T, D]
  global O : f32[T, D]
  global LAST : f32[D]
  over d in D by 64
  waves 1
  carry h : f32[d] = 0
  each t in T
    h = G[t, d] * h + X[t, d]
    O[t, d] = h
  LAST[d] = h
"""
DELTA = """kernel delta
  dims HEADS = 2, T = 7, D = {d}, E = 24
  global Q : f32[HEADS, T, D]
  global K : f32[HEADS, T, D]
  global V : f32[HEADS, T, E]
  global B : f32[HEADS, T]
  global S : f32[HEADS, D, E]
  global O : f32[HEADS, T, E]
  over h in HEADS, v in E by {v}
  waves {waves}
  carry s : f32[D, v] = S[h, D, v]
  each t in T
    k = K[h, t, D]
    u = B[h, t] * (V[h, t, v] - colsum(k * s))
    s = s + k * u
    O[h, t, v] = colsum(Q[h, t, D] * s)
  S[h, D, v] = s
"""
FIBONACCI = """kernel fibonacci
  dims N = 10, D = 70
  global X : f32[D]
  global Y : f32[D]
  over d in D by 70
  waves 1
  carry a : f32[d] = X[d], b : f32[d] = 2 * X[d]
  each i in N
    c = a
    a = b
    b = c + b
  Y[d] = a
"""
SHIFTED = """kernel shifted
  dims T = 9, D = 40
  global X : f32[T, D]
  global Y : f32[T, D]
  over d in D by 40
  waves 1
  carry before : f32[d] = -1
  each t in T
    Y[t, d] = X[t, d] - before
    before = X[t, d]
"""
HALVED = """kernel halved
  dims ROWS = 5, D = 300, N = 30
  global X : f32[ROWS, D]
  global Y : f32[ROWS]
  over r in ROWS by 2
  waves 2
  carry low : f32[r] = -8, high : f32[r] = 8
  each i in N
    mid = 0.5 * (low + high)
    above = rowsum(where(X[r] > mid, 1, 0)) > 150
    low = where(above, mid, low)
    high = where(above, high, mid)
  Y[r] = high
"""

WINDOW = """kernel window
  dims N = 12, D = 40
  global X : f32[N, D]
  global Y : f32[N, D]
  over n in N, d in D by 40
  waves 1
  each i in N from n - 2 to n
    s = s + X[i, d]
  Y[n, d] = s
"""


def computed(
    text: str, inputs: dict[str, torch.Tensor], extents: dict[str, int] | None = None
) -> dict[str, torch.Tensor]:
    """The outputs of the machine code; the race referee found nothing."""
    build = load(text).check().build()
    written, outcomes = emulate_all(build, build.spec.launch(extents), inputs, {}, order=Interleaving())
    assert not [str(finding) for outcome in outcomes for finding in outcome.findings]
    return written


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


@pytest.mark.parametrize("length", [1, 9, "dynamic"])
def test_a_gated_sum_along_a_sequence(length: int | str) -> None:
    steps = 13 if length == "dynamic" else int(length)
    x, g = normal(steps, 100), normal(steps, 100).sigmoid()
    wanted, h = [], torch.zeros(100)
    for t in range(steps):
        h = g[t] * h + x[t]
        wanted.append(h)
    found = computed(GATED.format(t=length), {"X": x, "G": g}, {"T": steps} if length == "dynamic" else None)
    assert torch.allclose(found["O"], torch.stack(wanted), rtol=1e-5, atol=1e-5)
    assert torch.equal(found["LAST"], found["O"][-1])


@pytest.mark.parametrize(("d", "v", "waves"), [(32, 24, 1), (100, 8, 4), (1100, 2, 4)])
def test_the_delta_rule_carries_a_state_of_two_axes(d: int, v: int, waves: int) -> None:
    """Two reductions of the state in an iteration; where waves share a row they exchange both."""
    q, k, value, b = normal(2, 7, d), normal(2, 7, d) / d**0.5, normal(2, 7, 24), normal(2, 7).sigmoid()
    start = 0.1 * normal(2, d, 24)
    s, wanted = start.double(), []
    for t in range(7):
        u = b[:, t, None] * (value[:, t] - torch.einsum("hd,hdv->hv", k[:, t].double(), s))
        s = s + torch.einsum("hd,hv->hdv", k[:, t].double(), u)
        wanted.append(torch.einsum("hd,hdv->hv", q[:, t].double(), s))
    inputs = {"Q": q, "K": k, "V": value, "B": b, "S": start}
    found = computed(DELTA.format(d=d, v=v, waves=waves), inputs)
    assert torch.allclose(found["O"].double(), torch.stack(wanted, 1), rtol=1e-3, atol=1e-3)
    assert torch.allclose(found["S"].double(), s, rtol=1e-3, atol=1e-3)


def test_carried_elements_are_exchanged_at_once() -> None:
    x = normal(70)
    assert torch.allclose(computed(FIBONACCI, {"X": x})["Y"], 144 * x, rtol=1e-5)  # 1, 2, 3, 5, ...


def test_what_was_loaded_is_handed_on() -> None:
    x = normal(9, 40)
    before = torch.cat([torch.full((1, 40), -1.0), x[:-1]])
    assert torch.equal(computed(SHIFTED, {"X": x})["Y"], x - before)


def test_a_loop_may_count_alone() -> None:
    """Thirty halvings of an interval find the number that half of a row exceed."""
    x = normal(5, 300)
    found = computed(HALVED, {"X": x})["Y"]
    above = x.sort(-1, descending=True).values[:, 150]  # 150 are larger
    assert torch.allclose(found, above, atol=1e-5)


def test_a_result_may_be_stored_at_the_next_position() -> None:
    x, g = normal(9, 100), normal(9, 100).sigmoid()
    text = GATED.format(t=9)
    same = computed(text, {"X": x, "G": g})["O"]
    found = computed(text.replace("O[t, d] = h", "O[t + 1, d] = h"), {"X": x, "G": g})["O"]
    assert torch.equal(found[1:], same[:-1])


def test_a_loop_over_positions_has_bounds() -> None:
    x = normal(12, 40)
    wanted = torch.stack([x[max(n - 2, 0) : n + 1].sum(0) for n in range(12)])
    assert torch.allclose(computed(WINDOW, {"X": x})["Y"], wanted, atol=1e-5)


@pytest.mark.parametrize("text", [GATED.format(t=9), DELTA.format(d=32, v=24, waves=1), FIBONACCI, HALVED])
def test_such_loops_are_right_on_all_machines(text: str) -> None:
    for target in ("gfx90a", "gfx950"):
        tried = run(load(text, target=target).check().build())
        assert tried.ok, tried.failure
    assert load(text, target="sm_90a").check().source.text


@pytest.mark.parametrize("text", [GATED.format(t=9), FIBONACCI, SHIFTED, HALVED, WINDOW])
def test_the_model_for_hopper_executes_every_iteration(text: str) -> None:
    """It once executed one iteration of a loop over positions."""
    spec = load(text, target="sm_90a").check()
    launch = spec.launch(None)
    inputs = random_inputs(launch, 1, Inputs.NORMAL, backend_of("sm_90a").functions)
    meant = evaluate(spec.program.kernel, inputs, {}, launch.extents, backend_of("sm_90a").functions)
    for executor in backend_of("sm_90a").executors.values():
        made = in_order(executor, spec, launch, inputs, {}, executor.orders(1)[0])
        assert not made.findings
        for name, result in meant.items():
            assert compare(made.outputs[name].float(), result.value, result.bound).right, (executor, name)


def test_elements_that_are_not_held_from_iteration_to_iteration_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_verifier, "carried", lambda kernel, fast: ())
    with pytest.raises(Broken, match="s comes before what it needs, or that is not held"):
        load(DELTA.format(d=32, v=24, waves=1)).check()


@pytest.mark.parametrize(("text", "message"), [
    (GATED.format(t=9).replace("O[t, d] = h", "LAST[d] = h"), "LAST"),
    (GATED.format(t=9).replace("X[t, d]", "O[t - 1, d]"), "`O` is read at one place and stored to at another"),
    (FIBONACCI.replace("  Y[d] = a", "  each d2 in D by 70\n    a = a + rowsum(X[d2])\n  Y[d] = a"), "`d2`"),
])  # fmt: skip
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(SpecError) as error:
        load(text).check()
    assert message in " ".join(d.message for d in error.value.diagnostics)


@pytest.mark.parametrize("product", ["A[m, k] @ B[n, k].T", "A[m, k] @ B[n, k]"])
def test_a_loop_of_a_product_is_told_that_it_needs_tiles(product: str) -> None:
    text = f"""kernel p
  dims M = 128, N = 128, K = 128
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  over m in M by 64, n in N by 64
  each k in K
    c = c + {product}
  C[m, n] = c
"""
    with pytest.raises(SpecError) as error:
        load(text)
    (found, *_) = error.value.diagnostics
    assert found.fix is not None
    assert found.fix.text == "`each k in K` takes one position at a time; for tiles write `each k in K by 64`"
