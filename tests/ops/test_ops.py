"""The operators of a transformer: numbers and gradients beside torch's in f64, torch's own checks, training."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import hurting
import pytest
import torch
import torch.nn.functional as F
from hurting import LENGTHS
from sampling import sample

import tkgen
from tkgen import ops
from tkgen.diagnostics import SpecError
from tkgen.fp8 import convert
from tkgen.ops.attention import _attention
from tkgen.ops.groups import _grouped_linear
from tkgen.ops.kernels import SPECS, _built, forms
from tkgen.ops.layers import _linear, _matmul, _rmsnorm, _rotary, _rotary_by_place, _swiglu
from tkgen.ops.quantised import _quantise, _scaled_linear
from tkgen.targets import UnknownTargetError, load_target
from tkgen.toolchain.discover import NoCompilerError, find_compiler

Function = Callable[..., torch.Tensor]


@pytest.fixture(autouse=True)
def compiler() -> None:
    try:
        find_compiler(load_target("gfx942"))
    except NoCompilerError:
        pytest.skip("no compiler for AMD GPUs")


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return (scale * torch.randn(*shape, generator=generator)).bfloat16()


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, weight.shape, weight, 1e-6)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    (a, b), c, s = x.chunk(2, -1), cos.to(x.dtype), sin.to(x.dtype)
    return torch.cat([a * c - b * s, b * c + a * s], -1)


def gated(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


def attend(causal: bool, deterministic: bool = True) -> tuple[Function, Function]:
    return (lambda q, k, v: ops.attention(q, k, v, causal, deterministic=deterministic)), (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    )


def in_window(length: int, window: int) -> torch.Tensor:
    return torch.ones(length, length).tril().triu(1 - window).bool()


def look_back(window: int) -> tuple[Function, Function]:
    def torchs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=in_window(q.shape[2], window), enable_gqa=True)

    return (lambda q, k, v: ops.attention(q, k, v, causal=True, window=window)), torchs


ANGLES = torch.arange(13)[:, None] / torch.arange(1, 17)
CASES: dict[str, tuple[Function, Function, tuple[torch.Tensor, ...]]] = {
    "linear": (ops.linear, F.linear, (normal(3, 50, 71), normal(137, 71))),
    "matmul": (ops.matmul, torch.matmul, (normal(3, 50, 71), normal(71, 137))),
    "rmsnorm": (ops.rmsnorm, rms_norm, (normal(3, 17, 100), normal(100))),
    "rotary": (ops.rotary, rotated, (normal(2, 3, 13, 32), ANGLES.cos(), ANGLES.sin())),
    "rotary by place": (ops.rotary, rotated, (normal(2, 13, 3, 32).transpose(1, 2), ANGLES.cos(), ANGLES.sin())),
    "swiglu": (ops.swiglu, gated, (normal(70, 40), normal(72, 40, seed=1), normal(72, 40, seed=2))),
    "attention": (*attend(False), (normal(2, 4, 50, 64), normal(2, 2, 70, 64, seed=1), normal(2, 2, 70, 64, seed=2))),
    "causal": (*attend(True), (normal(1, 2, 65, 64), normal(1, 2, 65, 64, seed=1), normal(1, 2, 65, 64, seed=2))),
    "atomic": (*attend(False, False), (normal(2, 2, 50, 64), normal(2, 1, 150, 64, seed=1), normal(2, 1, 150, 64))),
    "causal atomic": (
        *attend(True, False),
        (normal(1, 1, 150, 64), normal(1, 1, 150, 64, seed=1), normal(1, 1, 150, 64)),
    ),
    "window": (*look_back(40), (normal(1, 2, 150, 32), normal(1, 1, 150, 32, seed=1), normal(1, 1, 150, 32, seed=2))),
    "D = 192": (*attend(True), (normal(1, 2, 50, 192), normal(1, 1, 50, 192, seed=1), normal(1, 1, 50, 192, seed=2))),
    "D = 256": (*attend(False), (normal(1, 2, 50, 256), normal(1, 1, 40, 256, seed=1), normal(1, 1, 40, 256, seed=2))),
}


def with_gradients(
    function: Function, arguments: tuple[torch.Tensor, ...], dtype: torch.dtype
) -> tuple[torch.Tensor, ...]:
    """The result in that type, and the gradients of the bf16 arguments for one random gradient of the result."""
    learned = [t.dtype is torch.bfloat16 for t in arguments]
    given = [t.to(dtype).requires_grad_() if of else t for t, of in zip(arguments, learned, strict=True)]
    result = function(*given)
    result.backward(normal(*result.shape, seed=9).to(dtype))
    return result.detach(), *(t.grad for t, of in zip(given, learned, strict=True) if of)  # type: ignore[misc]


def sampled(names: Iterable[str], slow: Collection[str]) -> list[object]:
    return [pytest.param(name, marks=pytest.mark.slow if name in slow else ()) for name in names]


@pytest.mark.parametrize("name", sampled(CASES, ("causal atomic", "D = 192", "D = 256", "window")))
def test_numbers_and_gradients(name: str) -> None:
    """No farther from f64 than twice what torch's own bf16 is."""
    ours, torchs, arguments = CASES[name]
    exact = with_gradients(torchs, arguments, torch.float64)
    rounded = with_gradients(torchs, arguments, torch.bfloat16)
    for place, found in enumerate(with_gradients(ours, arguments, torch.bfloat16)):
        assert found.dtype is torch.bfloat16
        allowed = 2 * (rounded[place].double() - exact[place]).abs().max()
        assert (found.double() - exact[place]).abs().max() <= allowed, f"result {place}"


