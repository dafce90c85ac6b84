"""What each kernel of `benchmarks/hopper_kernels.py` computes, in torch, and the kernels of others that compute it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

Tensors = Mapping[str, Any]
Sizes = Mapping[str, int]
Peer = Callable[[dict[str, Any]], Callable[[], object]]

LOG2E = math.log2(math.e)


@dataclass(frozen=True)
class Flagship:
    """A kernel: its outputs in torch, what a launch does, special inputs, and others that do the same."""

    torch: Callable[[Tensors], dict[str, Any]]
    work: Callable[[Sizes], float]  # operations, or bytes
    unit: str = "TFLOP/s"
    rate: float = 4e14  # about how much a second, for the length of a replay
    inputs: Mapping[str, Callable[[Sizes, str], Any]] = field(default_factory=dict)
    peers: Mapping[str, Peer] = field(default_factory=dict)
    compiled: bool = True

    def sizes(self, sizes: Sizes) -> str:
        """The sizes in a row of the table."""
        return " ".join(f"{name}={size}" for name, size in sizes.items())


# ---------------------------------------------------------------- attention with a bias and a soft cap

SOFT_CAP = 20.0


def soft_cap_bias(t: Tensors) -> dict[str, Any]:
    """Scores are capped, then biased."""
    import torch

    q, k, v, bias = (t[n] for n in ("Q", "K", "V", "BIAS"))
    scores = SOFT_CAP * torch.tanh(q @ k.mT * (q.shape[-1] ** -0.5 / SOFT_CAP)) + bias
    return {"O": scores.softmax(-1).to(v.dtype) @ v}


def flex_attention(t: dict[str, Any]) -> Callable[[], object]:
    """torch's compiled flex_attention with the same scores."""
    import torch
    from torch.nn.attention.flex_attention import flex_attention as flex

    bias = t["BIAS"]

    def score(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return SOFT_CAP * torch.tanh(s / SOFT_CAP) + bias[h, q, k]

    compiled = torch.compile(flex, dynamic=False)
    return lambda: compiled(t["Q"], t["K"], t["V"], score_mod=score)


def attention_alone(t: dict[str, Any]) -> Callable[[], object]:
    """cuDNN's attention with the bias, without a cap: less work."""
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def call() -> object:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(t["Q"], t["K"], t["V"], attn_mask=t["BIAS"][None])

    return call


# ---------------------------------------------------------------- decoding of latent attention


def mla_decode(t: Tensors) -> dict[str, Any]:
    """Scores of both parts of a key; its first part is the value."""
    q, rotary, k, r = (t[n] for n in ("Q", "QR", "K", "R"))
    scores = (q @ k.mT + rotary @ r.mT) * (192**-0.5)
    return {"O": scores.softmax(-1).to(k.dtype) @ k}


def mla_attention(t: dict[str, Any]) -> Callable[[], object]:
    """torch's attention of the joined parts, the heads as positions; joining is not timed."""
    import torch
    import torch.nn.functional as F

    q, k = torch.cat((t["Q"], t["QR"]), -1)[:, None], torch.cat((t["K"], t["R"]), -1)[:, None]
    v = t["K"][:, None]
    return lambda: F.scaled_dot_product_attention(q, k, v, scale=192**-0.5)


# ---------------------------------------------------------------- Mamba 2


def mamba2_chunk_scan(t: Tensors) -> dict[str, Any]:
    """Attention in a chunk without softmax, with decays, and what the state before the chunk gives."""
    import torch

    c, b, x, a, s = (t[n] for n in ("C", "B", "X", "A", "S"))
    size = a.shape[-1]
    below = torch.ones(size, size, dtype=torch.bool, device=a.device).tril()
    decay = torch.where(below, (a[..., :, None] - a[..., None, :]).exp(), 0.0)
    inside = ((c @ b.mT) * decay).to(x.dtype) @ x
    return {"Y": inside + a.exp()[..., None] * (c @ s.mT)}


def sums_of_decays(sizes: Sizes, device: str) -> Any:
    """Sums of negative numbers from the start of each chunk."""
    import torch

    return -torch.rand(sizes["HEADS"], sizes["CHUNKS"], sizes["CHUNK"], device=device).cumsum(-1) * 0.1


def mamba_ssm(t: dict[str, Any]) -> Callable[[], object]:
    """The two Triton kernels of mamba_ssm for the same: C B^T of each chunk, and the scan."""
    import torch
    from mamba_ssm.ops.triton.ssd_bmm import _bmm_chunk_fwd  # type: ignore[import-not-found]
    from mamba_ssm.ops.triton.ssd_chunk_scan import _chunk_scan_fwd  # type: ignore[import-not-found]

    heads, chunks, chunk, _ = t["C"].shape
    c, b, x = (t[n].reshape(heads, chunks * chunk, 1, -1) for n in ("C", "B", "X"))
    a, states = t["A"][:, None], t["S"][:, :, None]
    steps = torch.ones_like(a)

    def call() -> object:
        cb = _bmm_chunk_fwd(c, b, chunk, output_dtype=torch.float32)
        return _chunk_scan_fwd(cb, x, steps, a, c, states)

    return call


# ---------------------------------------------------------------- the gated delta rule

CHUNK = 64


def gated_delta_rule(t: Tensors) -> dict[str, Any]:
    """Chunk by chunk: the state before it, what is new, and the outputs."""
    import torch

    scale = t["Q"].shape[-1] ** -0.5
    state = torch.zeros(t["U"].shape[0], t["U"].shape[-1], t["K"].shape[-1], device=t["U"].device)
    kind, states, new, out = t["U"].dtype, [], [], []
    below = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=t["U"].device).tril()
    for at, first in enumerate(range(0, t["U"].shape[1], CHUNK)):
        q, k, w, u, g = (t[n][:, first : first + CHUNK] for n in ("Q", "K", "W", "U", "G"))
        last = t["LAST"][:, at, None, None]
        made = u - w @ state.to(kind).mT
        decay = torch.where(below, (g[:, :, None] - g[:, None]).exp(), 0.0)
        inside = (scale * (q @ k.mT) * decay).to(kind) @ made
        states.append(state.to(kind))
        new.append(made)
        out.append(inside + scale * g.exp()[..., None] * (q @ state.to(kind).mT))
        state = last.exp() * state + ((last[..., 0] - g).exp()[..., None] * made).to(kind).mT @ k
    return {"STATE": torch.stack(states, 1), "NEW": torch.cat(new, 1), "O": torch.cat(out, 1)}


