"""Fused matmuls that were accepted and did not compile, raced, or ended in a traceback: their numbers beside torch's.

Names of a spec that generated code has for locals of its own, values that are used twice, several products onto one
carry, tiles of odd sizes, rings with one buffer under `ping_pong`. The references are written from the mathematics, in
f64, not from the equations.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import tkgen
from tkgen.diagnostics import SpecError

Tensors = dict[str, torch.Tensor]
ATTENTION = """
kernel attention
  dims L = 128, D = 32
  global {Q} : bf16[L, D]
  global {K} : bf16[L, D]
  global {V} : bf16[L, D]
  global {O} : f32[L, D]
  scalar {scale} : f32 = 0.25
  over q in L by 64
  waves 4 along q
  shared {K}, {V} buffers 2{via}
  carry {m} : f32[q] = -inf, {l} : f32[q] = 0, {o} : f32[q, D] = 0
  each j in L by 64
    {s} = {scale} * {Q}[q] @ {K}[j].T
    {n} = max({m}, rowmax({s}))
    {p} = exp({s} - {n})
    {r} = exp({m} - {n})
    {l} = {l} * {r} + rowsum({p})
    {o} = {o} * {r} + bf16({p}) @ {V}[j]
    {m} = {n}
  {O}[q] = {o} / {l}
"""
PLAIN = {name: name for name in ("Q", "K", "V", "O", "scale", "m", "l", "o", "s", "n", "p", "r")}
# Each value has the name that generated code makes for another, or has of its own.
CLASHES: dict[str, dict[str, str]] = {
    "rings": {"l": "V_f", "m": "K_s", "o": "K_f", "s": "V_s", "p": "K_r", "r": "V_at", "n": "Q_at"},
    "constants": {"scale": "TILE_j", "l": "TILE_q", "m": "COLS_", "s": "DIM_"},
    "endings": {"o": "s_next", "l": "s_e", "m": "s_r", "r": "l_d", "p": "m_next", "n": "o_r"},
    "locals": {"s": "part", "p": "step", "n": "wave", "r": "first_column", "m": "al", "l": "k", "o": "first_of_wave"},
    "functions": {
        "s": "tile",
        "p": "columns",
        "n": "put",
        "r": "pair_at",
        "m": "tk",
        "l": "settle",
        "o": "x",
    },
    "numbers": {"s": "v12", "p": "v9", "n": "v15", "r": "v7", "m": "v4", "l": "v20", "o": "v23"},
    "tensors": {"Q": "tile", "K": "part", "V": "write_transposed", "O": "direct", "scale": "quiet"},
    "places": {"Q": "q_0", "K": "j_0", "V": "q_at", "O": "step", "s": "q_in", "scale": "e"},
}


def softmax_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.softmax(scale * q.double() @ k.double().T, -1) @ v.double()


def numbers(*shapes: tuple[int, ...], dtype: torch.dtype = torch.bfloat16) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def near(found: torch.Tensor, meant: torch.Tensor, bound: float = 0.02) -> None:
    error = (found.double() - meant).abs().max().item()
    assert error <= bound * meant.abs().max().item(), error


@pytest.mark.parametrize(
    ("names", "target"),
    [*((names, "gfx942") for names in CLASHES), ("endings", "gfx950"), ("numbers", "gfx950")],
)
def test_names_of_a_spec_meet_none_of_the_generated_code(names: str, target: str) -> None:
    via = " via direct" if target == "gfx950" else ""
    text = ATTENTION.format(**PLAIN | CLASHES[names], via=via)
    inputs = numbers((128, 32), (128, 32), (128, 32))
    near(tkgen.run(tkgen.load(text, target=target).check().build(), *inputs), softmax_attention(*inputs, 0.25))


# name -> (target, the spec below its dims, what it means)
Meaning = Callable[..., torch.Tensor]
HEAD = """
kernel drawn
  dims L = 64, N = 128, D = 32
  global Q : bf16[L, D]
  global K : bf16[N, D]
  global V : bf16[N, D]
  global O : f32[L, D]
  over q in L by 64
  waves 4 along q
"""


def _scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return q.double() @ k.double().T


def _rounded(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16().double()


def _latent(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(0.06 * (_scores(q, k) + _scores(q, v)), -1) @ k.double()


def _by_maxima(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    s = _scores(q, k)
    sums, factor = torch.full((64, 32), 2.0, dtype=torch.float64), torch.ones(64, 1, dtype=torch.float64)
    for j in (0, 64):
        part = s[:, j : j + 64]
        sums = sums * factor + _rounded(part) @ v[j : j + 64].double()
        factor = part.max(-1, keepdim=True).values.clamp(-1, 1)
    return sums


def _quotients(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    sums = torch.zeros(64, 32, dtype=torch.float64)
    for at in (slice(0, 64), slice(64, 128)):
        part = _scores(q, k)[:, at]
        largest = 10 + part.abs().max(-1, keepdim=True).values
        sums = sums / largest + _rounded(part / largest) @ v[at].double()
    return sums / 3


def _squares(p: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return p @ v.double() / (1 + (p * p).sum(-1, keepdim=True))


def _part(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, at: slice) -> torch.Tensor:
    return _rounded(_scores(q, k)[:, at]) @ v[at].double()


def _halved(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    z = _rounded((0.5 * _scores(q, k) + 0.01 * torch.arange(64)[:, None]).abs())
    return 0.5 * z[:, :64] @ v[:64].double() + z[:, 64:] @ v[64:].double()


def _clamped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    s, seen = _scores(q, k), torch.arange(64)[:, None] + 5 >= torch.arange(128)
    y = torch.where(seen, s.clamp(-4, 4), 4.0)
    return (_rounded(y.maximum(-s)) + _rounded(s.tanh())) @ v.double()


CASES: dict[str, tuple[str, Meaning]] = {
    "two products onto one carry": (
        """\
  shared K, V{via}
  carry o : f32[q, D] = 0
  each j in N by 64
    s = Q[q] @ K[j].T
    o = o + bf16(s) @ V[j]
    o = o + bf16(min(s, 1)) @ V[j]
  O[q] = o
