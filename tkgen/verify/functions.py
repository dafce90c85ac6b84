"""The primitive operations of torch over payloads, each with its rule.

Torch decomposes other operations into these where it knows how (its table of decompositions); an operation that is left
is an `UnsupportedError` that names it. The functions of the second table are decomposed here, before torch does it with
other constants. exp, sigmoid and functions of them are powers of two of a multiple of the argument, by the f32
constants of the generated code; tanh, erf and gelu are the formulas of `tkgen.ir.functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt
from typing import Any, Final

import torch
import torch.nn.functional as nn
from torch import Tensor
from torch.utils import _pytree as trees

from tkgen.ir.functions import FUNCTIONS
from tkgen.ir.functions.definitions.waves import LOW, TURNS
from tkgen.verify import field, ring
from tkgen.verify.field import P
from tkgen.verify.ring import Planes, Ring, UnsupportedError, numeric, planes, truth

aten = torch.ops.aten
Rule = Callable[..., Any]


def dispatched(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One operation of torch."""
    packet = func.overloadpacket
    if packet in RULES:
        return RULES[packet](*args, **kwargs)
    name = packet.__name__
    if packet in MOVES:
        return _moved(func, args, kwargs)
    if name.endswith("_") and hasattr(aten, name[:-1]):  # in place: computed, then copied
        return _copied(args[0], dispatched(getattr(getattr(aten, name[:-1]), func._overloadname), args, kwargs))
    taken = func.decompose(*args, **kwargs)
    if taken is not NotImplemented:
        return taken
    from torch._decomp import decomposition_table  # takes seconds to read

    if func in decomposition_table:
        return decomposition_table[func](*args, **kwargs)
    raise UnsupportedError(f"torch's `{name}` is not known to the algebra of `tkgen verify`")