def gates(sizes: Sizes, device: str) -> Any:
    """Sums of logarithms of gates from the start of each chunk: the gates are the same in each run."""
    import torch

    made = torch.Generator().manual_seed(3)
    logs = (0.8 + 0.2 * torch.rand(sizes["HEADS"], sizes["LENGTH"], generator=made)).log()
    return torch.cat([part.cumsum(1) for part in logs.split(CHUNK, 1)], 1).to(device)


def small(name: str, width: str) -> Callable[[Sizes, str], Any]:
    """Rows of length about one, as keys have, so that states do not grow."""

    def made(sizes: Sizes, device: str) -> Any:
        import torch

        return torch.randn(sizes["HEADS"], sizes["LENGTH"], sizes[width], device=device) / sizes[width] ** 0.5

    return made


def flash_linear_attention(t: dict[str, Any]) -> Callable[[], object]:
    """The two Triton kernels of flash-linear-attention for the same; its gates are logarithms to base 2."""
    from fla.ops.common.chunk_delta_h import chunk_gated_delta_rule_fwd_h  # type: ignore[import-not-found]
    from fla.ops.common.chunk_o import chunk_fwd_o  # type: ignore[import-not-found]

    q, k, w, u = (t[n][:, :, None] for n in ("Q", "K", "W", "U"))
    g = (t["G"] * LOG2E)[:, :, None]
    scale = q.shape[-1] ** -0.5

    def call() -> object:
        states, new, _ = chunk_gated_delta_rule_fwd_h(k, w, u, g)
        return chunk_fwd_o(q, k, new, states, g, scale=scale)

    return call


# ---------------------------------------------------------------- a convolution


def conv2d(t: Tensors) -> dict[str, Any]:
    """cuDNN's convolution, channels last; relu beside it."""
    import torch.nn.functional as F

    x, w = t["X"].permute(0, 3, 1, 2), t["W"].permute(0, 3, 1, 2)
    return {"Y": F.conv2d(x, w, t["BIAS"].to(x.dtype), padding=1).relu().permute(0, 2, 3, 1)}


# ---------------------------------------------------------------- cross entropy with its gradient


def cross_entropy(t: Tensors) -> dict[str, Any]:
    """The loss of each row with a smoothing of 0.1, and the gradient of their sum; -100 is no target."""
    import torch

    x, target = t["X"], t["TARGET"].long()
    size, seen = x.shape[-1], target != -100
    logs = torch.log_softmax(x.float(), -1)
    at = target.clamp(0)[:, None]
    loss = -0.9 * logs.gather(-1, at)[:, 0] - 0.1 * logs.mean(-1)
    gradient = logs.exp() - 0.1 / size - 0.9 * (torch.arange(size, device=x.device) == at)
    return {"LOSS": loss * seen, "DX": (gradient * seen[:, None]).to(x.dtype)}


def targets(sizes: Sizes, device: str) -> Any:
    """A token for each row; some are ignored."""
    import torch

    found = torch.randint(0, sizes["VOCABULARY"], (sizes["ROWS"],), device=device)
    found[3::17] = -100
    return found


def liger(t: dict[str, Any]) -> Callable[[], object]:
    """Liger's Triton kernel, which stores the gradient over the logits, here again and again."""
    from liger_kernel.ops.cross_entropy import cross_entropy_forward  # type: ignore[import-not-found]

    x, target = t["X"].clone(), t["TARGET"].long()
    return lambda: cross_entropy_forward(x, target, None, -100, 0.0, 0.1, "sum", None, False)


