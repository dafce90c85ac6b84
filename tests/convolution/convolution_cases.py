"""Kernels of convolutions as matrix products, each beside torch's operator of the same meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import conv1d, conv2d, pad

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Case:
    """A spec and what torch computes of the same tensors, channels last."""

    name: str
    text: str
    reference: Callable[[Tensors], Tensor]

    def __str__(self) -> str:
        return self.name

    def of(self, dtype: str) -> str:
        """The spec with operands of another type of 16 bits."""
        return self.text.replace("bf16", dtype)


def last(image: Tensor) -> Tensor:
    """Channels from the second dimension to the last one."""
    return image.movedim(1, -1)


def first(image: Tensor) -> Tensor:
    """The other way round."""
    return image.movedim(-1, 1)


def image(name: str, dims: str, index: str, more: str = "", store: str = "f32", bias: bool = False) -> str:
    """A 2-D convolution; `index` is that of X along height, with `p`, `r` and the names of the other direction in
    braces."""
    rows = index.format(out="p", tap="r")
    cols = index.format(out="q", tap="s")
    return f"""kernel {name}
  dims {dims}
  global X : bf16[BATCH, H, W, C]
  global F : bf16[OUT, R, S, C]
{"  global B : f32[OUT]" if bias else ""}
  global Y : {store}[BATCH, P, Q, OUT]
  over (b in BATCH, p in P, q in Q) by 64, o in OUT by 64
  tail masked
  waves 2 x 2
{more or "  shared X, F"}
  each (r in R, s in S, c in C) by 32
    y = y + X[b, {rows}, {cols}, c] @ F[o, r, s, c].T
  Y[b, p, q, o] = {"relu(y + B[o])" if bias else "y"}
"""


CASES = (
    Case(
        "3 x 3, padding 1",
        image("same", "BATCH = 2, H = 9, W = 7, C = 64, OUT = 40, R = 3, S = 3, P = 9, Q = 7", "{out} + {tap} - 1"),
        lambda t: last(conv2d(first(t["X"]), first(t["F"]), padding=1)),
    ),
    Case(
        "3 x 3, stride 2, bias and relu",
        image(
            "strided", "BATCH = 3, H = 11, W = 14, C = 32, OUT = 72, R = 3, S = 3, P = 6, Q = 7",
            "2 * {out} + {tap} - 1", "  shared X, F buffers 2 via registers", "bf16", bias=True,
        ),
        lambda t: last(conv2d(first(t["X"]), first(t["F"]), t["B"], 2, 1).relu()),
    ),
    Case(
        "2 x 5, dilation 2 and 3, no padding",
        image(
            "dilated", "BATCH = 2, H = 8, W = 21, C = 32, OUT = 64, R = 2, S = 5, P = 6, Q = 9", "{out} + {tap} * 2"
        ).replace("q + s * 2", "q + 3 * s"),
        lambda t: last(conv2d(first(t["X"]), first(t["F"]), dilation=(2, 3))),
    ),
    Case(
        "3 x 3 of channels that are no K-step",
        image("narrow", "BATCH = 2, H = 10, W = 9, C = 8, OUT = 24, R = 3, S = 3, P = 10, Q = 9", "{out} + {tap} - 1"),
        lambda t: last(conv2d(first(t["X"]), first(t["F"]), padding=1)),
    ),
    Case(
        "1 x 1, stride 2",
        """kernel point
  dims BATCH = 2, H = 9, W = 9, C = 64, OUT = 64, P = 5, Q = 5
  global X : bf16[BATCH, H, W, C]
  global F : bf16[OUT, C]
  global Y : f32[BATCH, P, Q, OUT]
  over (b in BATCH, p in P, q in Q) by 64, o in OUT by 64
  tail masked
  waves 2 x 2
  shared X, F
  each c in C by 32
    y = y + X[b, 2 * p, 2 * q, c] @ F[o, c].T
  Y[b, p, q, o] = y
""",
        lambda t: last(conv2d(first(t["X"]), t["F"][:, :, None, None], stride=2)),
    ),
    Case(
        "groups",
        """kernel groups
  dims BATCH = 2, H = 7, W = 6, C = 96, GROUPS = 3, CG = 32, OG = 48, R = 3, S = 3, P = 7, Q = 6
  global X : bf16[BATCH, H, W, C]
  global F : bf16[GROUPS, OG, R, S, CG]
  global Y : f32[BATCH, P, Q, GROUPS, OG]
  over g in GROUPS, (b in BATCH, p in P, q in Q) by 64, o in OG by 48
  tail masked
  waves 2 x 1
  shared X, F
  each (r in R, s in S, c in CG) by 32
    y = y + X[b, p + r - 1, q + s - 1, CG * g + c] @ F[g, o, r, s, c].T
  Y[b, p, q, g, o] = y
