"""Fused matmuls that read a number for each score in the loop - a bias, a mask - beside torch, on each machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from executed import built, computed, fault
from sampling import sample, slow
from torch import Tensor

import tkgen
from tkgen.backends.hopper import chained
from tkgen.backends.hopper.chain_lowering import tile_code
from tkgen.backends.hopper.meant import wrong_chain
from tkgen.diagnostics import SpecError
from tkgen.schedule.loop_terms import unlike
from tkgen.tile.ops import Equations

TEXT = """
kernel attention
  dims HEADS = 4, KV_HEADS = 2, LENGTH = 256, KEYS = 192, D = 64
  param GROUP = HEADS / KV_HEADS
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[KV_HEADS, KEYS, D]
  global V : bf16[KV_HEADS, KEYS, D]
  global S : bf16[HEADS, LENGTH, KEYS]
  global O : f32[HEADS, LENGTH, D]
  over h in HEADS, q in LENGTH by 128
  waves 4
  shared K, V
  carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0
  each j in KEYS by 64
    s = (0.125 * Q[h, q] @ K[h / GROUP, j].T + S[h, q, j]) * LOG2E
    n = max(m, rowmax(s))
    p = exp2(s - n)
    r = exp2(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[h / GROUP, j]
    m = n
  O[h, q] = o / l
"""
AMD = ("gfx90a", "gfx942", "gfx950")
ALL = (*AMD, "sm_90a")
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "i8": torch.int8}
SIZES = {"HEADS": 4, "LENGTH": 150, "KEYS": 100}
Change = tuple[str, str]
TWO = ("shared K, V", "shared K, V buffers 2")
SCORES = "0.125 * Q[h, q] @ K[h / GROUP, j].T"
MASK = (f"{SCORES} + S[h, q, j]", f"where(S[h, q, j] != 0, {SCORES}, -inf)")
SIZED = "LENGTH = 256, KEYS = 192"
TAILS, ODD = (SIZED, "LENGTH = 200, KEYS = 150"), (SIZED, "LENGTH = 130, KEYS = 101")
SQUARE = [(SIZED, "LENGTH = 256"), ("KEYS, D]", "LENGTH, D]"), ("LENGTH, KEYS]", "LENGTH, LENGTH]")]
TO, SEEN = ("in KEYS by 64", "in LENGTH by 64 to q"), ("    n = max", "    s = where(q >= j, s, -inf)\n    n = max")
WHOLE, READ = "S : bf16[HEADS, LENGTH, KEYS]", "S[h, q, j]"
EIGHT = [("by 128", "by 256"), TWO, ("waves 4", "waves 8\n  schedule ping_pong"), ("LENGTH = 256", "LENGTH = 500")]
# A case of the spec: its changes, and the targets that have it.
CASES: dict[str, tuple[list[Change], Sequence[str]]] = {
    "bf16": ([], ALL),
    "f16": ([("S : bf16", "S : f16")], ALL),
    "f32": ([("S : bf16", "S : f32")], ALL),
    "mask": ([("S : bf16", "S : i8"), MASK], ALL),
    "mask with tails": ([("S : bf16", "S : i8"), MASK, TAILS], ALL),
    "of all heads": ([("S : bf16[HEADS, ", "S : bf16["), (READ, "S[q, j]")], ALL),
    "tails": ([TAILS], ALL),
    "odd": ([ODD], ALL),
    "odd f32": ([ODD, ("S : bf16", "S : f32")], AMD),
    "dynamic": ([(SIZED, "LENGTH = dynamic, KEYS = dynamic")], ALL),
    "causal": ([*SQUARE, TO, SEEN], ALL),
    "keys before rows": ([(WHOLE, "S : bf16[HEADS, KEYS, LENGTH]"), (READ, "S[h, j, q]")], ALL),
    "heads last": ([(WHOLE, "S : bf16[LENGTH, KEYS, HEADS]"), (READ, "S[q, j, h]")], ALL),
    "persistent": ([("waves 4", "waves 4\n  grid persistent(3)")], ALL),
    "interleave": ([TWO, ("waves 4", "waves 4\n  schedule interleave")], AMD),
    "ping-pong": (EIGHT, AMD),
    "direct": ([("shared K, V", "shared K, V buffers 2 via direct")], ("gfx950",)),
    "twice": ([(f"+ {READ}", f"+ {READ} + 0 * rowmax({READ})")], AMD),
    "of keys": ([(WHOLE, "S : f32[HEADS, KEYS]"), (READ, "S[h, j]"), ODD], ALL),
    "mask of keys": ([(WHOLE, "S : i8[HEADS, KEYS]"), MASK, (READ, "S[h, j]")], ALL),
    "of iterations": ([("KEYS = 192,", "KEYS = 192, T = KEYS / 64,"), (WHOLE, "S : f32[HEADS, T]"),
                       (READ, "2 * S[h, j / 64]")], ALL),
    "of rows in iterations": ([("KEYS = 192,", "KEYS = 192, T = KEYS / 64,"), (WHOLE, "S : f32[HEADS, LENGTH, T]"),
                               (READ, "S[h, q, j / 64]")], ALL),
    "of tiles": ([("KEYS = 192,", "KEYS = 192, T = LENGTH / 128,"), (WHOLE, "S : bf16[HEADS, T]"),
                  (READ, "j * S[h, q / 128] / 64")], ALL),
}  # fmt: skip


def changed(*changes: Change, text: str = TEXT) -> str:
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def tensors(build: Any) -> dict[str, Tensor]:
    """Make what a kernel reads: random numbers of a few bits."""
    generator = torch.Generator().manual_seed(1)
    made = {}
    for t in build.spec.program.reads:
        shape = [d.size or SIZES[d.name] for d in t.dims]
        low, high = (0, 2) if t.dtype.spelling == "i8" else (-16, 17)
        numbers = torch.randint(low, high, shape, generator=generator)
        made[t.name] = numbers.to(torch.int8) if low == 0 else (numbers / 8).to(DTYPES[t.dtype.spelling])
    return made


def attended(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """Softmax attention in f64, of heads that share keys, with `bias` added to [HEADS, LENGTH, KEYS] scores."""
    q, k, v = (x.double() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[0] // x.shape[0], 0) for x in (k, v))
    return torch.softmax(q @ k.mT / 8 + bias, -1) @ v


NEAR = 2.0**-7  # weights are rounded to bf16


@pytest.mark.parametrize(("case", "target"), sample([(c, t) for c in CASES for t in CASES[c][1]], 4, several=True))
def test_a_number_for_each_score(case: str, target: str) -> None:
    build = built(changed(*CASES[case][0]), target)
    given = tensors(build)
    (found,) = computed(build, *given.values(), host=target == "sm_90a")
    assert fault(found, attended(given["Q"], given["K"], given["V"], meant(case, given["S"]))) <= NEAR


def meant(case: str, numbers: Tensor) -> Tensor:
    """Return what a case adds to [HEADS, LENGTH, KEYS] scores."""
    bias = numbers.double()
    if "mask" in case:
        bias = torch.zeros_like(bias).masked_fill(bias == 0, -math.inf)
    match case:
        case "keys before rows":
            bias = bias.mT
        case "heads last":
            bias = bias.permute(2, 0, 1)
        case "causal":
            bias = bias.where(torch.ones(bias.shape[-2:]).tril() > 0, -math.inf)
        case "of keys" | "mask of keys":
            bias = bias[:, None]
        case "of iterations":
            bias = 2 * bias.repeat_interleave(64, 1)[:, None]
        case "of rows in iterations":
            bias = bias.repeat_interleave(64, 2)
        case "of tiles":
            bias = bias.repeat_interleave(128, 1)[:, :, None] * torch.arange(192) / 64
    return bias


HURT = ("-inf rows", "first tile -inf", "huge", "nan", "nan of a masked key", "-huge")


@pytest.mark.parametrize(
    ("case", "target"), sample([(c, t) for c in HURT for t in ("gfx942", "sm_90a")], 3, several=True)
)
def test_numbers_that_hurt(case: str, target: str) -> None:
    """NaN is where torch has it, and everything else is near."""
    build = built(changed((WHOLE, "S : f32[HEADS, LENGTH, KEYS]")), target)
    given = tensors(build)
    bias = given["S"]
    match case:
        case "-inf rows":  # queries that see no key
            bias[:, 3:70] = -math.inf
        case "first tile -inf":
            bias[:, :, :64] = -math.inf
        case "huge":
            bias *= 1e36
        case "-huge":
            bias -= 1e30
        case "nan":
            bias[1, 5, 7] = math.nan
        case "nan of a masked key":
            bias[:, :, 100] = -math.inf
            given["K"][:, 100] = 1e30
    (found,) = computed(build, *given.values(), host=target == "sm_90a")
    wanted = attended(given["Q"], given["K"], given["V"], bias.double())
    assert torch.equal(found.isnan(), wanted.isnan())
    assert fault(found.nan_to_num(0), wanted.nan_to_num(0)) <= NEAR


# ---------------------------------------------------------------- stores in the loop, one product

KEPT = [("  global O", "  global P : bf16[HEADS, LENGTH, KEYS]\n  global O"),
        ("    n = max", "    P[h, q, j] = s\n    n = max")]  # fmt: skip
KINDS = {"tails": [TAILS], "odd": [ODD], "dynamic": CASES["dynamic"][0],
         "f32": [("P : bf16", "P : f32"), (WHOLE, "S : f32[HEADS, LENGTH, KEYS]"), ODD]}  # fmt: skip


SOME = ("tails", "gfx950"), ("odd", "gfx942"), ("dynamic", "gfx90a"), ("f32", "gfx942")


@pytest.mark.parametrize(
    ("case", "target"), [one if one in SOME else slow(*one) for one in ((c, t) for c in KINDS for t in AMD)]
)
def test_scores_are_stored(case: str, target: str) -> None:
    build = built(changed(*KEPT, *KINDS[case]), target)
    given = tensors(build)
    scores, found = computed(build, *given.values())
    bias, (q, k) = given["S"].double(), (given[name].double() for name in "QK")
    wanted = (q @ k.repeat_interleave(2, 0).mT / 8 + bias) * math.log2(math.e)
    assert fault(scores, wanted) <= NEAR
    assert fault(found, attended(given["Q"], given["K"], given["V"], bias)) <= NEAR


GRADIENT = """
kernel gradient
  dims HEADS = 2, LENGTH = 150, KEYS = 130, D = 64
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[HEADS, KEYS, D]
  global V : bf16[HEADS, KEYS, D]
  global G : bf16[HEADS, LENGTH, D]
  global S : f32[HEADS, LENGTH, KEYS]
  global LSE : f32[HEADS, LENGTH]
  global DELTA : f32[HEADS, LENGTH]
  global DS : f32[HEADS, LENGTH, KEYS]
  over h in HEADS, q in LENGTH by 128
  shared K, V
  each j in KEYS by 64
    p = exp(0.125 * Q[h, q] @ K[h, j].T + S[h, q, j] - LSE[h, q])
    DS[h, q, j] = p * (G[h, q] @ V[h, j].T - DELTA[h, q])
"""


@pytest.mark.parametrize("target", sample(AMD, 1))
def test_the_gradient_of_a_bias(target: str) -> None:
    build = built(GRADIENT, target)
    given = tensors(build)
    q, k, v, g, bias = (given[name].double() for name in "QKVGS")
    bias.requires_grad_()
    scores = q @ k.mT / 8 + bias
    out = scores.softmax(-1) @ v
    out.backward(g)
    given["LSE"], given["DELTA"] = scores.logsumexp(-1).float().detach(), (out * g).sum(-1).float().detach()
    (found,) = computed(build, *given.values())
    assert bias.grad is not None and fault(found, bias.grad) <= 2.0**-12


ONE = """
kernel sums
  dims HEADS = 2, LENGTH = 150, KEYS = 130, D = 64
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[HEADS, KEYS, D]
  global LSE : f32[HEADS, LENGTH]
  over h in HEADS, q in LENGTH by 128
  shared K
  carry m : f32[q] = -3.4e38, l : f32[q] = 0
  each j in KEYS by 64
    s = 0.125 * Q[h, q] @ K[h, j].T
    n = max(m, rowmax(s))
    l = l * exp(m - n) + rowsum(exp(s - n))
    m = n
  LSE[h, q] = m + log(l)
"""
WEIGHTED = """
kernel weighted
  dims HEADS = 2, LENGTH = 150, KEYS = 132, D = 64
  global S : bf16[HEADS, LENGTH, KEYS]
  global V : bf16[HEADS, KEYS, D]
  global O : f32[HEADS, LENGTH, D]
  over h in HEADS, q in LENGTH by 128
  shared V
  each j in KEYS by 64
    p = exp(S[h, q, j])
    l = l + rowsum(p)
    o = o + bf16(p) @ V[h, j]
  O[h, q] = o / l
"""


@pytest.mark.parametrize("target", sample(AMD, 1))
def test_one_product_in_the_loop(target: str) -> None:
    """The logarithms of sums of scores; and weights from memory, softmax of them, times values."""
    build = built(ONE, target)
    given = tensors(build)
    (found,) = computed(build, *given.values())
    q, k = (given[name].double() for name in "QK")
    assert fault(found, (q @ k.mT / 8).logsumexp(-1)) <= 2.0**-20
    build = built(WEIGHTED, target)
    given = tensors(build)
    (found,) = computed(build, *given.values())
    assert fault(found, given["S"].double().softmax(-1) @ given["V"].double()) <= NEAR


# ---------------------------------------------------------------- mistakes


def test_a_tile_of_another_iteration_is_refused() -> None:
    """The proof of stored = equations knows when lanes load."""
    spec = tkgen.load(changed(), target="gfx942").check()
    m, wave = spec.layout, spec.schedule
    first, *others = wave.tiles.body
    assert isinstance(first, Equations) and unlike(m, wave) is None
    bodies = {"never": others, "after its use": [*others, first], "of the next one": [replace(first, ahead=1), *others]}
    for what, body in bodies.items():
        assert unlike(m, replace(wave, tiles=replace(wave.tiles, body=tuple(body)))), what


def test_a_tile_of_another_iteration_is_refused_on_hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tkgen.load(changed(("  waves 4\n", "")), target="sm_90a").check()
    code, loads = tile_code(spec.layout), chained._Chained._loads
    assert code.loads and wrong_chain(spec.layout, code) is None
    for changed_to in ("first_iteration", "{} + 1", ""):
        made = loads if changed_to else lambda *_: ()
        monkeypatch.setattr(
            chained._Chained, "_loads", lambda self, at, to=changed_to, made=made: made(self, to.format(at))
        )
        assert wrong_chain(spec.layout, code), changed_to


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ([(READ, "S[h, j, q]")], "E223", "`j` runs over `KEYS`, this dimension of `S` is `LENGTH`"),
        ([(READ, "S[q, j]")], "E223", "`q` runs over `LENGTH`, this dimension of `S` is `HEADS`"),
        ([*SQUARE, ("in KEYS", "in LENGTH"), (READ, "S[h, j, q]")], "W201",
         "`S` is read one element at a time: its last index is `q`"),
        ([("shared K, V", "shared K, V, S")], "E230",
         "`S` is neither an operand that changes in the loop nor a vector along `j`"),
        ([("S : bf16", "S : i32")], "E230", "`S` is i32, which fused matmuls cannot hold yet"),
        ([*KEPT, *CASES["interleave"][0]], "E230", "`P` is stored in a loop with a schedule"),
        ([*SQUARE, KEPT[0], ("KEYS]", "LENGTH]"), TO, KEPT[1]], "E230",
         "`P` is stored in a loop that does not visit all of `j`"),
    ],
)  # fmt: skip
def test_mistakes_are_named(changes: list[Change], code: str, message: str) -> None:
    try:
        found = tkgen.load(changed(*changes), target="gfx942").diagnostics
    except SpecError as error:
        found = tuple(error.diagnostics)
    assert [(d.code, d.message) for d in found] == [(code, message)]