def autograd(t: dict[str, Any]) -> Callable[[], object]:
    """torch's own cross entropy, forward and backward."""
    import torch.nn.functional as F

    x, target = t["X"].clone().requires_grad_(), t["TARGET"].long()

    def call() -> object:
        import torch

        loss = F.cross_entropy(x, target, reduction="sum", label_smoothing=0.1)
        return torch.autograd.grad(loss, x)

    return call


# ---------------------------------------------------------------- experts


def moe_down(t: Tensors) -> dict[str, Any]:
    """A product for each expert's rows, then a weighed sum of each token's."""
    import torch

    if t["H"].dtype == torch.bfloat16:
        y = torch._grouped_mm(t["H"], t["DOWN"].mT, offs=t["FIRST"][1:])
    else:
        bounds = enumerate(pairwise(t["FIRST"].tolist()))
        y = torch.cat([t["H"][first:end] @ t["DOWN"][expert].T for expert, (first, end) in bounds])
    tokens = int(t["H"].shape[0]) // 2
    sums = torch.zeros(tokens, y.shape[1], device=y.device)
    return {"Y": sums.index_add(0, t["TOKEN"].long(), t["WEIGHT"][:, None] * y)}


def offsets(sizes: Sizes, device: str) -> Any:
    """Where the rows of each expert begin: of a router that sends every row anywhere, the same in each run."""
    import torch

    made = torch.Generator().manual_seed(1)
    counts = torch.bincount(torch.randint(0, sizes["EXPERTS"], (sizes["SLOTS"],), generator=made),
                            minlength=sizes["EXPERTS"])  # fmt: skip
    return torch.cat((torch.zeros(1, dtype=torch.int64), counts.cumsum(0))).to(device)


def tokens(sizes: Sizes, device: str) -> Any:
    """The token of each row: each token has two."""
    import torch

    return (torch.randperm(sizes["SLOTS"], generator=torch.Generator().manual_seed(2)) // 2).to(device)


# ---------------------------------------------------------------- all

KERNELS = {
    "soft_cap_bias": Flagship(
        soft_cap_bias,
        lambda s: 4.0 * s["BATCH"] * s["HEADS"] * s["LENGTH"] ** 2 * s["D"],
        peers={"flex_attention": flex_attention, "cuDNN, no cap": attention_alone},
    ),
    "mla_decode": Flagship(
        mla_decode,
        lambda s: 2.0 * s["BATCH"] * s["HEADS"] * s["KEYS"] * (2 * s["LATENT"] + s["ROTARY"]),
        peers={"torch's attention": mla_attention},
    ),
    "mamba2_chunk_scan": Flagship(
        mamba2_chunk_scan,
        lambda s: 2.0 * s["HEADS"] * s["CHUNKS"] * s["CHUNK"] * (s["CHUNK"] / 2 * (s["N"] + s["D"]) + s["N"] * s["D"]),
        rate=1e14,
        inputs={"A": sums_of_decays},
        peers={"mamba_ssm": mamba_ssm},
    ),
    "gated_delta_rule": Flagship(
        gated_delta_rule,
        lambda s: 2.0 * s["HEADS"] * s["LENGTH"] * (3 * s["D"] * s["E"] + CHUNK * (s["D"] + s["E"])),
        rate=1e14,
        inputs={
            "G": gates,
            "LAST": lambda s, device: gates(s, device)[:, CHUNK - 1 :: CHUNK],
            "Q": small("Q", "D"),
            "K": small("K", "D"),
            "W": small("W", "D"),
        },
        peers={"flash-linear-attention": flash_linear_attention},
        compiled=False,
    ),
    "conv2d": Flagship(
        conv2d,
        lambda s: 2.0 * math.prod(s[n] for n in ("BATCH", "HEIGHT", "WIDTH", "CHANNELS", "FILTERS", "KH", "KW")),
        inputs={
            "W": lambda s, device: _weights(s, device),
        },
    ),
    "cross_entropy": Flagship(
        cross_entropy,
        lambda s: 6.0 * s["ROWS"] * s["VOCABULARY"],
        unit="GB/s",
        rate=2e12,
        inputs={"TARGET": targets},
        peers={"Liger": liger, "F.cross_entropy": autograd},
    ),
    "moe_down": Flagship(
        moe_down,
        lambda s: 2.0 * s["SLOTS"] * s["HIDDEN"] * s["D"],
        inputs={"FIRST": offsets, "TOKEN": tokens},
    ),
}


def _weights(sizes: Sizes, device: str) -> Any:
    import torch

    shape = [sizes[n] for n in ("FILTERS", "KH", "KW", "CHANNELS")]
    return torch.randn(shape, device=device) / math.prod(shape[1:]) ** 0.5