""",
        lambda t: last(conv2d(first(t["X"]), first(t["F"].flatten(0, 1)), padding=1, groups=3)).unflatten(-1, (3, 48)),
    ),
    Case(
        "weights with channels of the output last, an image at a time",
        """kernel filters
  dims BATCH = 3, H = 6, W = 11, C = 64, OUT = 64, R = 3, S = 3, P = 6, Q = 11
  global X : bf16[BATCH, H, W, C]
  global F : bf16[R, S, C, OUT]
  global Y : f32[BATCH, P, Q, OUT]
  over b in BATCH, (p in P, q in Q) by 64, o in OUT by 64
  tail masked
  waves 2 x 2
  shared X, F buffers 2
  each (r in R, s in S, c in C) by 32
    y = y + X[b, p + r - 1, q + s - 1, c] @ F[r, s, c, o]
  Y[b, p, q, o] = y
""",
        lambda t: last(conv2d(first(t["X"]), t["F"].permute(3, 2, 0, 1), padding=1)),
    ),
    Case(
        "causal conv1d",
        """kernel causal
  dims BATCH = 2, T = 77, C = 64, OUT = 64, WIDTH = 4
  global X : bf16[BATCH, T, C]
  global V : bf16[OUT, WIDTH, C]
  global Y : bf16[BATCH, T, OUT]
  over b in BATCH, t in T by 64, o in OUT by 64
  tail masked
  waves 2 x 2
  shared X, V
  each (w in WIDTH, c in C) by 32
    y = y + X[b, t + w - WIDTH + 1, c] @ V[o, w, c].T
  Y[b, t, o] = y
""",
        lambda t: last(conv1d(pad(first(t["X"]), (3, 0)), first(t["V"]))),
    ),
    Case(
        "causal conv1d of flattened sequences, dilated",
        """kernel dilated
  dims BATCH = 5, T = 29, C = 48, OUT = 56, WIDTH = 3
  global X : bf16[BATCH, T, C]
  global V : bf16[OUT, WIDTH, C]
  global R : bf16[BATCH, T, OUT]
  global Y : bf16[BATCH, T, OUT]
  over (b in BATCH, t in T) by 64, o in OUT by 64
  tail masked
  waves 2 x 2
  shared X, V buffers 3 via registers
  each (w in WIDTH, c in C) by 32
    y = y + X[b, t + 2 * w - 2 * (WIDTH - 1), c] @ V[o, w, c].T
  Y[b, t, o] = y + R[b, t, o]
""",
        lambda t: last(conv1d(pad(first(t["X"]), (4, 0)), first(t["V"]), dilation=2)) + t["R"],
    ),
    Case(
        "a transposed convolution by its gradient, taps from the last one on",
        """kernel gradient
  dims BATCH = 2, H = 6, W = 7, C = 32, OUT = 64, R = 3, S = 3, P = 8, Q = 9
  global D : bf16[BATCH, H, W, C]
  global F : bf16[C, R, S, OUT]
  global G : bf16[OUT, R, S, C]
  global Y : f32[BATCH, P, Q, OUT]
  over (b in BATCH, p in P, q in Q) by 64, o in OUT by 64
  tail masked
  waves 2 x 2
  shared D, G
  each (r in R, s in S, c in C) by 32
    y = y + D[b, p - r, q - s, c] @ G[o, r, s, c].T
  Y[b, p, q, o] = y
""".replace("  global F : bf16[C, R, S, OUT]\n", ""),
        lambda t: last(conv2d(first(t["D"]), first(t["G"]).flip(2, 3), padding=2)),
    ),
    Case(
        "one step of a shift",
        """kernel shift
  dims BATCH = 2, T = 70, C = 64, OUT = 64
  global X : bf16[BATCH, T, C]
  global V : bf16[OUT, C]
  global Y : f32[BATCH, T, OUT]
  over b in BATCH, t in T by 64, o in OUT by 64
  tail masked
  waves 2 x 2
  shared X, V
  each c in C by 32
    y = y + X[b, t - 1, c] @ V[o, c].T
  Y[b, t, o] = y
""",
        lambda t: pad(t["X"], (0, 0, 1, -1)) @ t["V"].T,
    ),
)  # fmt: skip