def _moved(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply a function that only moves elements to each plane."""
    flat, shape = trees.tree_flatten((args, kwargs))
    tensors = [x for x in flat if isinstance(x, Tensor) and not _is_place(x)]
    held = planes if all(planes(x).real.dtype is torch.bool for x in tensors) else numeric

    def plane(name: str) -> Any:
        own = [
            getattr(held(x), name) if isinstance(x, Tensor) and not _is_place(x) else _places(x) for x in flat
        ]  # fmt: skip
        found_args, found_kwargs = trees.tree_unflatten(own, shape)
        return func(*found_args, **found_kwargs)

    names = ("real", "error", "unsure", "p", "q")
    results = [plane(name) for name in names]
    if isinstance(results[0], Tensor):
        return Ring(Planes(*results))
    return [Ring(Planes(*parts)) for parts in zip(*results, strict=True)]


def _is_place(x: Tensor) -> bool:
    """Return True if a tensor says where, not what."""
    return not isinstance(x, Ring) and not x.is_floating_point() and x.dtype is not torch.bool


def _places(x: Any) -> Any:
    return x.reals.long() if isinstance(x, Ring) else x


def _copied(target: Any, value: Any, *_: Any) -> Ring:
    """Into the memory of a tensor, which may be a part of another."""
    if not isinstance(target, Ring):
        message = "a tensor that no input has a part in is written to in place: make it with zeros_like or new_zeros"
        raise UnsupportedError(message)
    found = numeric(value) if target.planes.real.dtype is not torch.bool else planes(value)
    for name in ("real", "error", "unsure", "p", "q"):
        getattr(target.planes, name).copy_(getattr(found, name))
    return target


def _number(x: Any) -> Any:
    """A truth, or a number that is what it is, as Python's. Of others nothing would be known."""
    found = planes(x)
    if found.real.dtype is not torch.bool and bool((found.p != field.image(found.real, P)).any()):
        raise UnsupportedError("a number of a tensor is taken out of it (`item`, `float`, `if`): keep it in a tensor")
    return found.real.item()


# ---------------------------------------------------------------- elements


def _one(rule: Callable[[Planes], Tensor]) -> Rule:
    return lambda x, **_: rule(numeric(x))


def _add(a: Any, b: Any, alpha: float = 1) -> Ring:
    return ring.added(numeric(a), numeric(b) if alpha == 1 else numeric(_mul(b, alpha)))


def _sub(a: Any, b: Any, alpha: float = 1) -> Ring:
    return ring.subtracted(numeric(a), numeric(b) if alpha == 1 else numeric(_mul(b, alpha)))


def _mul(a: Any, b: Any) -> Tensor:
    if all(isinstance(x, Tensor) and x.dtype is torch.bool for x in (a, b)):
        both: Tensor = _both(a, b)
        return both
    return ring.product(numeric(a), numeric(b))


def _div(a: Any, b: Any, rounding_mode: str | None = None) -> Tensor:
    found: Tensor = ring.quotient(numeric(a), numeric(b))
    return found if rounding_mode is None else {"floor": torch.floor, "trunc": torch.trunc}[rounding_mode](found)


def _exponential(x: Planes) -> Tensor:
    return ring.power(ring.product(x, ring.log2e()).planes)


def _log(x: Planes) -> Tensor:
    return ring.product(ring.uninterpreted("log2", x).planes, ring.ln2())


def _sigmoid(x: Planes) -> Tensor:
    return ring.reciprocal(ring.added(numeric(1.0), _exponential(ring.negated(x).planes).planes).planes)  # type: ignore[attr-defined]


def _turned(name: str, x: Planes) -> Tensor:
    """sin and cos, of the part of a turn to which the code reduces radians."""
    turns, rest = ring.product(x, numeric(TURNS)).planes, ring.product(x, numeric(LOW)).planes
    part = ring.subtracted(turns, ring.whole(turns, torch.round).planes).planes
    return ring.uninterpreted(name, x, ring.added(part, rest).planes)


def _power(x: Any, exponent: Any) -> Tensor:
    if isinstance(exponent, Tensor) and not isinstance(exponent, Ring) and exponent.dim() == 0:
        exponent = exponent.item()
    if isinstance(exponent, Tensor):
        if not isinstance(x, Ring) and bool(torch.all(torch.as_tensor(x) == 2)):
            return ring.power(numeric(exponent))
    elif exponent in (0.5, -0.5):
        return ring.uninterpreted("sqrt" if exponent > 0 else "rsqrt", numeric(x))
    elif exponent == int(exponent) and abs(exponent) <= 64:
        found: Tensor = ring.plain(torch.ones(numeric(x).real.shape, dtype=torch.float64))
        for _ in range(abs(int(exponent))):
            found = found * x
        return found if exponent >= 0 else found.reciprocal()
    raise UnsupportedError("a power is known to the algebra of 2, or with a whole exponent or a half")


def _clamp(x: Any, min: Any = None, max: Any = None) -> Tensor:
    for bound, least in ((min, False), (max, True)):
        if bound is not None:
            x = _most(x, bound, least)
    found: Tensor = x
    return found


def _most(a: Any, b: Any, least: bool, numbers: bool = False) -> Tensor:
    """The larger (or smaller) one; of a number and NaN that, or the number."""
    one, other = numeric(a), numeric(b)
    found: Tensor = ring.extreme(one, other, least)
    nan = one.real.isnan() | other.real.isnan()
    if not numbers and bool(nan.any()):
        found = torch.where(nan, torch.nan, found)
    return found


def _nan_to_num(x: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    real = numeric(x).real
    found = torch.where(real.isnan(), 0.0 if nan is None else nan, x)
    most = torch.finfo(torch.float32).max
    found = torch.where(real == torch.inf, most if posinf is None else posinf, found)
    return torch.where(real == -torch.inf, -most if neginf is None else neginf, found)


def _rounding(to: Callable[[Tensor], Tensor]) -> Rule:
    return lambda x, **_: ring.whole(numeric(x), to)


def _sign_of(x: Any, sign: Any) -> Tensor:
    """The first one's magnitude with the second one's sign."""
    magnitude, other = ring.magnitude(numeric(x)), numeric(sign)
    unsure = (other.real.abs() <= other.error) & (other.error > 0)
    negative = Planes(other.real.signbit(), other.error, other.unsure | unsure, other.p, other.q)
    return ring.chosen(negative, ring.negated(magnitude.planes).planes, magnitude.planes)


def _sign(x: Any) -> Tensor:
    """Minus one, zero or one."""
    found = numeric(x)
    unsure = found.unsure | (found.real.abs() <= found.error) & (found.error > 0)
    made = ring.plain(found.real.sign()).planes
    return Ring(Planes(made.real, made.error, unsure, made.p, made.q))


def _frexp(x: Any) -> tuple[Tensor, Tensor]:
    """Mantissas and exponents, which are plain numbers."""
    found = numeric(x)
    mantissa, exponent = torch.frexp(found.real)
    ends = [torch.frexp(found.real + sign * found.error).exponent for sign in (-1, 1)]
    unsure = found.unsure | (ends[0] != exponent) | (ends[1] != exponent)
    made = [ring.plain(x).planes for x in (mantissa, exponent)]
    first, second = (Ring(Planes(m.real, m.error, unsure, m.p, m.q)) for m in made)
    return first, second


def _where(condition: Any, a: Any = None, b: Any = None) -> Ring:
    one, other = planes(a), planes(b)
    if torch.bool not in (one.real.dtype, other.real.dtype) or one.real.dtype is not other.real.dtype:
        one, other = numeric(a), numeric(b)
    return ring.chosen(planes(condition), one, other)


def _filled(x: Any, mask: Any, value: Any) -> Ring:
    return _where(mask, value, x)


def _cast(x: Any, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    """To a type: the payload stays."""
    if dtype is None or dtype is torch.float64:
        return Ring(numeric(x).each(lambda t: t.clone())) if planes(x).real.dtype is not torch.bool else x.clone()
    if dtype is torch.bool:
        found: Tensor = x if planes(x).real.dtype is torch.bool else x != 0
        return found
    if planes(x).real.dtype is torch.bool:
        return Ring(numeric(x))
    if dtype.is_floating_point:
        return ring.rounded(numeric(x), lambda t: t.float().to(dtype))
    info = torch.iinfo(dtype)
    return ring.whole(numeric(x), lambda t: t.nan_to_num(0).trunc().clamp(info.min, info.max))


# ---------------------------------------------------------------- truths


def _compares(name: str) -> Rule:
    return lambda a, b: ring.compared(name, numeric(a), numeric(b))


def _asks(of: Callable[[Tensor], Tensor]) -> Rule:
    return lambda x: truth(of(numeric(x).real), numeric(x).unsure)


def _logic(of: Callable[[Tensor, Tensor], Tensor]) -> Rule:
    def rule(a: Any, b: Any) -> Tensor:
        one, other = planes(a), planes(b)
        first, second = (x.real.bool() for x in (one, other))
        value = of(first, second)
        # what the other decides alone is decided
        turned = (of(~first, second) != value) & one.unsure | (of(first, ~second) != value) & other.unsure
        turned = turned | (of(~first, ~second) != value) & one.unsure & other.unsure
        return truth(value, turned)

    return rule


_both = _logic(torch.logical_and)


def _not(x: Any) -> Tensor:
    return truth(~planes(x).real.bool(), planes(x).unsure)


def _some(x: Any, dim: Any = None, keepdim: bool = False, every: bool = False) -> Tensor:
    """Return whether any, or `every`, element along the dimensions is true."""
    if every:
        return _not(_some(_not(x), dim, keepdim))
    found = planes(x)
    at = list(range(found.real.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    value = found.real != 0
    sure, open_ = value & ~found.unsure, found.unsure
    value, sure, open_ = (torch.amax(t, at, keepdim) if at else t for t in (value, sure, open_))
    return truth(value, open_ & ~sure)


# ---------------------------------------------------------------- along directions


def _dims(x: Planes, dim: Any) -> list[int]:
    """Return the dimensions of an argument `dim`, the last one first."""
    n = x.real.dim()
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return list(range(n - 1, -1, -1))
    return sorted((d % n for d in ([dim] if isinstance(dim, int) else dim)), reverse=True) if n else []


def _along(x: Any, dim: Any, keepdim: bool, rule: Callable[[Planes, int], Ring]) -> Ring:
    found = numeric(x)
    dims = _dims(found, dim)
    for d in dims:
        found = rule(found, d).planes
    if keepdim:
        for d in reversed(dims):
            found = found.each(lambda t, d=d: t.unsqueeze(d))  # type: ignore[misc]
    return Ring(found)


def _sum(x: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Ring:
    return _along(x, dim, keepdim, ring.summed)


def _mean(x: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Tensor:
    count = 1
    for d in _dims(numeric(x), dim):
        count *= numeric(x).real.shape[d]
    return _sum(x, dim, keepdim) / count


def _variance(x: Any, dim: Any = None, correction: float | None = None, keepdim: bool = False, **_: Any) -> Tensor:
    found, count = numeric(x), 1
    for d in _dims(found, dim):
        count *= found.real.shape[d]
    off = Ring(found) - _mean(x, dim, True)
    return _sum(off * off, dim, keepdim) / (count - (1 if correction is None else correction))


def _extremes(least: bool) -> Rule:
    return lambda x, dim=None, keepdim=False: _along(x, dim, keepdim, lambda p, d: ring.reduced(p, d, least))


def _with_places(least: bool) -> Rule:
    def rule(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        found = _extremes(least)(x, dim, keepdim)
        if dim is None:
            return found
        real = numeric(x).real
        return found, (real.argmin(dim, keepdim) if least else real.argmax(dim, keepdim))

    return rule


def _running_sum(x: Any, dim: int, **_: Any) -> Ring:
    found = numeric(x)
    n = found.real.shape[dim]
    lower = torch.ones(n, n, dtype=torch.float64).triu()
    moved = found.each(lambda t: t.movedim(dim, -1))
    flat = moved.each(lambda t: t.reshape(1, -1, n))
    summed = ring.multiplied(flat.each(lambda t: t), numeric(lower).each(lambda t: t[None])).planes
    return Ring(summed.each(lambda t: t.reshape(moved.real.shape).movedim(-1, dim)))


# ---------------------------------------------------------------- products


def _matmul(a: Any, b: Any) -> Ring:
    return ring.multiplied(numeric(a), numeric(b))


def _matrix_vector(a: Any, b: Any) -> Tensor:
    return _matmul(a, torch.unsqueeze(b, -1)).squeeze(-1)


def _dot(a: Any, b: Any) -> Tensor:
    return _sum(_mul(a, b))


def _add_product(x: Any, a: Any, b: Any, beta: float = 1, alpha: float = 1) -> Tensor:
    found: Tensor = _matmul(a, b)
    found = found if alpha == 1 else found * alpha
    return found if beta == 0 else found + (x if beta == 1 else x * beta)


# ---------------------------------------------------------------- memory


def _filler(value: float | None, like: bool) -> Rule:
    """A tensor full of a value, or of the argument for it: as large as another one, or of a size that is given."""

    def rule(x: Any, *rest: Any, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
        size, rest = (x.shape, rest) if like else (tuple(rest[0]), rest[1:])
        filler = value if value is not None else rest[0]
        if dtype is torch.bool or (dtype is None and x.dtype is torch.bool):
            return torch.full(size, bool(filler))
        return ring.plain(torch.full(size, float(filler), dtype=torch.float64))

    return rule


_like, _new = partial(_filler, like=True), partial(_filler, like=False)


def _padded(x: Any, pad: Sequence[int], value: float = 0.0) -> Ring:
    found, filler = numeric(x), numeric(float(value))
    of = {name: getattr(filler, name).item() for name in ("real", "error", "unsure", "p", "q")}
    made = (aten.constant_pad_nd(getattr(found, name), pad, of[name]) for name in of)
    return Ring(Planes(*made))


def _reshaped(x: Any, shape: Sequence[int]) -> Ring:
    return Ring(planes(x).each(lambda t: t.reshape(tuple(shape))))


def _strided(x: Any, size: Sequence[int], stride: Sequence[int], offset: int = 0) -> Ring:
    return Ring(planes(x).each(lambda t: t.contiguous().as_strided(size, stride, offset)))


def _layer_norm(x: Any, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Any:
    dims = list(range(-len(shape), 0))
    mean = _mean(x, dims, True)
    scale = torch.rsqrt(_variance(x, dims, 0, True) + eps)
    found = (x - mean) * scale
    found = found if weight is None else found * weight
    return (found if bias is None else found + bias), mean, scale


# ---------------------------------------------------------------- functions taken apart here


def _attention(
    q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """Attention as it is written: torch's own would scale both factors by a root."""
    if dropout_p:
        raise UnsupportedError("dropout is random: it is not known to the algebra")
    if enable_gqa:
        k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    s = (q @ k.transpose(-1, -2)) * (1 / sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    if attn_mask is not None:
        s = s.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype is torch.bool else s + attn_mask
    found: Tensor = torch.softmax(s, -1) @ v
    return found


def _rms_norm(x: Any, shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Tensor:
    dims = list(range(-len(shape), 0))
    small = torch.finfo(torch.float32).eps if eps is None else eps
    found: Tensor = x * torch.rsqrt(_mean(x * x, dims, True) + small) * (1 if weight is None else weight)
    return found


def _gelu(x: Any, approximate: str = "none") -> Tensor:
    found: Tensor = _formula("gelu" if approximate == "none" else "gelu_tanh")(x)
    return found


def _softmax(x: Any, dim: int, *_: Any, dtype: Any = None, _stacklevel: int = 3) -> Tensor:
    e = torch.exp(x - torch.amax(x, dim, keepdim=True))
    found: Tensor = e / e.sum(dim, keepdim=True)
    return found


def _log_softmax(x: Any, dim: int, *_: Any, dtype: Any = None, _stacklevel: int = 3) -> Tensor:
    off = x - torch.amax(x, dim, keepdim=True)
    found: Tensor = off - torch.exp(off).sum(dim, keepdim=True).log()
    return found


COMPOSED: Final[dict[Any, Rule]] = {
    nn.scaled_dot_product_attention: _attention,
    nn.rms_norm: _rms_norm,
    torch.rms_norm: _rms_norm,
    nn.gelu: _gelu,
    torch.isfinite: _asks(torch.isfinite),
    Tensor.isfinite: _asks(torch.isfinite),
}


def _formula(name: str) -> Rule:
    f = FUNCTIONS[name]
    return lambda x: (f.ring or f.meaning)(x)


RULES: Final[dict[Any, Rule]] = {
    aten.add: _add, aten.sub: _sub, aten.mul: _mul, aten.div: _div, aten.true_divide: _div,
    aten.rsub: lambda a, b, alpha=1: _sub(b, a, alpha), aten.neg: _one(ring.negated),
    aten.reciprocal: _one(ring.reciprocal), aten.square: lambda x: _mul(x, x), aten.pow: _power,
    aten.exp2: _one(ring.power), aten.exp: _one(_exponential), aten.sigmoid: _one(_sigmoid),
    aten.expm1: lambda x: torch.exp(x) - 1.0, aten.log1p: lambda x: torch.log(x + 1.0),
    aten.log2: _one(partial(ring.uninterpreted, "log2")), aten.log: _one(_log),
    aten.sqrt: _one(partial(ring.uninterpreted, "sqrt")), aten.rsqrt: _one(partial(ring.uninterpreted, "rsqrt")),
    aten.sin: _one(partial(_turned, "sin")), aten.cos: _one(partial(_turned, "cos")),
    aten.tanh: _formula("tanh"), aten.erf: _formula("erf"), aten.silu: _formula("silu"), aten.gelu: _gelu,
    aten.relu: lambda x: _clamp(x, 0.0),
    aten.maximum: partial(_most, least=False), aten.minimum: partial(_most, least=True),
    aten.fmax: partial(_most, least=False, numbers=True), aten.fmin: partial(_most, least=True, numbers=True),
    aten.clamp: _clamp, aten.clamp_min: lambda x, m: _clamp(x, m), aten.clamp_max: lambda x, m: _clamp(x, None, m),
    aten.nan_to_num: _nan_to_num, aten.abs: _one(ring.magnitude), aten.copysign: _sign_of, aten.sign: _sign,
    aten.round: _rounding(torch.round), aten.floor: _rounding(torch.floor), aten.ceil: _rounding(torch.ceil),
    aten.trunc: _rounding(torch.trunc), aten.frexp: _frexp, aten.where: _where, aten.masked_fill: _filled,
    aten._to_copy: _cast, aten.copy_: _copied,
    aten.lt: _compares("lt"), aten.le: _compares("le"), aten.gt: _compares("gt"), aten.ge: _compares("ge"),
    aten.eq: _compares("eq"), aten.ne: _compares("ne"), aten.isnan: _asks(torch.isnan), aten.isinf: _asks(torch.isinf),
    aten.isfinite: _asks(torch.isfinite), aten.signbit: _asks(torch.signbit),
    aten.bitwise_and: _both, aten.logical_and: _both,
    aten.bitwise_or: _logic(torch.logical_or), aten.logical_or: _logic(torch.logical_or),
    aten.bitwise_xor: _logic(torch.logical_xor), aten.bitwise_not: _not, aten.logical_not: _not,
    aten.any: _some, aten.all: partial(_some, every=True),
    aten.sum: _sum, aten.mean: _mean, aten.var: _variance, aten.amax: _extremes(False), aten.amin: _extremes(True),
    aten.std: lambda *a, **k: torch.sqrt(_variance(*a, **k)),
    aten.var_mean: lambda x, dim=None, **k: (_variance(x, dim, **k), _mean(x, dim, k.get("keepdim", False))),
    aten.max: _with_places(False), aten.min: _with_places(True), aten.cumsum: _running_sum,
    aten.argmax: lambda x, *a, **k: numeric(x).real.argmax(*a, **k),
    aten._softmax: _softmax, aten._log_softmax: _log_softmax, aten.logsumexp: lambda x, dim, keepdim=False: (
        torch.exp(x - torch.amax(x, dim, True)).sum(dim, keepdim).log() + torch.amax(x, dim, keepdim)
    ),
    aten.mm: _matmul, aten.bmm: _matmul, aten.mv: _matrix_vector, aten.dot: _dot, aten.addmm: _add_product,
    aten.baddbmm: _add_product, aten.native_layer_norm: _layer_norm,
    aten.zeros_like: _like(0.0), aten.ones_like: _like(1.0), aten.full_like: _like(None), aten.empty_like: _like(0.0),
    aten.new_zeros: _new(0.0), aten.new_ones: _new(1.0), aten.new_full: _new(None), aten.new_empty: _new(0.0),
    aten.constant_pad_nd: _padded, aten.view: _reshaped, aten._unsafe_view: _reshaped, aten.reshape: _reshaped,
    aten.as_strided: _strided, aten.item: _number, aten._local_scalar_dense: _number,
}  # fmt: skip
MOVES: Final = {
    aten.permute, aten.transpose, aten.t, aten.expand, aten.slice, aten.select, aten.unsqueeze, aten.squeeze,
    aten.split, aten.split_with_sizes, aten.unbind, aten.clone, aten.detach, aten.alias, aten.index,
    aten.index_select, aten.gather, aten.flip, aten.roll, aten.repeat, aten.cat, aten.stack, aten.diagonal,
    aten.tril, aten.triu, aten.contiguous, aten.lift_fresh, aten.embedding, aten.index_put, aten.scatter,
    aten.movedim, aten.take, aten.unfold, aten.select_scatter, aten.slice_scatter, aten.positive,
}  # fmt: skip
Ring.composed, Ring.dispatched = COMPOSED, staticmethod(dispatched)