@pytest.mark.parametrize(("length", "causal", "window", "d", "deterministic"), [
    *(pytest.param(length, causal, None, 64, True, marks=() if length in few else pytest.mark.slow)
      for causal, few in ((False, (1, 65)), (True, (63,))) for length in LENGTHS),
    *(pytest.param(length, causal, None, 64, False, marks=pytest.mark.slow)
      for causal in (False, True) for length in LENGTHS),
    *(pytest.param(length, True, window, d, True, marks=pytest.mark.slow)
      for length, window, d in ((127, 40, 64), (65, None, 256), (127, 40, 256), (65, 1, 64))),
])  # fmt: skip
def test_attention_of_inputs_that_hurt(
    length: int, causal: bool, window: int | None, d: int, deterministic: bool
) -> None:
    """Its sums, and gradients of what its own forward pass has left; lengths on the two targets in turn.

    Where 1 / sqrt(D) is no power of two, torch's own gradients of scores near 1e37 are NaN, in f64, too.
    """
    seen = in_window(length, window or length) if causal else None
    for case in hurting.CASES:
        given = hurting.hurting(case, (1, 2, length, d), (1, 1, length, d))
        g = normal(1, 2, length, d, scale=0.01)
        q, k, v = (x.clone().requires_grad_() for x in given)
        with ops.emulated("gfx950" if length in (63, 127) else "gfx942"):
            found = ops.attention(q, k, v, causal, window=window, deterministic=deterministic)
            found.backward(g)
        meant, theirs = (hurting.attended(*given, seen, exact=exact) for exact in (True, False))
        hurting.assert_near(found.detach(), meant, theirs, case)
        exact, torchs = (hurting.gradients(*given, g, seen, exact=exact) for exact in (True, False))
        rounding = hurting.cancelled(*given, g) if length == 1 else 0.0
        for name, x in zip(exact, (q, k, v), strict=True):
            assert x.grad is not None
            hurting.assert_near(x.grad, exact[name], torchs[name], (case, name), rounding)


@pytest.mark.parametrize("target", ["gfx942", pytest.param("gfx950", marks=pytest.mark.slow)])
def test_one_build_of_attention_serves_all_lengths(target: str) -> None:
    """On gfx950 of a D that is too small for waves to share what direct loads bring."""

    def attend(batch: int, length: int, keys: int) -> None:
        q, k = normal(batch, 4, length, 32).requires_grad_(), normal(batch, 2, keys, 32)
        found = ops.attention(q, k, k)
        meant = F.scaled_dot_product_attention(q, k, k, enable_gqa=True)
        torch.testing.assert_close(found, meant, rtol=2**-7, atol=2**-9)
        found.sum().backward()

    with ops.emulated(target):
        attend(1, 5, 70)
        built = _built.cache_info().misses
        for sizes in ((2, 260, 7), (3, 1, 200)):
            attend(*sizes)
        assert _built.cache_info().misses == built


