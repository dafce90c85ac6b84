"""References of every shipped spec: plain torch in f64, from what the kernel is, not from its equations.

Nothing here knows of tkgen: a reference takes tensors as memory holds them, by name, scalars and sizes, and gives an
`Answer` for each output. torch has a function for most of them. Small formats are decoded by hand.

An answer has a `slack` where a kernel of this kind rounds within: the weights of attention to the type of the values,
computed weights of a product to bf16, what lies between the kernels of a sequence. It is derived from that rounding.
Some inputs must fit each other, as the sums of attention's forward pass do: `FITTING` replaces them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

Tensors = Mapping[str, Tensor]
LOG2 = math.log(2.0)
# Unit roundoffs: relative errors of rounding to nearest.
ROUNDED = {
    torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float8_e4m3fn: 2.0**-4, torch.float8_e4m3fnuz: 2.0**-4,
}  # fmt: skip
BF16 = ROUNDED[torch.bfloat16]
LARGEST_FP8 = "largest(fp8)"  # among the scalars: 240 of AMD's encoding, 448 of OCP's, which is the target's


@dataclass(frozen=True)
class Answer:
    """An output in f64; `slack` is what rounding within may make of each element, `where` the elements that count."""

    value: Tensor
    slack: Tensor | float = 0.0
    where: Tensor | None = None


Answers = dict[str, Answer]
Reference = Callable[[Tensors, Mapping[str, float]], Answers]
REFERENCES: dict[str, Reference] = {}
FITTING: dict[str, Callable[[dict[str, Tensor], Mapping[str, float]], dict[str, Tensor]]] = {}


def of(*names: str) -> Callable[[Reference], Reference]:
    """The reference of these specs, by path below `specs`, without its suffix."""

    def kept(function: Reference) -> Reference:
        for name in names:
            assert name not in REFERENCES, name
            REFERENCES[name] = function
        return function

    return kept


# ---------------------------------------------------------------- formats, decoded by hand


def bits(tensor: Tensor) -> Tensor:
    """The bytes of a tensor of 8-bit elements as integers."""
    return tensor.contiguous().view(torch.uint8).long()


def small_float(codes: Tensor, exponent: int, fraction: int, bias: int) -> Tensor:
    """The numbers of codes with a sign, an exponent and a fraction, from the highest bit, where all are finite."""
    return _numbers(torch.arange(1 << 1 + exponent + fraction), exponent, fraction, bias)[codes]


def _numbers(codes: Tensor, exponent: int, fraction: int, bias: int) -> Tensor:
    sign = codes >> exponent + fraction & 1
    power = codes >> fraction & (1 << exponent) - 1
    rest = (codes & (1 << fraction) - 1).double() / (1 << fraction)
    subnormal = power == 0
    value = torch.where(subnormal, rest, 1 + rest) * 2.0 ** (torch.where(subnormal, 1, power) - bias).double()
    return torch.where(sign == 1, -value, value)


def e4m3fn(tensor: Tensor) -> Tensor:
    """OCP's E4M3: no infinities, NaN where all bits but the sign are one."""
    codes = bits(tensor)
    return torch.where(codes & 0x7F == 0x7F, torch.nan, small_float(codes, 4, 3, 7))


def e4m3fnuz(tensor: Tensor) -> Tensor:
    """AMD's E4M3 of CDNA3: exponents one lower, NaN in the place of minus zero."""
    codes = bits(tensor)
    return torch.where(codes == 0x80, torch.nan, small_float(codes, 4, 3, 8))


def e8m0(tensor: Tensor) -> Tensor:
    """A power of two, from -127 on; the code 255 is NaN."""
    codes = bits(tensor)
    return torch.where(codes == 255, torch.nan, 2.0 ** (codes - 127).double())


def number(tensor: Tensor) -> Tensor:
    """The elements of a tensor in f64; of floats of 8 bits by hand."""
    by_hand = {torch.float8_e4m3fn: e4m3fn, torch.float8_e4m3fnuz: e4m3fnuz, torch.float8_e8m0fnu: e8m0}
    return by_hand.get(tensor.dtype, Tensor.double)(tensor)


def bit_string(tensor: Tensor) -> Tensor:
    """Rows of bytes as rows of bits, from the lowest of the first byte on."""
    return (bits(tensor)[..., None] >> torch.arange(8) & 1).flatten(-2)


def packed_codes(tensor: Tensor, width: int) -> Tensor:
    """Rows of bytes as codes of `width` bits, one in the bits above the other."""
    return (bit_string(tensor).unflatten(-1, (-1, width)) << torch.arange(width)).sum(-1)


def e2m1(tensor: Tensor) -> Tensor:
    return small_float(packed_codes(tensor, 4), 2, 1, 1)


def e2m3(tensor: Tensor) -> Tensor:
    return small_float(packed_codes(tensor, 6), 2, 3, 1)


def e3m2(tensor: Tensor) -> Tensor:
    return small_float(packed_codes(tensor, 6), 3, 2, 3)


def interleaved(tensor: Tensor) -> Tensor:
    """Codes of 4 bits of rows whose 128 neighbours lie in quads, as the page of low precision describes them.

    Byte 16 q + 4 w + b has in its low half element 32 w + 4 q + (0, 2, 1, 3)[b], in its high half that 16 further on.
    """
    found = torch.zeros(*tensor.shape[:-1], 2 * tensor.shape[-1], dtype=torch.long)
    for byte in range(tensor.shape[-1]):
        group, at = divmod(byte, 64)
        quad, word, within = at // 16, at // 4 % 4, at % 4
        low = 128 * group + 32 * word + 4 * quad + (0, 2, 1, 3)[within]
        found[..., low] = tensor[..., byte].long() & 15
        found[..., low + 16] = tensor[..., byte].long() >> 4
    return found


