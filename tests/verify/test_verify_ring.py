"""Numbers with payloads: the fields, and functions of torch over them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
import torch.nn.functional as nn
from torch import Tensor

from tkgen.ir.functions import FUNCTIONS
from tkgen.ir.types import DType
from tkgen.verify import field, ring
from tkgen.verify.field import ABSENT, P, Q
from tkgen.verify.ring import Ring, UnsupportedError

LOG2E = 1.44269504088896341


def drawn(*shape: int, seed: int = 0) -> Ring:
    g = torch.Generator().manual_seed(seed)
    return Ring.random(torch.randn(*shape, generator=g), g)


def payload(x: Tensor) -> tuple[list[int], list[int]]:
    found = ring.planes(x)
    return found.p.flatten().tolist(), found.q.flatten().tolist()


def agree(one: Tensor, other: Tensor) -> None:
    """Payloads are the same, where both have one, and real numbers nearly; nothing is undecided."""
    a, b = ring.planes(one), ring.planes(other)
    assert a.p.shape == b.p.shape
    assert torch.equal(a.p, b.p) and bool(((a.q == b.q) | (a.q < 0) | (b.q < 0)).all())
    assert torch.allclose(a.real, b.real, rtol=1e-5, atol=1e-6)
    assert not (a.unsure | b.unsure).any()


# ---------------------------------------------------------------- fields


def prime(n: int) -> bool:
    """Miller and Rabin, with bases that decide below 2^32."""
    d, s = n - 1, 0
    while d % 2 == 0:
        d, s = d // 2, s + 1
    for base in (2, 3, 5, 7):
        x = pow(base, d, n)
        if x not in (1, n - 1) and all((x := x * x % n) != n - 1 for _ in range(s - 1)):
            return False
    return True


def test_the_fields_are_what_they_are_said_to_be() -> None:
    assert prime(P) and prime(Q) and P == 2 * Q + 1 and P % 8 == 7
    assert pow(2, Q, P) == 1, "2 has the order q"
    larger = range(P + 8, 2**31, 8)
    assert not [n for n in larger if prime(n) and prime(n // 2)], "the largest below 2^31"


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 0.1, -3.75, 2.0**-1074, 2.0**-149, 1.7e308, 65504.0, 1e-30])
def test_images_are_those_of_the_exact_numbers(value: float) -> None:
    exact = Fraction(value)
    for modulus in (P, Q):
        found = int(field.image(torch.tensor(value, dtype=torch.float64), modulus))
        assert found == exact.numerator * pow(exact.denominator, -1, modulus) % modulus


def test_powers_and_inverses() -> None:
    values = torch.randint(1, Q, (100,), generator=torch.Generator().manual_seed(0))
    assert field.power_of_two(values).tolist() == [pow(2, int(x), P) for x in values]
    for modulus in (P, Q):
        assert (field.inverse(values, modulus) * values % modulus == 1).all()


def test_matrix_products_are_exact() -> None:
    g = torch.Generator().manual_seed(0)
    for modulus in (P, Q):
        a = torch.randint(modulus - 50, modulus, (3, 300), generator=g)
        b = torch.randint(modulus - 50, modulus, (300, 2), generator=g)
        wanted = [[sum(int(x) * int(y) for x, y in zip(r, c, strict=True)) % modulus for c in b.T] for r in a]
        assert field.multiplied(a, b, modulus).tolist() == wanted


def splitmix(tag: str, value: int, modulus: int) -> int:
    z = (value * 0x9E3779B97F4A7C15 ^ int.from_bytes(tag.encode(), "little")) % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return (z ^ z >> 31) % modulus


def test_hashes_are_those_of_unsigned_numbers() -> None:
    values = torch.randint(0, P, (1000,), generator=torch.Generator().manual_seed(0))
    for tag, modulus in (("Q", Q), ("log2", P), ("log2q", Q)):
        assert field.hashed(tag, values, modulus).tolist() == [splitmix(tag, int(x), modulus) for x in values]


# ---------------------------------------------------------------- laws


X, Y, W = drawn(4, 16, seed=1), drawn(4, 16, seed=2), drawn(8, 16, seed=3)


def softmax(x: Tensor) -> Tensor:
    e = torch.exp(x)
    return e / e.sum(-1, keepdim=True)


def logsumexp(x: Tensor) -> Tensor:
    most = x.amax(-1)
    return most + torch.log(torch.exp(x - most[:, None]).sum(-1))


ALIKE: dict[str, Callable[[], tuple[Tensor, Tensor]]] = {
    "sums": lambda: ((X + Y) - X, Y),
    "products": lambda: ((X + Y) * (X - Y), X * X - Y * Y),
    "quotients": lambda: (X / Y, X * Y.reciprocal()),
    "powers": lambda: (torch.exp2(X) * torch.exp2(Y), torch.exp2(X + Y)),
    "base": lambda: (torch.exp(X), torch.exp2(X * LOG2E)),
    "matmul": lambda: (X @ W.T, torch.einsum("ik,jk->ij", X, W)),
    "parts": lambda: (X @ W.T, X[:, :5] @ W[:, :5].T + X[:, 5:] @ W[:, 5:].T),
    "linear": lambda: (nn.linear(X, W, W[:, 0]), X @ W.T + W[:, 0]),
    "softmax": lambda: (torch.softmax(X, -1), softmax(X)),
    "log_softmax": lambda: (torch.log_softmax(X, -1), X - logsumexp(X)[:, None]),
    "logsumexp": lambda: (torch.logsumexp(X, -1), logsumexp(X)),
    "silu": lambda: (nn.silu(X), X / (1 + torch.exp(-X))),
    "sigmoid": lambda: (torch.sigmoid(X), 1 - 1 / (1 + torch.exp(X))),
    "glu": lambda: (nn.glu(X), X[:, :8] * torch.sigmoid(X[:, 8:])),
    "gelu": lambda: (nn.gelu(X, approximate="tanh"), FUNCTIONS["gelu_tanh"].meaning(X)),
    "rms_norm": lambda: (nn.rms_norm(X, (16,), W[0], 1e-6), X * torch.rsqrt((X * X).mean(-1, True) + 1e-6) * W[0]),
    "layer_norm": lambda: (
        nn.layer_norm(X, (16,), W[0], W[1], 1e-5),
        (X - X.mean(-1, True)) * torch.rsqrt(X.var(-1, True, keepdim=True) * 15 / 16 + 1e-5) * W[0] + W[1],
    ),
    "relu": lambda: (nn.relu(X), torch.where(X > 0, X, 0.0)),
    "tril": lambda: (X.masked_fill(torch.ones(4, 16).triu().bool(), 0), torch.tril(X, -1)),
    "max": lambda: (X.max(-1).values, X[torch.arange(4), X.argmax(-1)]),
    "cumsum": lambda: (X.cumsum(1)[:, -1], X.sum(1)),
    "cat": lambda: (torch.cat([X, Y], 1).view(4, 2, 16).unbind(1)[1], Y),
    "casts": lambda: (X.double().to(torch.float32).float(), X),
}


@pytest.mark.parametrize("name", ALIKE)
def test_what_is_the_same_has_the_same_payload(name: str) -> None:
    agree(*ALIKE[name]())


def test_what_is_another_has_another_payload() -> None:
    right = X @ W.T
    lost = X[:, 1:] @ W[:, 1:].T
    assert (right.p != lost.p).all() and (right.q != lost.q).all()
    assert (torch.exp(X).p != torch.exp2(X).p).all()
    assert (torch.log(X.abs()).p != torch.rsqrt(X.abs()).p).all()


@pytest.mark.parametrize("name", ["erf", "tanh", "gelu", "gelu_tanh", "silu", "sin", "cos", "exp", "log2"])
def test_formulas_are_near_the_functions(name: str) -> None:
    f = FUNCTIONS[name]
    x = drawn(64).abs() if name == "log2" else drawn(64)
    found = (f.ring or f.meaning)(x)
    assert torch.allclose(ring.planes(found).real, f.meaning(ring.planes(x).real), atol=2e-6)
    again = (f.ring or f.meaning)(x + 0.0)
    assert payload(found) == payload(again) and payload(found)[0] != payload(x)[0]


def test_attention() -> None:
    q, k, v = (drawn(2, 8, 4, seed=s) for s in range(3))
    s = torch.where(torch.ones(8, 8).tril().bool(), (q @ k.mT) * 0.5, -torch.inf)
    agree(nn.scaled_dot_product_attention(q, k, v, is_causal=True), torch.softmax(s, -1) @ v)


def test_a_rounded_number_keeps_its_payload() -> None:
    for dtype in (torch.bfloat16, torch.float8_e4m3fn):
        rounded = X.to(dtype)
        assert payload(rounded) == payload(X) and not torch.equal(ring.planes(rounded).real, X.reals)


def test_small_floats_stop_at_their_largest_number() -> None:
    x = Ring.random(torch.tensor([3.0, 500.0, -460.0, torch.inf]), torch.Generator().manual_seed(0))
    stored = ring.converted(x.planes, DType.E4M3FN)
    assert payload(stored[:1]) == payload(x[:1])
    assert payload(stored[1:3]) == payload(torch.tensor([448.0, -448.0]))


def test_a_choice_of_what_is_unsure_itself_is_unsure() -> None:
    """The largest of two equal numbers divided by either is one; which one it was divided by is open."""
    g = torch.Generator().manual_seed(0)
    x = Ring.random(torch.tensor([3.0, 3.0]), g)
    ones = x[:1] / x.amax() / 3 * 3
    assert ring.planes(torch.clamp(ones, max=1.0)).unsure.all()


def test_whole_numbers_are_what_they_are() -> None:
    assert payload(torch.floor(X)) == payload(X.reals.floor()) and payload(X.to(torch.int8)) == payload(X.reals.trunc())
    powers = torch.exp2(X - torch.round(X)) * torch.exp2(torch.round(X))
    agree(powers, torch.exp2(X))
    near = ring.planes(0.5 + X - X)  # half of a whole number, as far as rounding tells
    assert near.error.any() and torch.equal(ring.planes(torch.round(Ring(near))).unsure, near.error > 0)


# ---------------------------------------------------------------- no numbers, choices


def test_infinities_masks_and_what_comes_of_them() -> None:
    masked = torch.where(torch.arange(16) < 3, X, -torch.inf)
    far = torch.where(torch.arange(16) < 3, X, -1e6)
    agree(torch.softmax(masked, -1), torch.softmax(far, -1))
    zeros = ring.planes(torch.exp(masked)[:, 3:])
    assert not zeros.p.any() and not zeros.q.any() and not zeros.real.any()
    infinite = ring.plain(torch.tensor([torch.inf]))
    agree(X[0, :1] / infinite, torch.zeros(1))
    assert ring.planes(infinite - infinite).real.isnan()


def test_a_choice_between_equal_numbers_is_unsure_where_it_matters() -> None:
    g = torch.Generator().manual_seed(0)
    x = Ring.random(torch.tensor([1.0, 2.0, 2.0]), g)
    assert ring.planes(x.amax()).unsure and not ring.planes(x[:2].amax()).unsure
    assert not ring.planes(torch.stack([x[1], x[1]]).amax()).unsure, "the same number"
    assert ring.planes(torch.maximum(x[1], x[2]) * 3).unsure, "it spreads"
    agree(torch.softmax(x[:2], 0), softmax(x[:2]))


def test_a_comparison_within_rounding_is_unsure() -> None:
    x = drawn(4) / 3
    near = (x * 3 - x - x - x) > 0
    assert ring.planes(near).unsure.all()
    assert ring.planes(torch.where(near, x, x + 1)).unsure.all()
    assert not ring.planes(torch.where(near, x, x)).unsure.any()
    assert not ring.planes((near | True) & (x < 100)).unsure.any(), "what decides alone"


def test_a_power_that_f32_cannot_hold_is_unsure() -> None:
    x = Ring.random(torch.tensor([-200.0, -3.0]), torch.Generator().manual_seed(0))
    assert ring.planes(torch.sigmoid(x)).unsure.tolist() == [True, False]


def test_what_is_finite() -> None:
    x = torch.cat([X[0] / 3, torch.full((1,), torch.inf)])
    assert torch.isfinite(x).tolist() == [True] * 16 + [False] and ((x == x) * (x > -9)).dtype is torch.bool


def test_q_of_a_power_is_not_known_and_its_power_is_a_hash() -> None:
    e = torch.exp2(X)
    assert (e.q == ABSENT).all() and ((e + X).q == ABSENT).all()
    assert payload(torch.exp2(e)) == payload(torch.exp2(e + 0.0))
    assert payload(torch.exp2(e))[0] != payload(torch.exp2(e + 1.0))[0]


def test_memory() -> None:
    out = torch.zeros_like(X)
    out[1:3] = X[1:3]
    out[0] += Y[0]
    agree(out[:3], torch.stack([Y[0], X[1], X[2]]))
    assert (ring.unwritten((2,)).p == ring.NEVER).all()


def test_what_is_not_known_is_named() -> None:
    with pytest.raises(UnsupportedError, match="torch's `sort` is not known"):
        torch.sort(X)
    with pytest.raises(UnsupportedError, match="zeros_like or new_zeros"):
        torch.zeros(4, 16).copy_(X)


def test_steps_take_their_operands_first() -> None:
    """A change of a step calls it with other operands, and then with what else it took."""
    found = dict[str, int]()

    def watcher(number: int, name: str, of: Callable[..., Ring], given: tuple[object, ...]) -> Ring:
        operands = [x for x in given if isinstance(x, ring.Planes)]
        rest = [x for x in given if not isinstance(x, ring.Planes)]
        found[name] = number
        result = of(*operands, *rest)
        agree(result, of(*given))
        return result

    x = drawn(3, 4)
    with ring.watched(watcher):
        y = (x * x + 1).rsqrt() + (x * x + 2).sqrt() + (x * x + 1).log2()
        (y.sum(-1) / y.amax(-1)).exp2()
    assert {"root", "add", "sum", "max", "exp2"} <= set(found)
