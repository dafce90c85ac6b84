"""The operators under `torch.compile`: fake rules are exact, whatever the strides; inductor's code gives the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fake_rules import VIEWS, Compared, described, same_bits, with_gradients
from sampling import sample, slow
from torch import Tensor

import tkgen
from tkgen import ops
from tkgen.targets import load_target
from tkgen.toolchain.discover import NoCompilerError, find_compiler

MOST = 0.01  # of the norm of what torch makes in f64 of the same inputs; bf16 rounds by 0.002
Function = Callable[..., Any]
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def compiler() -> None:
    try:
        find_compiler(load_target("gfx942"))
    except NoCompilerError:
        pytest.skip("no compiler for AMD GPUs")


@pytest.fixture(scope="session")
def backend() -> str:
    """Inductor, or what checks less where there is no C++ compiler for it."""
    from torch._inductor.cpp_builder import get_cpp_compiler

    try:
        get_cpp_compiler()
    except Exception as error:
        warnings.warn(f"inductor has no C++ compiler here, so aot_eager compiles: {error}", stacklevel=1)
        return "aot_eager"
    return "inductor"


@pytest.fixture
def compiled(backend: str) -> Iterator[Callable[..., Function]]:
    """`torch.compile` of a whole graph, without anything that torch kept of an earlier one."""
    from torch._inductor import config

    def made(function: Function, dynamic: bool | None = None, by: str = backend) -> Function:
        torch._dynamo.reset()
        return torch.compile(function, backend=by, fullgraph=True, dynamic=dynamic)

    with config.patch(force_disable_caches=True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*force disabled.*")
        yield made
    torch._dynamo.reset()


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return (scale * torch.randn(*shape, generator=generator)).bfloat16()


# ---------------------------------------------------------------- each operator


@dataclass(frozen=True)
class Case:
    """An operator, torch's in f64, its inputs, and what tkgen calls for it and its gradient."""

    ours: Function
    torchs: Function
    inputs: tuple[Tensor, ...]
    called: tuple[str, ...]
    learns: bool = True
    most: float = MOST


ANGLES = torch.arange(6)[:, None] / torch.arange(1, 9)
FIRST = [0, 7, 7, 16]


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(x, weight.shape, weight, 1e-6)


def rotate(x: Tensor) -> Tensor:
    return ops.rotary(x, ANGLES.cos(), ANGLES.sin())


def rotated(x: Tensor) -> Tensor:
    (a, b), c, s = x.chunk(2, -1), ANGLES.cos().to(x), ANGLES.sin().to(x)
    return torch.cat([a * c - b * s, b * c + a * s], -1)


def gated(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, window: int = 100) -> Tensor:
    seen = torch.ones(q.shape[2], k.shape[2]).bool()
    seen = seen.tril().triu(1 - window) if causal else seen
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)


def grouped(x: Tensor, weight: Tensor) -> Tensor:
    return ops.grouped_linear(x, weight, torch.tensor(FIRST, dtype=torch.int32))


def in_groups(x: Tensor, weight: Tensor) -> Tensor:
    return torch.cat([F.linear(x[a:b], w) for a, b, w in zip(FIRST, FIRST[1:], weight, strict=False)])


def quantised(x: Tensor, weight: Tensor) -> Tensor:
    (q, s), (w, t) = ops.quantise(x), ops.quantise(weight)
    return ops.scaled_linear(q, w, s, t)