# ---------------------------------------------------------------- products


def _a_b(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return {"C": Answer(number(t["A"]) @ number(t["B"]))}


def _a_bt(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return {"C": Answer(functional.linear(number(t["A"]), number(t["B"])))}


of("four_wave", "subtiles_16", "hk_ab")(_a_b)
of(*(f"hopper/h100_{name}" for name in ("cluster", "double_buffer", "lcf", "stream_k")))(_a_b)
of(
    "deep_pipeline", "deep_pipeline_4", "double_buffer", "dynamic_sizes", "eight_wave", "four_wave_abt", "fp16", "fp32",
    "grouped", "hilbert", "hk_12c4p_2", "hk_12c4p_3", "hk_8c4p_2", "hk_8c4p_3", "hk_eight_wave", "hk_four_wave",
    "hk_half_tiles", "hk_ping_pong", "lds_double_buffer_8", "linear_grid", "load_and_compute_waves", "macro_tiles",
    "morton", "no_lds", "one_wave", "persistent", "ping_pong", "ping_pong_wide", "producer_consumer_1p8c",
    "producer_consumer_4p4c", "producer_consumer_4p8c", "producer_consumer_8p4c", "register_double_buffer",
    "single_buffer", "skinny", "split_k", "staged", "stream_k", "tail", "tail_clamped", "tunable", "tunable_staged",
    "xcd", "hopper/h100_lcf_abt", "hopper/h100_ping_pong", "hopper/h100_split_k",
)(_a_bt)  # fmt: skip


@of("at_b", "hk_at_b")
def _at_b(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return {"C": Answer(number(t["A"]).T @ number(t["B"]))}


@of("at_bt")
def _at_bt(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return {"C": Answer((number(t["B"]) @ number(t["A"])).T)}


@of("alpha_beta")
def _alpha_beta(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    product = functional.linear(number(t["A"]), number(t["B"]))
    return {"D": Answer(torch.add(scalars["alpha"] * product, number(t["C"]), alpha=scalars["beta"]))}


@of("bias_gelu_bf16")
def _bias_gelu(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return {"Y": Answer(functional.gelu(functional.linear(number(t["X"]), number(t["W"]), number(t["bias"]))))}


@of("block_scaled", "hopper/h100_block_scaled")
def _block_scaled(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    tiles = functional.linear(number(t["A"]), number(t["B"])).unflatten(1, (-1, 128))
    most = torch.linalg.vector_norm(tiles, math.inf, -1).clamp(min=1e-30)
    return {"C": Answer((tiles / most[..., None]).flatten(1)), "SCALE": Answer(most)}


@of("linear_softmax")
def _linear_softmax(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    outputs = functional.linear(number(t["X"]), number(t["W"]), number(t["b"]))
    return {"Y": Answer(torch.softmax(outputs, -1)), "LSE": Answer(torch.logsumexp(outputs, -1))}


@of("projection")
def _projection(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    scaled = number(t["s"])[:, None] * functional.linear(number(t["X"]), number(t["W"])) + number(t["b"])
    hidden = torch.tanh(functional.hardtanh(scaled, -4.0, 4.0))
    return {"H": Answer(hidden), "Y": Answer(hidden + number(t["R"]))}


@of("conv1d")
def _conv1d(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    """Zeros are before the sequence, one fewer than there are taps."""
    x, taps = number(t["X"]).movedim(2, 1), number(t["W"]).movedim(2, 1)
    made = functional.conv1d(functional.pad(x, (taps.shape[2] - 1, 0)), taps, number(t["BIAS"]))
    return {"Y": Answer(functional.silu(made).movedim(1, 2))}


@of("conv2d")
def _conv2d(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    """Padded by one pixel before an image, and by as many after it as give an output for each pixel."""
    x, taps = number(t["X"]).movedim(3, 1), number(t["W"]).movedim(3, 1)
    padded = functional.pad(x, (1, taps.shape[3], 1, taps.shape[2]))
    made = functional.conv2d(padded, taps, number(t["BIAS"]))[..., : x.shape[2], : x.shape[3]]
    return {"Y": Answer(functional.relu(made).movedim(1, 3))}


@of("hopper/h100_projection")
def _h100_projection(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    outputs = functional.linear(number(t["X"]), number(t["W"]), number(t["b"]))
    return {"Y": Answer(functional.gelu(outputs, approximate="tanh") + number(t["R"]))}


def _gates(t: Tensors) -> tuple[Tensor, Tensor]:
    return functional.linear(number(t["X"]), number(t["G"])), functional.linear(number(t["X"]), number(t["U"]))


@of("swiglu", "hopper/h100_swiglu")
def _swiglu(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    gate, up = _gates(t)
    return {"Y": Answer(functional.silu(gate) * up)}


@of("hopper/h100_swiglu_gates")
def _swiglu_gates(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    gate, up = _gates(t)
    return {"Y": Answer(functional.silu(gate) * up), "P": Answer(gate), "Q": Answer(up)}


@of("grouped_heads", "hopper/h100_grouped_heads")
def _grouped_heads(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    queries, keys = number(t["Q"]), number(t["K"])
    keys = keys.repeat_interleave(queries.shape[2] // keys.shape[2], 2)
    return {"S": Answer(scalars["scale"] * torch.einsum("blhd,bkhd->bhlk", queries, keys))}


@of("sequences/split_k_gelu", "hopper/h100_split_k_gelu")
def _split_k_gelu(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    rows, weights = number(t["X"]), number(t["W"])
    parts = 2.0**-23 * functional.linear(rows.abs(), weights.abs())  # are kept in f32
    return {"Y": Answer(functional.gelu(functional.linear(rows, weights, number(t["b"]))), 1.2 * parts)}


# ---------------------------------------------------------------- low precision


@of("low_precision/fp8", "low_precision/fp8_direct", "hopper/h100_fp8", "hopper/h100_fp8_promoted")
def _fp8(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return {"C": Answer(scalars["s"] * functional.linear(number(t["A"]), number(t["B"])))}


@of("low_precision/fp8_blocks", "hopper/h100_fp8_blocks")
def _fp8_blocks(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    left = number(t["A"]) * number(t["s"]).repeat_interleave(128, 1)
    right = number(t["B"]) * number(t["t"]).repeat_interleave(128, 0).repeat_interleave(128, 1)
    return {"C": Answer(functional.linear(left, right))}


@of("low_precision/fp8_rowwise")
def _fp8_rowwise(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    left, right = number(t["A"]) * number(t["s"])[:, None], number(t["B"]) * number(t["t"])[:, None]
    values = functional.linear(left, right)
    rows, cols = values.shape
    whole = functional.pad(values.abs(), (0, -cols % 128, 0, -rows % 128))
    most = functional.max_pool2d(whole[None], 128)[0]
    return {"C": Answer(values * scalars["out"]), "AMAX": Answer(most)}


@of("low_precision/i8")
def _i8(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    sums = t["A"].long() @ t["B"].long().T
    return {"C": Answer(torch.diag(number(t["s"])) @ sums.double() @ torch.diag(number(t["t"])))}


def _blocks_of_32(elements: Tensor, scales: Tensor) -> Tensor:
    return elements * e8m0(scales).repeat_interleave(32, 1)[:, : elements.shape[1]]


@of("low_precision/mxfp4")
def _mxfp4(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return {"C": Answer(_blocks_of_32(e2m1(t["A"]), t["s"]) @ _blocks_of_32(e2m1(t["B"]), t["t"]).T)}


@of("low_precision/mxfp6")
def _mxfp6(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return {"C": Answer(_blocks_of_32(e2m3(t["A"]), t["s"]) @ _blocks_of_32(e3m2(t["B"]), t["t"]).T)}


@of("low_precision/mxfp8")
def _mxfp8(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return {"C": Answer(_blocks_of_32(e4m3fn(t["A"]), t["s"]) @ _blocks_of_32(e4m3fn(t["B"]), t["t"]).T)}


def _along(scales: Tensor, group: int, length: int) -> Tensor:
    """Scales of groups of a row, for each of its elements."""
    return number(scales).repeat_interleave(group, 1)[:, :length]


def _of_weights(inputs: Tensor, weights: Tensor, is_rounded: bool) -> Answers:
    slack = BF16 * functional.linear(inputs.abs(), weights.abs()) if is_rounded else 0.0
    return {"C": Answer(functional.linear(inputs, weights), slack)}


@of("low_precision/w4")
def _w4(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    codes = interleaved(t["W"])
    length = codes.shape[1]
    weights = _along(t["s"], 128, length) * (codes.double() - _along(t["z"], 128, length))
    return _of_weights(number(t["A"]), weights, is_rounded=False)


@of("low_precision/w4_decode")
def _w4_decode(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    codes = interleaved(t["W"])
    signed = torch.where(codes > 7, codes - 16, codes).double()
    return _of_weights(number(t["A"]), _along(t["s"], 32, codes.shape[1]) * signed, is_rounded=True)


@of("low_precision/w8")
def _w8(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    length = t["W"].shape[1]
    weights = _along(t["s"], 128, length) * (t["W"].double() - _along(t["z"], 128, length))
    return _of_weights(number(t["A"]), weights, is_rounded=True)


@of("low_precision/w8_decode")
def _w8_decode(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return _of_weights(number(t["A"]), _along(t["s"], 128, t["W"].shape[1]) * t["W"].double(), is_rounded=True)


# ---------------------------------------------------------------- quantising


def _scaled_rows(rows: Tensor, largest: float) -> Answers:
    scale = rows.abs().amax(-1).clamp(min=1e-12) / largest
    return {"Q": Answer(rows / scale[..., None]), "SCALE": Answer(scale)}


@of("quantise/quantise_int8")
def _quantise_int8(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return _scaled_rows(number(t["X"]), 127.0)


@of("quantise/quantise_rows")
def _quantise_rows(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return _scaled_rows(number(t["X"]), scalars[LARGEST_FP8])


@of("quantise/quantise_rmsnorm")
def _quantise_rmsnorm(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    rows = number(t["X"]) + number(t["R"])
    normed = functional.rms_norm(rows, rows.shape[-1:], number(t["W"]), scalars["eps"])
    return _scaled_rows(normed, scalars[LARGEST_FP8]) | {"R": Answer(rows)}


@of("quantise/quantise_swiglu")
def _quantise_swiglu(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return _scaled_rows(functional.silu(number(t["G"])) * number(t["U"]), scalars[LARGEST_FP8])


def _mx_rows(rows: Tensor, exponent: int) -> Answers:
    """Blocks of 32: the scale is the power of two of the largest number, less that of the format's largest."""
    most = rows.abs().amax(-1)
    power = torch.where(most > 0, torch.floor(torch.log2(most)) - exponent, -127.0).clamp(min=-127.0)
    return {"Q": Answer(rows / 2.0 ** power[..., None]), "SCALE": Answer(2.0**power)}


@of("quantise/mxfp4_rows", "quantise/mxfp6_rows")
def _mx_small_rows(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return _mx_rows(number(t["X"]), 2)


@of("quantise/mxfp8_rows")
def _mxfp8_rows(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return _mx_rows(number(t["X"]), 8)


# ---------------------------------------------------------------- rows


@of("rows/elementwise", "hopper/h100_elementwise")
def _elementwise(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return {"Y": Answer(functional.silu(number(t["X"])) * number(t["G"]))}


@of("rows/layernorm", "hopper/h100_layernorm")
def _layernorm(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    rows = number(t["X"])
    return {"Y": Answer(functional.layer_norm(rows, rows.shape[-1:], number(t["W"]), number(t["B"]), scalars["eps"]))}


@of("rows/group_norm")
def _group_norm(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    """As torch has it: channels of all groups next to each other."""
    x, groups = number(t["X"]), t["W"].shape[0]
    flat, weights, shifts = x.flatten(1, 2), number(t["W"]).flatten(), number(t["B"]).flatten()
    return {"Y": Answer(functional.group_norm(flat, groups, weights, shifts, scalars["eps"]).reshape(x.shape))}


@of("rows/softmax", "hopper/h100_softmax")
def _softmax(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return {"Y": Answer(torch.softmax(number(t["X"]), -1))}


@of("rows/long_softmax", "hopper/h100_long_softmax")
def _long_softmax(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    rows = number(t["X"])
    return {"Y": Answer(torch.softmax(rows, -1)), "LSE": Answer(torch.logsumexp(rows, -1))}


@of("rows/norm_gradient", "hopper/h100_norm_gradient")
def _norm_gradient(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    """The gradient of w in y = x w, by autograd."""
    rows, passed_back = number(t["X"]), number(t["G"])
    weights = torch.ones(rows.shape[1], dtype=torch.float64, requires_grad=True)
    (rows * weights * passed_back).sum().backward()
    assert weights.grad is not None
    return {"W": Answer(weights.grad)}


def _normed(rows: Tensor, t: Tensors, scalars: Mapping[str, float]) -> Answers:
    normed = functional.rms_norm(rows, rows.shape[-1:], number(t["W"]), scalars["eps"])
    return {"R": Answer(rows), "Y": Answer(normed)}


@of("hopper/h100_rmsnorm")
def _h100_rmsnorm(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return _normed(number(t["X"]) + number(t["R"]), t, scalars)


@of("rows/rmsnorm")
def _rmsnorm(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    """Dropout of the share `dropped`, decided by Philox: the words of a counter are for four neighbours of a row."""
    added = number(t["X"])
    tokens, length = added.shape
    key = (int(torch.tensor(scalars["seed"], dtype=torch.float32).view(torch.int32)) & 0xFFFFFFFF, 0)
    words = [[philox((row, quad, 0, 0), key) for quad in range(-(-length // 4))] for row in range(tokens)]
    uniform = (torch.tensor(words).flatten(1)[:, :length] >> 8).double() / 2**24
    kept = torch.where(uniform < scalars["dropped"], 0.0, added / (1 - scalars["dropped"]))
    return _normed(kept + number(t["R"]), t, scalars)


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Philox 4x32-10, as the paper of Salmon, Moraes, Dror and Shaw (SC 2011) has it."""
    x0, x1, x2, x3 = counter
    k0, k1 = key
    for _ in range(10):
        first, second = 0xD2511F53 * x0, 0xCD9E8D57 * x2
        x0, x1, x2, x3 = second >> 32 ^ x1 ^ k0, second & 0xFFFFFFFF, first >> 32 ^ x3 ^ k1, first & 0xFFFFFFFF
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return x0, x1, x2, x3


@of("rows/rotary", "hopper/h100_rotary")
def _rotary(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    """Halves as real and imaginary parts, which a complex factor of the position turns."""
    halves = number(t["X"])
    turned = torch.complex(halves[:, :, 0], halves[:, :, 1]) * torch.complex(number(t["C"]), number(t["S"]))[:, None]
    return {"Y": Answer(torch.stack([turned.real, turned.imag], 2))}


@of("rows/causal_conv1d")
def _causal_conv1d(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    """A grouped convolution, padded at both ends; the outputs beyond the sequence are cut off."""
    x, taps = number(t["X"]).movedim(2, 1), number(t["W"]).T[:, None]
    made = functional.conv1d(x, taps, number(t["BIAS"]), padding=3, groups=x.shape[1])
    return {"Y": Answer(functional.silu(made[..., : x.shape[2]]).movedim(1, 2))}


@of("rows/selective_scan")
def _selective_scan(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    """The state of each channel, position after position, written out with outer products."""
    x, delta, decay, into, out = (number(t[name]) for name in ("X", "DELTA", "A", "B", "C"))
    state = torch.zeros(x.shape[0], x.shape[2], decay.shape[0], dtype=torch.float64)
    found = []
    for n in range(x.shape[1]):
        kept = torch.exp(delta[:, n, :, None] * decay.T)
        state = kept * state + torch.einsum("bd,bn->bdn", delta[:, n] * x[:, n], into[:, n])
        found.append(torch.einsum("bdn,bn->bd", state, out[:, n]))
    return {"Y": Answer(torch.stack(found, 1) + number(t["SKIP"]) * x)}


@of("rows/stencil")
def _stencil(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    """A padded grid, moved in each direction."""
    x = number(t["X"])
    wide = functional.pad(x, (1, 1, 1, 1))
    around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
    rate = number(torch.tensor(scalars["rate"], dtype=torch.float32))  # a launch takes it as f32
    return {"Y": Answer(x + rate * (around - 4 * x))}


@of("rows/transpose", "hopper/h100_transpose")
def _transpose(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return {"Y": Answer(number(t["X"]).T)}


# ---------------------------------------------------------------- attention


@dataclass(frozen=True)
class Attended:
    """Attention of [..., queries, D] over keys: outputs, logarithms of the sums to base 2, the error of the weights."""

    outputs: Tensor
    lse2: Tensor
    slack: Tensor
    some: Tensor  # whether a query sees a key


def attend(queries: Tensor, keys: Tensor, values: Tensor, scale: float, seen: Tensor | None = None) -> Attended:
    """Of scores in powers of 2; a query that sees no key gets zeros. All tensors are as memory holds them."""
    q, k, v = number(queries), number(keys), number(values)
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool) if seen is None else seen
    some = mask.any(-1)
    within = mask | ~some[..., None]  # a row without keys has no softmax: torch gets one, and its result is dropped
    found = functional.scaled_dot_product_attention(q, k, v, attn_mask=within, scale=scale * LOG2)
    magnitude = functional.scaled_dot_product_attention(q, k, v.abs(), attn_mask=within, scale=scale * LOG2)
    least = 2.0**-25 * v.abs().sum(-2, keepdim=True) if values.dtype is torch.float16 else 0.0  # weights below 2^-14
    scores = (q @ k.mT * (scale * LOG2)).masked_fill(~mask, -math.inf)
    outputs = torch.where(some[..., None], found, 0.0)
    return Attended(outputs, torch.logsumexp(scores, -1) / LOG2, ROUNDED[values.dtype] * magnitude + least, some)


def shared_heads(queries: Tensor, keys: Tensor, at: int) -> Tensor:
    """Heads of keys, one for each head of queries."""
    return keys.repeat_interleave(queries.shape[at] // keys.shape[at], at)


def causal(queries: int, keys: int) -> Tensor:
    """The last query sees all keys, each before it one fewer."""
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


@of(
    "attention/attention", "attention/attention_direct", "attention/attention_f16", "attention/attention_interleaved",
    "attention/attention_lazy", "attention/attention_ping_pong", "attention/attention_ping_pong_direct",
    "attention/attention_written",
)  # fmt: skip
def _attention(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    found = attend(t["Q"], t["K"], t["V"], scalars["scale"])
    return {"O": Answer(found.outputs, found.slack)}


@of("attention/attention_fp8")
def _attention_fp8(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    keys, values, k_scale, v_scale = (shared_heads(t["Q"], t[n], 1) for n in ("K", "V", "K_SCALE", "V_SCALE"))
    by = t["Q_SCALE"].double() * k_scale.double()
    found = attend(number(t["Q"]) * by[..., None, None], keys, values, scalars["scale"])
    # Powers are multiplied by 128, so those below 2^-13 of the largest one are off by 2^-17 of it at most.
    least = 2.0**-17 * number(values).abs().sum(-2, keepdim=True)
    to = v_scale.double()[..., None, None]
    return {"O": Answer(to * found.outputs, to.abs() * (found.slack + least))}


@of("attention/attention_256")
def _attention_256(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    length = t["Q"].shape[2]
    found = attend(t["Q"], t["K"], t["V"], scalars["scale"], causal(length, length))
    return {"O": Answer(found.outputs, found.slack)}


@of("attention/attention_causal")
def _attention_causal(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    keys, values = (shared_heads(t["Q"], t[name], 2).transpose(1, 2) for name in "KV")
    length = t["Q"].shape[1]
    found = attend(t["Q"].transpose(1, 2), keys, values, scalars["scale"], causal(length, length))
    return {"O": Answer(found.outputs.transpose(1, 2), found.slack.transpose(1, 2)), "LSE2": Answer(found.lse2)}


@of("attention/attention_mqa")
def _attention_mqa(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    keys, values = (t[name][:, None].expand(-1, t["Q"].shape[2], -1, -1) for name in "KV")
    found = attend(t["Q"].transpose(1, 2), keys, values, scalars["scale"], causal(t["Q"].shape[1], t["K"].shape[1]))
    where = found.some[None, :, None, None].expand_as(t["Q"])  # where there are as many keys as queries: all
    return {"O": Answer(found.outputs.transpose(1, 2), found.slack.transpose(1, 2), where)}


@of("attention/attention_window")
def _attention_window(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    length, window = t["Q"].shape[2], 512
    seen = causal(length, length) & ~causal(length, length).tril(-window)
    found = attend(t["Q"], t["K"], t["V"], scalars["scale"], seen)
    return {"O": Answer(found.outputs, found.slack)}


@of("hopper/h100_attention")
def _h100_attention(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    keys, values = (shared_heads(t["Q"], t[name], 1) for name in "KV")
    found = attend(t["Q"], keys, values, scalars["scale"])
    return {"O": Answer(found.outputs, found.slack), "LSE2": Answer(found.lse2)}


@of("hopper/h100_mla_decode")
def _h100_mla_decode(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    """One head of keys, whose first part is also the values; all heads of queries are its rows."""
    found = attend(torch.cat((t["Q"], t["QR"]), -1), torch.cat((t["K"], t["R"]), -1), t["K"], scalars["scale"])
    return {"O": Answer(found.outputs, found.slack), "LSE2": Answer(found.lse2)}


@of("hopper/h100_attention_causal")
def _h100_attention_causal(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    keys, values = (shared_heads(t["Q"], t[name], 1) for name in "KV")
    length = t["Q"].shape[2]
    found = attend(t["Q"], keys, values, scalars["scale"], causal(length, length))
    return {"O": Answer(found.outputs, found.slack), "LSE2": Answer(found.lse2)}


@of("hopper/h100_attention_dynamic")
def _h100_attention_dynamic(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    keys, values = (shared_heads(t["Q"], t[name], 1) for name in "KV")
    found = attend(t["Q"], keys, values, scalars["scale"], causal(t["Q"].shape[2], t["K"].shape[2]))
    return {"O": Answer(found.outputs, found.slack), "LSE2": Answer(found.lse2)}


def groups(offsets: Tensor, size: int) -> list[slice]:
    """The places of each group: offsets that decrease or lie beyond mean groups that do neither."""
    ends = torch.cummax(offsets.long().clamp(0, size), 0).values.tolist()
    return [slice(first, last) for first, last in pairwise(ends)]


def _packed(t: Tensors, scalars: Mapping[str, float], first_keys: str) -> Answers:
    total, heads, size = t["Q"].shape
    outputs, slack = torch.zeros(total, heads, size, dtype=torch.float64), torch.zeros(total, heads, size).double()
    lse2, where = torch.zeros(heads, total, dtype=torch.float64), torch.zeros(total, dtype=torch.bool)
    places = zip(groups(t["FIRST"], total), groups(t[first_keys], t["K"].shape[0]), strict=True)
    for rows, columns in places:
        queries = t["Q"][rows].transpose(0, 1)
        keys, values = (shared_heads(t["Q"], t[name][columns], 1).transpose(0, 1) for name in "KV")
        where[rows] = True
        if not keys.shape[1]:
            lse2[:, rows] = -math.inf
            continue
        seen = causal(queries.shape[1], keys.shape[1])
        found = attend(queries, keys, values, scalars["scale"], seen)
        outputs[rows], slack[rows] = found.outputs.transpose(0, 1), found.slack.transpose(0, 1)
        lse2[:, rows] = found.lse2
    each = where[:, None, None].expand_as(outputs)
    return {"O": Answer(outputs, slack, each), "LSE2": Answer(lse2, 0.0, where.expand_as(lse2))}


@of("attention/attention_packed")
def _attention_packed(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return _packed(t, scalars, "FIRST")


@of("attention/attention_chunks")
def _attention_chunks(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    return _packed(t, scalars, "FIRST_K")


@of("attention/attention_decode")
def _attention_decode(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    keys, values = (shared_heads(t["Q"], t[name].transpose(1, 2), 1) for name in "KV")
    found = attend(t["Q"][:, :, None], keys, values, scalars["scale"])
    return {"O": Answer(found.outputs[:, :, 0], found.slack[:, :, 0])}


@of("attention/attention_paged")
def _attention_paged(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    cached = t["K"].shape[0]
    batch, heads, size = t["Q"].shape
    outputs, slack = torch.zeros(batch, heads, size, dtype=torch.float64), torch.zeros(batch, heads, size).double()
    most = int(scalars["KEYS"])  # whatever LENGTH says
    for sequence in range(batch):
        count = min(max(int(t["LENGTH"][sequence]), 0), most)
        if not count:
            continue  # no key: zeros
        gathered = {}
        for name in "KV":
            tiles = [t[name][p] if 0 <= p < cached else torch.zeros_like(t[name][0])
                     for p in t["PAGES"][sequence].tolist()]  # fmt: skip
            gathered[name] = shared_heads(t["Q"][sequence], torch.cat(tiles)[:count].transpose(0, 1), 0)
        found = attend(t["Q"][sequence][:, None], gathered["K"], gathered["V"], scalars["scale"])
        outputs[sequence], slack[sequence] = found.outputs[:, 0], found.slack[:, 0]
    return {"O": Answer(outputs, slack)}


# ---------------------------------------------------------------- gradients of attention


def _heads_of(t: Tensors) -> tuple[Tensor, Tensor, Tensor, bool]:
    """Queries, keys and values with a head of keys for each of queries; whether heads share them, which is causal."""
    shares = t["K"].dim() < t["Q"].dim()
    keys, values = (t[name][:, None].expand_as(t["Q"]) if shares else t[name] for name in "KV")
    return t["Q"], keys, values, shares


def _forward(t: dict[str, Tensor], scalars: Mapping[str, float]) -> dict[str, Tensor]:
    """The outputs and sums that a backward pass takes are those of the forward pass."""
    queries, keys, values, is_causal = _heads_of(t)
    length = queries.shape[-2]
    found = attend(queries, keys, values, scalars["scale"], causal(length, length) if is_causal else None)
    return t | {"O": found.outputs.to(t["O"].dtype), "LSE2": found.lse2.to(t["LSE2"].dtype)}


BACKWARD = [f"attention/attention_backward{name}" for name in ("", "_atomic", "_causal", "_direct")]
BACKWARD.append("hopper/h100_attention_backward")
FITTING |= dict.fromkeys(BACKWARD, _forward)


@of(*BACKWARD)
def _attention_backward(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    """By autograd of torch's attention; the slack is what rounding O, P and the gradients of scores to bf16 makes."""
    of_queries, of_keys, of_values = (number(t[name]).requires_grad_() for name in "QKV")
    queries, keys, values, is_causal = _heads_of({"Q": of_queries, "K": of_keys, "V": of_values})
    length = queries.shape[-2]
    seen = causal(length, length) if is_causal else torch.ones(length, length, dtype=torch.bool)
    passed_back, scale = number(t["GO"]), scalars["scale"] * LOG2
    outputs = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=seen, scale=scale)
    outputs.backward(passed_back)
    with torch.no_grad():
        weights = torch.softmax((queries @ keys.mT * scale).masked_fill(~seen, -math.inf), -1)
        delta = (passed_back * outputs).abs().sum(-1, keepdim=True)
        of_scores = weights * ((passed_back.abs() @ values.abs().mT) + 2 * delta)
        slack = {
            "GQ": scale * of_scores @ keys.abs(), "GK": scale * of_scores.mT @ queries.abs(),
            "GV": weights.mT @ passed_back.abs(),
        }  # fmt: skip
        if is_causal:
            slack |= {name: slack[name].sum(1) for name in ("GK", "GV")}
    found = {"GQ": of_queries.grad, "GK": of_keys.grad, "GV": of_values.grad}
    return {name: Answer(value, BF16 * slack[name]) for name, value in found.items() if value is not None}


# ---------------------------------------------------------------- linear attention

CHUNK = 64


@of("attention/linear_attention")
def _linear_attention(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    """All scores of causal linear attention; the slack is what rounding scores and states to bf16 makes."""
    queries, keys, values = (number(t[name]) for name in "QKV")
    outputs = (queries @ keys.mT).tril() @ values
    outer = functional.pad(values[..., :, None] * keys[..., None, :], (0, 0, 0, 0, 1, 0)).cumsum(1)
    slack = 2 * BF16 * (queries.abs() @ keys.abs().mT).tril() @ values.abs()
    return {"STATE": Answer(outer[:, : keys.shape[1] : CHUNK]), "O": Answer(outputs, slack)}


def _delta_rule(t: dict[str, Tensor], scalars: Mapping[str, float]) -> dict[str, Tensor]:
    """Keys of length 1, gates and strengths in (0, 1), and of each chunk what solves its triangular system."""
    keys = functional.normalize(number(t["K"]), dim=-1).nan_to_num().to(t["K"].dtype)
    exact, values, length = number(keys), number(t["U"]), keys.shape[1]
    gates, strength = _gates_of(t)
    logs = torch.cat([part.cumsum(1) for part in gates.log().split(CHUNK, 1)], 1)
    made = {"W": torch.zeros_like(exact), "U": torch.zeros_like(values)}
    for at in (slice(first, min(first + CHUNK, length)) for first in range(0, length, CHUNK)):
        k, g, b = exact[:, at], logs[:, at], strength[:, at, None]
        decay = (g[:, :, None] - g[:, None, :]).exp()
        system = torch.eye(k.shape[1]).double() + (b * decay * (k @ k.mT)).tril(-1)
        for name, right in (("W", b * g.exp()[..., None] * k), ("U", b * values[:, at])):
            made[name][:, at] = torch.linalg.solve_triangular(system, right, upper=False)
    last = torch.stack([part[:, -1] for part in logs.split(CHUNK, 1)], 1)
    bf16 = {name: tensor.to(t[name].dtype) for name, tensor in made.items()}
    return t | bf16 | {"K": keys, "G": logs.to(t["G"].dtype), "LAST": last.to(t["LAST"].dtype)}


def _gates_of(t: Tensors) -> tuple[Tensor, Tensor]:
    """A gate and a strength for each position of each head: numbers of their own, the same for the same shape."""
    generator = torch.Generator().manual_seed(5)
    gates, strength = (torch.rand(*t["G"].shape, generator=generator).double() for _ in range(2))
    return 0.75 + 0.25 * gates, 0.1 + 0.8 * strength


FITTING["attention/gated_delta_rule"] = _delta_rule


@of("attention/gated_delta_rule")
def _gated_delta_rule(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    """The recurrence, position by position: the state forgets by the gate, then learns what it predicts wrongly.

    The values come back from U, whose triangular system is that of `_delta_rule`. Keys have length 1, so no rounding
    grows: each output has those of U, W, the state, what is new, and the scores.
    """
    queries, keys, made = (number(t[name]) for name in "QKU")
    gates, strength = _gates_of(t)
    heads, length, depth = keys.shape
    state, logs = torch.zeros(heads, made.shape[-1], depth).double(), torch.zeros(heads).double()
    states, outputs, new = [], torch.zeros_like(made), torch.zeros_like(made)
    for at in range(length):
        first = at // CHUNK * CHUNK
        if at == first:
            states.append(state)
            logs = torch.zeros(heads).double()
        logs = logs + gates[:, at].log()
        # b v = U + what the earlier positions of the chunk take of it
        earlier = number(t["U"])[:, first:at]
        since = (logs[:, None] - gates[:, first:at].log().cumsum(1)).exp() * (keys[:, first:at] @ keys[:, at, :, None])[
            ..., 0
        ]
        of_value = made[:, at] + strength[:, at, None] * (since[..., None] * earlier).sum(1)
        gated = gates[:, at, None, None] * state
        new[:, at] = of_value - strength[:, at, None] * (gated @ keys[:, at, :, None])[..., 0]
        state = gated + new[:, at, :, None] * keys[:, at, None, :]
        outputs[:, at] = scalars["scale"] * (state @ queries[:, at, :, None])[..., 0]
    most = new.abs().amax(1, keepdim=True).amax(-1, keepdim=True)
    slack = 2 * BF16 * most
    length_of = scalars["scale"] * queries.norm(dim=-1, keepdim=True)
    return {
        "STATE": Answer(torch.stack(states, 1), slack[:, None]), "NEW": Answer(new, slack),
        "O": Answer(outputs, 2 * length_of * slack),
    }  # fmt: skip


# ---------------------------------------------------------------- groups of rows


def _grouped(t: Tensors, product: Callable[[slice, int], Tensor], columns: int) -> Answer:
    """Results of rows of groups, group by group; rows in none are left as they are."""
    rows = t["X"].shape[0]
    found, where = torch.zeros(rows, columns, dtype=torch.float64), torch.zeros(rows, columns, dtype=torch.bool)
    for group, places in enumerate(groups(t["FIRST"], rows)):
        found[places], where[places] = product(places, group), True
    return Answer(found, 0.0, where)


@of("groups/grouped_gemm", "hopper/h100_grouped")
def _grouped_gemm(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    rows, weights = number(t["X"]), number(t["W"])
    return {"Y": _grouped(t, lambda at, e: functional.linear(rows[at], weights[e]), weights.shape[1])}


@of("groups/grouped_persistent")
def _grouped_persistent(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    rows, weights, bias, routed = (number(t[name]) for name in ("X", "W", "b", "weight"))

    def product(at: slice, e: int) -> Tensor:
        return routed[at, None] * functional.linear(rows[at], weights[e], bias[e])

    return {"Y": _grouped(t, product, weights.shape[1])}


@of("groups/grouped_fp8")
def _grouped_fp8(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    rows = number(t["X"]) * number(t["s"])[:, None]
    weights = number(t["W"]) * number(t["t"])[:, :, None]
    return {"Y": _grouped(t, lambda at, e: functional.linear(rows[at], weights[e]), weights.shape[1])}


@of("groups/moe_down")
def _moe_down(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    """Products of whole groups, then `index_add` of the rows that belong to a group and to a token."""
    rows, weights, tokens = number(t["H"]), number(t["DOWN"]), t["TOKEN"].long()
    whole = torch.zeros(rows.shape[0], weights.shape[1], dtype=torch.float64)
    for expert, at in enumerate(groups(t["FIRST"], rows.shape[0])):
        whole[at] = number(t["WEIGHT"])[at, None] * functional.linear(rows[at], weights[expert])
    found = torch.zeros(int(scalars["TOKENS"]), weights.shape[1], dtype=torch.float64)
    there = (tokens >= 0) & (tokens < found.shape[0])
    return {"Y": Answer(found.index_add(0, tokens[there], whole[there]))}


@of("groups/grouped_weights")
def _grouped_weights(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    passed_back, rows = number(t["DY"]), number(t["X"])
    parts = [torch.einsum("to,ti->oi", passed_back[at], rows[at]) for at in groups(t["FIRST"], rows.shape[0])]
    return {"DW": Answer(torch.stack(parts))}


def _whole_groups(t: dict[str, Tensor], scalars: Mapping[str, float]) -> dict[str, Tensor]:
    """Offsets that leave no row without a group: what a layer of experts makes of such a row is anything."""
    offsets = t["FIRST"].clone()
    offsets[0], offsets[-1] = 0, t["TOKEN"].shape[0]
    return t | {"FIRST": offsets}


FITTING |= {"groups/moe": _whole_groups, "groups/moe_fp8": _whole_groups}


def _gathered(rows: Tensor, places: Tensor) -> Tensor:
    """Rows at places; a place that is none has zeros."""
    inside = (places >= 0) & (places < rows.shape[0])
    return torch.where(inside[..., None], rows[places.long().clamp(0, rows.shape[0] - 1)], 0.0)


def _experts(t: Tensors, rows: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    """The gated half of each row's expert."""
    hidden = torch.zeros(rows.shape[0], gate.shape[1], dtype=torch.float64)
    for expert, at in enumerate(groups(t["FIRST"], rows.shape[0])):
        gated = functional.silu(functional.linear(rows[at], gate[expert]))
        hidden[at] = gated * functional.linear(rows[at], up[expert])
    return hidden


def _down(t: Tensors, hidden: Tensor, error: Tensor, down: Tensor) -> Answers:
    """The second half, weighed by the router, and the sum of each token's rows; `error` is that of `hidden`."""
    weighed, slack = (torch.zeros(hidden.shape[0], down.shape[1], dtype=torch.float64) for _ in range(2))
    for expert, at in enumerate(groups(t["FIRST"], hidden.shape[0])):
        routed = number(t["weight"])[at, None]
        weighed[at] = routed * functional.linear(hidden[at], down[expert])
        slack[at] = routed.abs() * functional.linear(error[at], down[expert].abs())
    slack = slack + BF16 * weighed.abs()
    sums = (_gathered(x, t["SLOT"]).sum(1) for x in (weighed, slack))
    return {"Y": Answer(*sums)}


@of("groups/moe")
def _moe(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    rows = _gathered(number(t["X"]), t["TOKEN"])
    hidden = _experts(t, rows, number(t["GATE"]), number(t["UP"]))
    return _down(t, hidden, BF16 * hidden.abs(), number(t["DOWN"]))


@of("groups/moe_fp8")
def _moe_fp8(t: Tensors, scalars: Mapping[str, float]) -> Answers:
    rows = _gathered(number(t["X"]), t["TOKEN"]) * number(t["xs"])[:, None]
    gate, up = (number(t[w]) * number(t[s])[:, :, None] for w, s in (("GATE", "gs"), ("UP", "us")))
    hidden = _experts(t, rows, gate, up)
    # Rounded to bf16, and to 8 bits: half a unit in three places of the fraction, or of the least number.
    scale = hidden.abs().amax(1, keepdim=True).clamp(min=1e-12) / scalars[LARGEST_FP8]
    error = (BF16 + 2.0**-4) * hidden.abs() + 2.0**-10 * scale
    return _down(t, hidden, error, number(t["DOWN"]) * number(t["ds"])[:, :, None])