def test_gradients_in_any_order_are_those_in_one_where_waves_cannot_share_columns() -> None:
    q, k, g = normal(1, 4, 40, 32), normal(1, 2, 40, 32), normal(1, 4, 40, 32, seed=1)
    found = []
    for deterministic in (True, False):
        x = q.clone().requires_grad_()
        ops.attention(x, k, k, deterministic=deterministic).backward(g)
        found.append(x.grad)
    assert found[0] is not None and torch.equal(found[0], found[1])


def test_attention_has_the_form_that_is_fastest_on_a_target() -> None:
    for name in ("attention", "attention_causal"):
        halves, plain = forms(name, "gfx942")
        assert plain == (SPECS / f"{name}.tk").read_text(encoding="utf-8")
        assert isinstance(halves, str) and "waves 8 along q" in halves and "schedule ping_pong" in halves
        for form, other in zip(forms(name, "gfx950"), (halves, plain), strict=True):
            assert form == str(other).replace("K, V buffers 2", "K, V buffers 2 via direct")
    for name in ("attention_backward", "attention_backward_causal", "attention_backward_window"):
        assert str(*forms(name, "gfx950")).count("via direct") == 2 and "direct" not in str(*forms(name, "gfx942"))
        assert "direct" not in str(*forms(name, "gfx950", {"D": 32}))  # nor has the forward pass then
        if name.endswith("window"):
            continue
        atomic, plain = forms(f"{name}_atomic", "gfx950")
        assert (plain,) == forms(name, "gfx950") and str(atomic).count("via direct") == 1 and "+=" in str(atomic)
    assert "direct" not in "".join(map(str, forms("attention", "gfx950", {"D": 32})))
    (window,) = forms("attention_window", "gfx950")
    assert "K, V buffers 2 via direct" in str(window) and "ping_pong" not in str(window)
    assert forms("linear", "gfx950") == (SPECS / "linear.tk",)


FIRST = torch.tensor([0, 17, 17, 50, 61], dtype=torch.int32)  # the second group is empty


def grouped(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.cat([F.linear(x[a:b], w) for w, a, b in zip(weight, FIRST[:-1], FIRST[1:], strict=True)])


def test_groups_of_rows_and_their_gradients() -> None:
    x, weight = normal(61, 40), normal(4, 72, 40)
    given, exact = ([t.clone().to(dtype).requires_grad_() for t in (x, weight)] for dtype in (x.dtype, torch.float64))
    found, meant = ops.grouped_linear(*given, FIRST), grouped(*exact)
    torch.testing.assert_close(found.double(), meant, rtol=2**-8, atol=1e-6)
    back = normal(61, 72, seed=5)
    found.backward(back)
    meant.backward(back.double())
    for ours, theirs in zip(given, exact, strict=True):
        assert ours.grad is not None and theirs.grad is not None
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=2**-8, atol=1e-5)
    assert given[1].grad is not None and not given[1].grad[1].any()
    with pytest.raises(ValueError, match="FIRST"):
        ops.grouped_linear(x, weight, FIRST.flip(0))


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_linear_layers_of_8_bit_floats(target: str) -> None:
    x, weight = normal(3, 30, 200), normal(70, 200)
    with ops.emulated(target):
        (q, s), (w, t) = ops.quantise(x), ops.quantise(weight)
        found = ops.scaled_linear(q, w, s, t)
        assert q.dtype is w.dtype is ops.fp8(x)
    torch.testing.assert_close(q.double() * s[..., None], x.double(), rtol=2**-4, atol=0.02)
    meant = F.linear(q.double() * s.double()[..., None], w.double() * t.double()[:, None])
    torch.testing.assert_close(found.double(), meant, rtol=2**-8, atol=1e-3)
    other = torch.float8_e4m3fn if target == "gfx942" else torch.float8_e4m3fnuz
    codes, scale = convert(w, t, other)
    with ops.emulated(target), pytest.raises(ValueError, match=r"see tkgen\.fp8\.convert"):
        ops.scaled_linear(q, codes, s, scale)