HEADS = normal(2, 4, 8, 16), normal(2, 2, 8, 16, seed=1), normal(2, 2, 8, 16, seed=2)
ONE = normal(1, 2, 9, 16), normal(1, 2, 9, 16, seed=1), normal(1, 2, 9, 16, seed=2)
WIDE = normal(2, 4, 8, 64), normal(2, 2, 10, 64, seed=1), normal(2, 2, 10, 64, seed=2)
GATED = normal(2, 5, 16), normal(24, 16), normal(24, 16, seed=1)
CASES = {
    "linear": Case(
        ops.linear, F.linear, (normal(2, 5, 16), normal(24, 16)), ("linear", "linear_input", "linear_weight")
    ),
    "matmul": Case(ops.matmul, torch.matmul, (normal(2, 5, 16), normal(16, 24)), ("matmul", "linear", "linear_weight")),
    "rmsnorm": Case(
        ops.rmsnorm, rms_norm, (normal(2, 5, 16), normal(16)), ("rmsnorm", "rmsnorm_input", "rmsnorm_weight")
    ),
    "rotary": Case(rotate, rotated, (normal(2, 2, 6, 16),), ("rotary", "rotary")),
    "swiglu": Case(
        ops.swiglu, gated, GATED, ("swiglu", "swiglu_products", *("linear_input",) * 2, *("linear_weight",) * 2)
    ),
    "attention": Case(ops.attention, attend, HEADS, ("attention", "attention_backward")),
    "causal": Case(
        lambda q, k, v: ops.attention(q, k, v, True), lambda q, k, v: attend(q, k, v, True), ONE,
        ("attention", "attention_backward"),
    ),
    "window": Case(
        lambda q, k, v: ops.attention(q, k, v, True, window=3), lambda q, k, v: attend(q, k, v, True, 3), HEADS,
        ("attention", "attention_backward"),
    ),
    "atomic": Case(
        lambda q, k, v: ops.attention(q, k, v, deterministic=False), attend, WIDE, ("attention", "attention_backward")
    ),
    "grouped_linear": Case(
        grouped, in_groups, (normal(16, 16), normal(3, 24, 16)),
        ("grouped_linear", "grouped_linear_input", "grouped_linear_weight"),
    ),
    "scaled_linear": Case(
        quantised, F.linear, (normal(2, 5, 32), normal(24, 32)), ("quantise", "quantise", "scaled_linear"), False, 0.06
    ),
}  # fmt: skip


def given(case: Case, view: str) -> list[Tensor]:
    return [VIEWS[view](t).detach().requires_grad_(case.learns) for t in case.inputs]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", sample([slow(n) if n in ("window", "atomic") else n for n in CASES], 2))
def test_fake_rules_are_exact_and_numbers_right(name: str, view: str) -> None:
    """Of each operator and its gradient: shapes, strides, offsets, types; the numbers are torch's in f64."""
    case = CASES[name]
    inputs = given(case, view)
    with Compared() as calls:
        found = with_gradients(case.ours, inputs, VIEWS[view])
    assert tuple(name.removesuffix("_by_place") for name in calls.names) == case.called
    exact = [t.detach().double().requires_grad_(case.learns) for t in inputs]
    for place, (ours, theirs) in enumerate(zip(found, with_gradients(case.torchs, exact, VIEWS[view]), strict=True)):
        assert (ours.double() - theirs).norm() <= case.most * theirs.norm(), f"result {place}"


NOTHING: list[tuple[str, tuple[Tensor, ...]]] = [
    ("linear", (normal(0, 16), normal(24, 16))),
    ("linear", (normal(5, 16), normal(0, 16))),
    ("linear", (normal(2, 5, 0), normal(24, 0))),
    ("matmul", (normal(5, 16), normal(16, 0))),
    ("rmsnorm", (normal(2, 0, 16), normal(16))),
    ("rotary", (normal(0, 2, 6, 16),)),
    ("swiglu", (normal(0, 16), normal(24, 16), normal(24, 16))),
    ("attention", (normal(2, 4, 0, 16), *HEADS[1:])),
    ("attention", (HEADS[0], normal(2, 2, 0, 16), normal(2, 2, 0, 16))),
    ("causal", tuple(normal(0, 2, 9, 16) for _ in range(3))),
    ("scaled_linear", (normal(0, 32), normal(24, 32))),
]


@pytest.mark.parametrize(("name", "inputs"), NOTHING)
def test_sums_over_nothing_are_zero(name: str, inputs: tuple[Tensor, ...]) -> None:
    """Gradients, too."""
    case = CASES[name]
    with Compared():
        found = with_gradients(case.ours, [t.requires_grad_(case.learns) for t in inputs], VIEWS["plain"])
    wanted = case.torchs(*(t.detach().double() for t in inputs)).shape
    assert [t.shape for t in found] == [wanted, *(t.shape for t in inputs if case.learns)]
    assert not any(t.count_nonzero() for t in found)


def test_each_operator_has_a_case() -> None:
    every = {n.partition("::")[2] for n in torch._C._dispatch_get_all_op_names() if n.startswith("tkgen_ops::")}
    every = {name.removesuffix("_by_place") for name in every}  # rotary of heads after the length is the same case
    assert every == {name for case in CASES.values() for name in case.called}


LOOKS = [("columns first", False), ("third dimension second", True)]  # dynamic sizes with the latter
SLOW = [(view, dynamic) for view in VIEWS for dynamic in (False, True) if (view, dynamic) not in LOOKS]
SAMPLED = ("rmsnorm", "causal")