""",
        lambda q, k, v: (_rounded(_scores(q, k)) + _rounded(_scores(q, k).clamp(max=1))) @ v.double(),
    ),
    "two products added, of named scores": (
        """\
  shared K, V buffers 2
  carry m : f32[q] = -inf, l : f32[q] = 0, o : f32[q, D] = 0
  each j in N by 64
    s = Q[q] @ K[j].T
    s2 = Q[q] @ V[j].T
    x = 0.06 * (s + s2)
    n = max(m, rowmax(x))
    p = exp(x - n)
    r = exp(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ K[j]
    m = n
  O[q] = o / l
""",
        _latent,
    ),
    "a value in two parts of an expression": (
        """\
  shared K, V{via}
  carry o : f32[q, D] = 0
  each j in N by 64
    s = Q[q] @ K[j].T
    x = min(s, s)
    y = x - 0.5 * x + 0.01 * q
    z = abs(y)
    o = o * 0.5 + bf16(z) @ V[j]
  O[q] = o
""",
        _halved,
    ),
    "a value in the place of one that is still read": (
        """\
  shared K, V{via}
  carry o : f32[q, D] = 0
  each j in N by 64
    s = Q[q] @ K[j].T
    w = where(q + 5 >= j, s, inf)
    y = clamp(w, -4, 4)
    p = tanh(s)
    o = o + bf16(max(y, -s)) @ V[j]
    o = o + bf16(p) @ V[j]
  O[q] = o
""",
        _clamped,
    ),
    "a factor that is also summed": (
        """\
  shared K, V{via}
  carry l : f32[q] = 0, o : f32[q, D] = 0
  each j in N by 64
    s = Q[q] @ K[j].T
    p = bf16(tanh(s))
    l = l + rowsum(p * p)
    o = o + p @ V[j]
  O[q] = o / (1 + l)
""",
        lambda q, k, v: _squares(_rounded(_scores(q, k).tanh()), v),
    ),
    "a carry that is replaced": (
        """\
  shared K, V{via}
  carry o : f32[q, D] = 0
  each j in N by 64
    s = Q[q] @ K[j].T
    o = bf16(s) @ V[j]
  O[q] = o
""",
        lambda q, k, v: _rounded(_scores(q, k)[:, 64:]) @ v[64:].double(),
    ),
    "a product that is carried and added": (
        """\
  shared K, V{via}
  carry o : f32[q, D] = 0, u : f32[q, D] = 0
  each j in N by 64
    s = Q[q] @ K[j].T
    t = bf16(s) @ V[j]
    o = o + 2 * u
    o = o + t
    u = t
  O[q] = o + u
""",
        lambda q, k, v: 3 * _part(q, k, v, slice(0, 64)) + 2 * _part(q, k, v, slice(64, 128)),
    ),
    "two quotients by one number": (
        """\
  shared K, V{via}
  carry l : f32[q] = 1, o : f32[q, D] = 0
  each j in N by 64
    s = Q[q] @ K[j].T
    m = 10 + rowmax(abs(s))
    p = s / m
    o = o / m + bf16(p) @ V[j]
    l = l + 1
  O[q] = o / l
""",
        _quotients,
    ),
    "a factor by maxima, of one row of instructions": (
        """\
  shared K, V buffers 2
  carry c : f32[q] = 1, o : f32[q, D] = 2
  each j in N by 64
    s = Q[q] @ K[j].T
    o = o * c + bf16(s) @ V[j]
    c = clamp(rowmax(s), -1, 1)
  O[q] = o
  schedule interleave
""",
        _by_maxima,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("gfx90a", marks=pytest.mark.slow),
        "gfx942",
        pytest.param("gfx950", marks=pytest.mark.slow),
        "gfx950 direct",
    ],
)
@pytest.mark.parametrize("name", CASES)
def test_values_in_every_role_are_right(name: str, target: str) -> None:
    text, meaning = CASES[name]
    text = HEAD + text.replace("{via}", " via direct" if "direct" in target else "")
    inputs = numbers((64, 32), (128, 32), (128, 32))
    found = tkgen.run(tkgen.load(text, target=target.split()[0]).check().build(), *inputs)
    near(found, meaning(*inputs))


ODD = [
    (depth, schedule, target)
    for depth in (16, 48, 80)
    for schedule in ("", "interleave")
    for target in ("gfx942", "gfx950")
]
FEW = [(16, "interleave", "gfx950"), (48, "", "gfx942"), (80, "interleave", "gfx942")]


@pytest.mark.parametrize(
    ("depth", "schedule", "target"),
    [pytest.param(*case, marks=() if case in FEW else pytest.mark.slow) for case in ODD],
)
def test_odd_sizes_compile_and_race_nowhere(depth: int, schedule: str, target: str) -> None:
    """An odd number of base tiles along each axis: instructions of half the depth, tiles that threads do not share."""
    text = ATTENTION.format(**PLAIN, via="").replace("D = 32", f"D = {depth}").replace("L = 128", "L = 192")
    text = text.replace("j in L by 64", "j in L by 48")
    text = text.replace("  carry", f"  schedule {schedule}\n  carry", 1) if schedule else text
    build = tkgen.load(text, target=target).check().build()
    inputs = numbers(*[(192, depth)] * 3)
    near(tkgen.run(build, *inputs), softmax_attention(*inputs, 0.25))


RINGS = """
kernel rings
  dims L = 128, N = 128, D = 32
  global Q : bf16[L, D]
  global K : bf16[N, D]
  global V : bf16[N, D]
  global G : f32[N]
  global O : f32[L, D]
  global Z : f32[L]
  over q in L by 128
  waves 8 along q
  shared K buffers 2
  shared V{V}
  shared G{G}
  carry c : f32[q] = 0, o : f32[q, D] = 0
  each j in N by 32
    s = Q[q] @ K[j].T
    o = o + bf16(s) @ V[j]
    c = c + rowmax(s + G[j])
  O[q] = o
  Z[q] = c
  schedule ping_pong
"""


@pytest.mark.parametrize("single", ["V", "G", "VG"])
def test_a_ring_of_one_buffer_under_ping_pong_is_refused_by_name(single: str) -> None:
    two = {name: "" if name in single else " buffers 2" for name in "VG"}
    with pytest.raises(SpecError) as caught:
        tkgen.load(RINGS.format(**two), target="gfx942").check()
    (found,) = caught.value.diagnostics
    assert found.code == "E230" and found.fix is not None and "buffers 2" in str(found.fix)
    assert all((f"`{name}`" in found.message) == (name in single) for name in "VG")
    assert found.primary.span.text.strip() == f"shared {single[0]}"


def test_with_two_buffers_each_it_is_right() -> None:
    text = RINGS.format(V=" buffers 2", G=" buffers 2")
    q, k, v = numbers((128, 32), (128, 32), (128, 32))
    (g,) = numbers((128,), dtype=torch.float32)
    found = tkgen.run(tkgen.load(text, target="gfx942").check().build(), q, k, v, g)
    assert isinstance(found, tuple)
    near(found[0], _rounded(_scores(q, k)) @ v.double())
    near(found[1], sum((_scores(q, k) + g)[:, j : j + 32].max(-1).values for j in range(0, 128, 32)))  # type: ignore[arg-type]


def test_products_with_nothing_between_them_have_a_ping_pong() -> None:
    """The second product is added to the first: there is nothing to compute before the first phase of products."""
    text = RINGS.format(V=" buffers 2", G=" buffers 2").replace(
        "s = Q[q] @ K[j].T", "t = Q[q] @ K[j].T\n    s = t + Q[q] @ V[j].T"
    )
    q, k, v = numbers((128, 32), (128, 32), (128, 32))
    (g,) = numbers((128,), dtype=torch.float32)
    found = tkgen.run(tkgen.load(text, target="gfx942").check().build(), q, k, v, g)
    assert isinstance(found, tuple)
    near(found[0], _rounded(_scores(q, k) + _scores(q, v)) @ v.double())


BIASED = """
kernel biased
  dims L = 48, N = 80, D = 32
  global Q : bf16[L, D]
  global K : bf16[N, D]
  global V : bf16[N, D]
  global S : {dtype}[L, N]
  global O : f32[L, D]
  over q in L by 64
  waves 2
  shared K, V
  carry o : f32[q, D] = 0
  each j in N by 32
    s = Q[q] @ K[j].T + S[q, j]
    o = o + bf16(s) @ V[j]
  O[q] = o
"""


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_scores_are_added_to_a_bias_alone(dtype: str) -> None:
    """The product begins with the loaded tile, which nothing scales; that did not compile."""
    made = torch.Generator().manual_seed(0)
    q, k, v, s = (
        torch.randint(-2, 3, shape, generator=made).bfloat16() for shape in ((48, 32), (80, 32), (80, 32), (48, 80))
    )
    build = tkgen.load(BIASED.format(dtype=dtype), target="gfx942").check().build()
    found = tkgen.run(build, q, k, v, s.float() if dtype == "f32" else s)
    assert isinstance(found, torch.Tensor)
    assert torch.equal(found.double(), _rounded(_scores(q, k) + s.double()) @ v.double())