def test_another_target_computes_the_same() -> None:
    x, weight = normal(40, 64), normal(64, 64)
    with ops.emulated("gfx950"):
        other = ops.linear(x, weight)
    torch.testing.assert_close(other, ops.linear(x, weight))
    with pytest.raises(UnknownTargetError), ops.emulated("gfx1"):
        ops.linear(x, weight)


Q, KV, TABLE = normal(1, 2, 20, 64), normal(1, 2, 20, 64), torch.rand(5, 16)
OPERATORS = {
    "linear": (_linear, (normal(20, 32), normal(40, 32))),
    "matmul": (_matmul, (normal(20, 32), normal(32, 40))),
    "rmsnorm": (_rmsnorm, (normal(20, 32), normal(32), 1e-6)),
    "rotary": (_rotary, (normal(1, 3, 5, 32), TABLE, TABLE, 1.0)),
    "rotary by place": (_rotary_by_place, (normal(1, 5, 3, 32), TABLE, TABLE, 1.0)),
    "swiglu": (_swiglu, (normal(20, 32), normal(40, 32), normal(40, 32, seed=1))),
    "attention": (_attention, (Q, KV, KV + 1, 0.125, True, 0, False)),
    "grouped_linear": (_grouped_linear, (FIRST, normal(61, 40), normal(4, 72, 40))),
    "quantise": (_quantise, (normal(20, 32), torch.float8_e4m3fnuz)),
    "scaled_linear": (_scaled_linear, (*2 * [normal(20, 32).to(torch.float8_e4m3fnuz)], *2 * [torch.ones(20)])),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_what_torch_asks_of_operators(name: str) -> None:
    """Schemas, fake-tensor rules, gradients under a tracer."""
    operator, arguments = OPERATORS[name]
    given = tuple(
        a.clone().requires_grad_() if isinstance(a, torch.Tensor) and a.dtype is torch.bfloat16 else a
        for a in arguments
    )
    tests = ["test_faketensor"]
    if name not in ("quantise", "scaled_linear"):  # torch cannot compare fp8
        tests += ["test_schema", "test_autograd_registration", "test_aot_dispatch_dynamic"]
    torch.library.opcheck(operator.operator, given, test_utils=tests)


def quantised(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    (q, s), (w, t) = ops.quantise(x), ops.quantise(weight)
    return ops.scaled_linear(q, w, s, t)


def in_groups(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return ops.grouped_linear(x, weight, FIRST)


COMPILED = {name: (ours, arguments) for name, (ours, _, arguments) in CASES.items() if "=" not in name} | {
    "grouped_linear": (in_groups, (normal(61, 40), normal(4, 72, 40))),
    "scaled_linear": (quantised, (normal(3, 30, 200), normal(70, 200))),
}


@pytest.mark.parametrize("name", sampled(COMPILED, ("causal", "atomic", "causal atomic", "window")))
def test_a_compiled_operator_gives_the_same(name: str) -> None:
    """With its gradients, where it has any, and sizes that are known when it runs."""
    function, arguments = COMPILED[name]
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=True)
    if name == "scaled_linear":
        torch.testing.assert_close(compiled(*arguments), function(*arguments), rtol=0, atol=0)
        return
    meant = with_gradients(function, arguments, torch.bfloat16)
    for found, same in zip(with_gradients(compiled, arguments, torch.bfloat16), meant, strict=True):
        torch.testing.assert_close(found, same, rtol=0, atol=0)


class Block(torch.nn.Module):
    """One block of a transformer: attention with rotary places, then a gated MLP, each after a norm."""

    def __init__(self, ours: bool, width: int = 128, heads: int = 2, hidden: int = 192):
        super().__init__()
        self.ours, self.heads = ours, heads
        shapes = {
            "qkv": (3 * width, width), "out": (width, width), "gate": (hidden, width), "up": (hidden, width),
            "down": (width, hidden), "first": (width,), "second": (width,),
        }  # fmt: skip
        for name, shape in shapes.items():
            start = normal(*shape, scale=shape[-1] ** -0.5) if len(shape) == 2 else torch.ones(shape).bfloat16()
            self.register_parameter(name, torch.nn.Parameter(start))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        linear, norm, turn, mlp = (
            (ops.linear, ops.rmsnorm, ops.rotary, ops.swiglu) if self.ours else (F.linear, rms_norm, rotated, gated)
        )
        attention = attend(True)[0 if self.ours else 1]
        batch, length, width = x.shape
        angles = torch.arange(length)[:, None] / 100 ** (torch.arange(width // self.heads // 2) / 32)
        heads = linear(norm(x, self.first), self.qkv).reshape(batch, length, 3, self.heads, -1).unbind(2)
        q, k, v = (t.transpose(1, 2) for t in heads)
        o = attention(*(turn(t, angles.cos(), angles.sin()) for t in (q, k)), v)
        x = x + linear(o.transpose(1, 2).reshape(x.shape), self.out)
        return x + linear(mlp(norm(x, self.second), self.gate, self.up), self.down)


def losses(block: Block, steps: int = 3) -> list[float]:
    """The loss of each step of training to copy the place before."""
    x = normal(2, 24, 128)
    wanted = x.roll(1, 1).float()
    optimiser = torch.optim.SGD(block.parameters(), lr=0.5)
    found = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = F.mse_loss(block(x).float(), wanted)
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    return found


def test_a_transformer_block_trains_as_torchs() -> None:
    ours, torchs = losses(Block(ours=True)), losses(Block(ours=False))
    assert torchs[-1] < 0.98 * torchs[0]
    assert ours == pytest.approx(torchs, rel=2e-3)


def test_a_compiled_block_gives_the_same() -> None:
    block, x = Block(ours=True), normal(2, 24, 128)
    compiled = torch.compile(block, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), block(x))


@pytest.mark.parametrize(("call", "message"), [
    (lambda: ops.linear(normal(4, 8).float(), normal(8, 8)), "linear: x is bf16, not torch.float32"),
    (lambda: ops.linear(normal(4, 8), normal(8, 16)), r"linear: x of \[4, 8\] and a weight of \[8, 16\] do not go"),
    (lambda: ops.rmsnorm(normal(4, 8), normal(4)), "do not go together"),
    (lambda: ops.rotary(normal(1, 2, 4, 8), torch.ones(4, 3), torch.ones(4, 4)), r"rotary: cos is f32 of \[4, 4\]"),
    (lambda: ops.rotary(normal(4, 2, 8), torch.ones(4, 4), torch.ones(4, 4)), "rotary: x is"),
    (lambda: ops.swiglu(normal(4, 8), normal(8, 8), normal(16, 8)), "swiglu: x, gate and up"),
    (lambda: ops.attention(normal(1, 3, 8, 64), *2 * [normal(1, 2, 8, 64)]), "3 heads of queries cannot share 2"),
    (lambda: ops.attention(normal(1, 2, 8, 64), *2 * [normal(1, 2, 8, 32)]), "attention: q, k and v"),
    (lambda: ops.attention(normal(1, 2, 8, 64), *2 * [normal(1, 0, 8, 64)]), "2 heads of queries cannot share 0"),
    (lambda: ops.attention(*3 * [normal(1, 2, 8, 0)]), "heads without an element"),
    (lambda: ops.attention(*3 * [normal(1, 2, 8, 64)], window=4), "a window of 4 keys without `causal`"),
    (lambda: ops.attention(*3 * [normal(1, 2, 8, 64)], causal=True, window=0), "a window of 0 keys"),
])  # fmt: skip
def test_what_does_not_go_together_is_refused(call: Callable[[], torch.Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(("width", "reason"), [(272, "69632 bytes of LDS, but a block on gfx942 has 65536"),
                                               (100, "100 along `D` is not a multiple of 16")])  # fmt: skip
def test_a_width_of_heads_that_cannot_be_is_refused_with_the_reason(width: int, reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        ops.attention(*3 * [normal(1, 1, 8, width)])


@pytest.mark.parametrize("target", ["gfx942", pytest.param("gfx950", marks=pytest.mark.slow)])
@pytest.mark.parametrize("path", sample(sorted(SPECS.glob("*.tk")), 8), ids=lambda p: p.stem)
def test_its_specs_pass_without_a_word_and_spill_nothing(path: Path, target: str) -> None:
    for form in forms(path.stem, target):
        spec = tkgen.load(form, target=target)
        assert not spec.diagnostics
        built = spec.build().check()
        for kernel in built.kernels:
            assert kernel.resources.clean
            assert kernel.machine_check.outcome == "right"
