"""The meaning of the kernels of hand_written.hip, their launches, and wrong lines with the cause that each has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as nn
from torch import Tensor


def gemm(A: Tensor, B: Tensor) -> Tensor:
    """Return the product."""
    return A @ B


def linear(A: Tensor, B: Tensor, bias: Tensor) -> Tensor:
    """Return a linear layer with a factor, and its positive part."""
    return torch.relu(0.3 * (A @ B.T) + bias)


def mean(X: Tensor) -> Tensor:
    """Return means of rows."""
    return X.mean(1)


def softmax(X: Tensor) -> Tensor:
    """Return the softmax of rows."""
    return torch.softmax(X, 1)


def norm(X: Tensor, W: Tensor, B: Tensor) -> Tensor:
    """Return the layer norm of rows."""
    return nn.layer_norm(X, (128,), W, B, 1e-5)


def attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """Return the attention of a head."""
    return torch.softmax(Q @ K.T * 0.1767767, 1) @ V


def stencil(X: Tensor) -> Tensor:
    """Return five points, weighted; zero outside."""
    X = nn.pad(X, (1, 1, 1, 1))
    around = X[1:-1, :-2] + X[1:-1, 2:] + X[:-2, 1:-1] + X[2:, 1:-1]
    return 0.6 * X[1:-1, 1:-1] + 0.1 * around


@dataclass(frozen=True)
class Launched:
    """The launch of a kernel, in the words of the command."""

    grid: str
    block: str
    arguments: Sequence[str]


LAUNCHES = {
    "gemm": Launched("2,2", "256", ["A:f32[32,48]=randn:in,B:f32[48,32]=randn:in,C:f32[32,32]=nan:out,i32=32,i32=48"]),
    "linear": Launched(
        "2,2", "128",
        ["A:f32[32,64]=randn:in,B:f32[32,64]=randn:in,bias:f32[32]=randn:in,D:f32[32,32]=nan:out,i32=32,i32=64"],
    ),
    "mean": Launched("4,1", "64", ["X:f32[4,200]=randn:in,Y:f32[4]=nan:out,i32=200"]),
    "softmax": Launched("4,1", "64", ["X:f32[4,128]=randn:in,Y:f32[4,128]=nan:out"]),
    "norm": Launched(
        "4,1", "64", ["X:f32[4,128]=randn:in,W:f32[128]=randn:in,B:f32[128]=randn:in,Y:f32[4,128]=nan:out"]
    ),
    "attention": Launched(
        "2,1", "64", ["Q:f32[32,32]=randn:in,K:f32[48,32]=randn:in,V:f32[48,32]=randn:in,O:f32[32,32]=nan:out"]
    ),
    "stencil": Launched("2,2", "256", ["X:f32[32,32]=randn:in,Y:f32[32,32]=nan:out,i32=32"]),
}  # fmt: skip


@dataclass(frozen=True)
class Wrong:
    """A kernel with one text in the place of another. `cause` is a pattern that the named cause matches."""

    kernel: str
    old: str
    new: str
    cause: str


MUTANTS = (
    Wrong("gemm", "t < K; t", "t < K - 16; t", r"(without|lacks).*A\[0, 32\.\.47\] \* B\[32\.\.47, 0\]"),
    Wrong("gemm", "int k = 0; k < 16", "int k = 1; k < 16", r"(without|lacks).* 0 and so on, each 16, to 32"),
    Wrong(
        "gemm", "sum += a[y][k] * b[k][x];", "sum += (k == 3 ? 2 : 1) * a[y][k] * b[k][x];",
        r"twice.* 3 and so on, each 16, to 35",
    ),
    Wrong("gemm", "A[row * K + t + x]", "A[row * K + (t & ~16) + x]", r"0\.\.15.* in the place of .*16\.\.31"),
    Wrong("gemm", "C[row * N + col]", "C[col * N + row]", r"holds what belongs to C\[1, 0\]"),
    Wrong("gemm", "float sum = 0;", "float sum = 1;", r"with \+1 in its sum|with `\+ 1`"),
    Wrong(
        "gemm", "B[(t + y) * N + col]", "B[(t + (y ^ 1)) * N + col]",
        r"B at the neighbour along dimension 0|A at the neighbour along dimension 1",
    ),
    Wrong("linear", " + bias[col + 8 * i]", "", r"without `\+ bias`"),
    Wrong("linear", "bias[col + 8 * i]", "bias[row]", r"bias by rows"),
    Wrong("linear", "0.3f * sum[i] +", "0.3f * 0.3f * sum[i] +", r"0\.09|`\* 0\.3` twice"),
    Wrong("linear", "value > 0 ? value : 0", "value", r"without the choice"),
    Wrong(
        "linear", "0.3f * sum[i] + bias[col + 8 * i]", "0.3f * (sum[i] + bias[col + 8 * i])",
        r"bias.*0\.3|0\.3.*bias",
    ),
    Wrong("linear", "a[y][k] * b[x + 8][k]", "a[y][k] * b[x][k]", r"-8 along dimension 1"),
    Wrong("mean", "int half = 32; half;", "int half = 16; half;", r"without.* 32\.\.63 and so on, each 64"),
    Wrong("mean", "i < n; i += 64", "i + 63 < n; i += 64", r"without terms 137\.\.199"),
    Wrong("mean", "part[0] / n", "part[0] / (n - 1)", r"with 199 in the place of 200"),
    Wrong(
        "mean", "sum += X[blockIdx.x * n + i];", "sum += X[blockIdx.x * n + i] * (i < 64 ? 2 : 1);",
        r"with twice.* 0\.\.63",
    ),
    Wrong("softmax", "float sum = eu + ev;", "float sum = eu;", r"without.* 64\.\.127"),
    Wrong("softmax", "eu / sum", "eu", r"without `/ "),
    Wrong("softmax", "ev / sum", "ev / (sum + 1)", r"with \+1 in its sum"),
    Wrong("softmax", "x[threadIdx.x + 64];", "x[threadIdx.x + 63];", r"63"),
    Wrong("norm", "u = x[t] - m,", "u = x[t],", r"without `- "),
    Wrong("norm", "+ 1e-5f", "+ 1e-6f", r"with 1e-06 in the place of 1e-05"),
    Wrong("norm", "v * scale * W[t + 64]", "v * scale * W[t]", r"W \+64 along"),
    Wrong("norm", "u * scale * W[t] + B[t]", "u * scale * W[t]", r"without `\+ B`"),
    Wrong("norm", "sum / 128,", "sum / 64,", r"with `- the quotient` twice"),
    Wrong("attention", "int j = 0; j < 48; ++j) o", "int j = 0; j < 47; ++j) o", r"without.* 47 .*V\[47, 0\]"),
    Wrong("attention", "0.1767767f", "0.25f", r"0\.25|\* 1 "),
    Wrong("attention", "o / sum", "o", r"without `/ "),
    Wrong("attention", "V[j * 32 + d]", "V[(j ^ 1) * 32 + d]", r"at the neighbour along dimension [01]"),
    Wrong("stencil", "t[y][x - 1] + ", "", r"without `"),
    Wrong("stencil", "t[y + 1][x])", "t[y - 1][x])", r"-2 along dimension 0"),
    Wrong("stencil", "0.6f * t", "0.5f * t", r"with 0\.5 in the place of 0\.6"),
    Wrong("stencil", "if (x == 16) t[y][17] = at(row, col + 1);", "if (x == 16) t[y][17] = 0;", r"without `"),
)  # fmt: skip