def compared(compiled: Callable[..., Function], case: Case, view: str, dynamic: bool) -> None:
    ours = with_gradients(case.ours, given(case, view), VIEWS[view])
    found = with_gradients(compiled(case.ours, dynamic), given(case, view), VIEWS[view])
    for place, (a, b) in enumerate(zip(found, ours, strict=True)):
        assert described(a) == described(b) and same_bits(a, b), f"result {place}"


@pytest.mark.parametrize("name", SAMPLED)
def test_compiled_operators_of_views_give_the_same_bits(name: str, compiled: Callable[..., Function]) -> None:
    """With their gradients."""
    view, dynamic = LOOKS[name == "causal"]
    compared(compiled, CASES[name], view, dynamic)


@pytest.mark.slow
@pytest.mark.parametrize(("view", "dynamic"), [*LOOKS, *SLOW])
@pytest.mark.parametrize("name", CASES)
def test_compiled_operators_of_all_views_give_the_same_bits(
    name: str, view: str, dynamic: bool, compiled: Callable[..., Function]
) -> None:
    compared(compiled, CASES[name], view, dynamic)


# ---------------------------------------------------------------- a block


class Block(torch.nn.Module):
    """A block of a transformer, without a copy: heads are views of one projection."""

    def __init__(self, width: int = 32, heads: int = 2, hidden: int = 48):
        super().__init__()
        self.heads = heads
        shapes = {
            "qkv": (3 * width, width), "out": (width, width), "gate": (hidden, width), "up": (hidden, width),
            "down": (width, hidden), "first": (width,), "second": (width,),
        }  # fmt: skip
        for seed, (name, shape) in enumerate(shapes.items()):
            start = normal(*shape, seed=seed, scale=shape[-1] ** -0.5) if len(shape) == 2 else 1 + normal(*shape) / 8
            self.register_parameter(name, torch.nn.Parameter(start))

    def forward(self, x: Tensor, ours: bool = True) -> Tensor:
        linear, norm, turn, mlp = (
            (ops.linear, ops.rmsnorm, ops.rotary, ops.swiglu) if ours else (F.linear, rms_norm, turned, gated)
        )
        batch, length, width = x.shape
        angles = torch.arange(length)[:, None] / 100 ** (torch.arange(width // self.heads // 2) / 8)
        q, k, v = linear(norm(x, self.first), self.qkv).reshape(batch, length, 3, self.heads, -1).unbind(2)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        heads = [*(turn(t, angles.cos(), angles.sin()) for t in (q, k)), v]
        o = ops.attention(*heads, causal=True) if ours else attend(*heads, causal=True)
        x = x + linear(o.transpose(1, 2).reshape(x.shape), self.out)
        return x + linear(mlp(norm(x, self.second), self.gate, self.up), self.down)


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    (a, b), c, s = x.chunk(2, -1), cos.to(x), sin.to(x)
    return torch.cat([a * c - b * s, b * c + a * s], -1)


@pytest.mark.parametrize(("dynamic", "whole"), [(False, False), slow(False, True), slow(True, True)])
def test_a_compiled_block_is_torchs_in_f64(
    dynamic: bool, whole: bool, backend: str, compiled: Callable[..., Function]
) -> None:
    """Forward and backward, of a sequence that is itself a view; `whole` with the C++ of inductor, which takes long."""
    block, x = Block(), normal(6, 2, 32).transpose(0, 1)
    exact = Block().double()
    exact.load_state_dict({name: t.double() for name, t in block.state_dict().items()})

    def results(of: Function, module: Block, x: Tensor) -> dict[str, Tensor]:
        module.zero_grad()
        x = x.detach().requires_grad_()
        y = of(x)
        y.backward(normal(*y.shape, seed=5).to(y))
        assert x.grad is not None
        return {"y": y.detach(), "x": x.grad, **{n: p.grad for n, p in module.named_parameters()}}  # type: ignore[dict-item]

    found = results(compiled(block, dynamic, backend if whole else "aot_eager"), block, x)
    eager = results(block, block, x)
    meant = results(lambda x: exact(x, ours=False), exact, x.double())
    assert list(found) == list(meant)
    for name, exactly in meant.items():
        for ours in (found[name], eager[name]):
            assert (ours.double() - exactly).norm() <= 0.02 * exactly.norm(), name


# ---------------------------------------------------------------- operators that users make

OFFSETS = torch.tensor([0, 20, 20, 64], dtype=torch.int32)
USERS: dict[str, tuple[dict[str, int], tuple[Tensor, ...]]] = {
    "quantise/quantise_int8": ({"TOKENS": 8, "D": 256}, (normal(8, 256),)),
    "quantise/mxfp4_rows": ({"TOKENS": 8, "BLOCKS": 8}, (normal(8, 8, 32),)),
    "rows/rmsnorm": ({"TOKENS": 8, "D": 256}, (normal(8, 256), normal(8, 256, seed=1), normal(256))),
    "rows/transpose": ({"ROWS": 64, "COLS": 128}, (normal(64, 128),)),
    "alpha_beta": ({"M": 128, "N": 128, "K": 64}, (normal(128, 64), normal(128, 64, seed=1), normal(128, 128).float())),
    "sequences/split_k_gelu": (
        {"TOKENS": 128, "OUT": 128, "IN": 512, "PARTS": 2}, (normal(128, 512), normal(128, 512, seed=1), normal(128))
    ),
    "hopper/h100_split_k_gelu": (
        {"TOKENS": 100, "OUT": 264, "IN": 1024}, (normal(100, 1024), normal(264, 1024, seed=1), normal(264))
    ),
    "groups/grouped_weights": (
        {"TOKENS": 64, "EXPERTS": 3, "OUT": 128, "IN": 128}, (OFFSETS, normal(64, 128), normal(64, 128, seed=1))
    ),
    "attention/attention": (
        {"BATCH": 1, "HEADS": 2, "LENGTH": 64, "D": 64}, tuple(normal(1, 2, 64, 64, seed=n) for n in range(3))
    ),
    "hopper/h100_rmsnorm": ({"TOKENS": 8, "D": 256}, (normal(8, 256), normal(8, 256, seed=1), normal(256))),
    "hopper/h100_swiglu": (
        {"TOKENS": 128, "HIDDEN": 128, "D": 64}, (normal(128, 64), *(normal(128, 64, seed=n) for n in (1, 2)))
    ),
}  # fmt: skip


def made(name: str) -> tuple[Function, tuple[Tensor, ...]]:
    """An operator of a shipped spec, and its inputs."""
    sizes, inputs = USERS[name]
    build = tkgen.load(ROOT / f"specs/{name}.tk", sizes).check().build()
    return tkgen.operator(build, name.split("/")[-1] + "_compiled"), inputs


def seen(inputs: Sequence[Tensor], view: str) -> list[Tensor]:
    return [VIEWS[view](t) if t.is_floating_point() else t for t in inputs]


def flat(results: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.parametrize("name", [slow(n) if n == "hopper/h100_split_k_gelu" else n for n in USERS])
def test_fake_rules_of_users_operators_are_exact(name: str) -> None:
    operator, inputs = made(name)
    for view in VIEWS:
        with Compared() as calls:
            found = flat(operator(*seen(inputs, view)))
        assert len(calls.names) == 1
        whole = flat(operator(*(t.contiguous() for t in seen(inputs, view))))
        assert all(same_bits(a, b) for a, b in zip(found, whole, strict=True)), view


FEW = ("rows/transpose", "hopper/h100_rmsnorm")


@pytest.mark.parametrize("name", [n if n in FEW else pytest.param(n, marks=pytest.mark.slow) for n in USERS])
def test_compiled_operators_of_users_give_the_same_bits(name: str, compiled: Callable[..., Function]) -> None:
    """Also of inputs that want a gradient; that there is none is said when the backward pass runs, and not before."""
    operator, inputs = made(name)
    views = [t.requires_grad_(t.is_floating_point()) for t in seen(inputs, "columns first")]
    found = flat(compiled(lambda *given: operator(*given))(*views))
    for a, b in zip(found, flat(operator(*views)), strict=True):
        assert described(a) == described(b) and same_bits(a.detach(), b.detach())
    wanted = [t for t in found if t.requires_grad and t.element_size() > 1]
    with pytest.raises(RuntimeError, match=f"{name.split('/')[-1]}_compiled has no gradient"):
        torch.autograd.backward(wanted, [torch.ones_like(t) for t in wanted])


@pytest.mark.parametrize("name", ["linear", "rmsnorm", "swiglu", "attention"])
def test_a_gradient_of_a_gradient_is_refused(name: str) -> None:
    """And not left out of a sum."""
    case = CASES[name]
    inputs = given(case, "plain")
    slopes = torch.autograd.grad(case.ours(*inputs).float().pow(2).sum(), inputs, create_graph=True)
    with pytest.raises(RuntimeError, match="has no gradient"):
        sum(s.float().pow(2).sum() for s in slopes).backward()  # type: ignore[union-attr]
