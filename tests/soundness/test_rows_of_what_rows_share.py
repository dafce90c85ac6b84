"""Rows that reduce what no row axis is in, gather twice by one tensor, or are fewer than a block's waves.

All of it was accepted. The C++ of the reductions and gathers did not compile, or loaded one row of several; the last
was a race. References are written from the mathematics, in f64, not from the equations of the spec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from _pytest.mark import ParameterSet
from executed import computed
from torch import Tensor
from typer.testing import CliRunner

import tkgen
from tkgen.api import load
from tkgen.cli import app

Tensors = Mapping[str, Tensor]
TARGETS = ("gfx90a", "gfx942", "gfx950", "sm_90a")


@dataclass(frozen=True)
class Case:
    """A spec, the shapes of its inputs (of integers: what they count), and what it means."""

    text: str
    inputs: Mapping[str, tuple[tuple[int, ...], torch.dtype | int]]
    meant: Callable[[Tensors], Tensor | tuple[Tensor, ...]]


def spec(dims: str, tensors: str, over: str, body: str, waves: int = 4) -> str:
    """The text of a kernel."""
    globals_ = "\n".join(f"  global {t.strip()}" for t in tensors.split(";"))
    lines = "\n".join(f"  {line}" for line in body.strip("\n").splitlines())
    return f"kernel drawn\n  dims {dims}\n{globals_}\n  over {over}\n  waves {waves}\n{lines}\n"


B16, F32, I32 = torch.bfloat16, torch.float32, torch.int32


def softmax_of_weights(t: Tensors) -> Tensor:
    return t["X"] * torch.softmax(t["W"], -1)


def moments(t: Tensors) -> tuple[Tensor, Tensor]:
    return t["X"].mean(-1), t["X"].var(-1, unbiased=False)


def rotated(t: Tensors) -> Tensor:
    cos, sin = (t[name][t["POS"].long()][:, None] for name in "CS")
    a, b = t["X"].unbind(2)
    return torch.stack([a * cos - b * sin, b * cos + a * sin], 2)


def faded(t: Tensors) -> Tensor:
    b = torch.zeros(())
    for part in t["W"].split(1024):
        b = 0.5 * b + part.sum()
    return t["X"].sum(-1) / b


CASES = {
    "weight_sum": Case(
        spec("R = 24, D = 256", "X : bf16[R, D]; W : bf16[D]; Y : bf16[R, D]", "r in R by 4",
             "n = rowsum(abs(W))\nY[r] = X[r] * W / n"),
        {"X": ((24, 256), B16), "W": ((256,), B16)}, lambda t: t["X"] * t["W"] / t["W"].abs().sum(),
    ),
    "loop_weight_sum": Case(
        spec("R = 8, D = 4096", "X : bf16[R, D]; W : bf16[D]; Z : f32[R]", "r in R by 4",
             "carry a : f32[r] = 0, b : f32[r] = 0\neach i in D by 1024\n"
             "  a = a + rowsum(X[r, i])\n  b = 0.5 * b + rowsum(W[i])\nZ[r] = a / b"),
        {"X": ((8, 4096), B16), "W": ((4096,), B16)}, faded,
    ),
    "welford": Case(
        spec("T = 8, D = 1000", "X : bf16[T, D]; M : f32[T]; V : f32[T]", "t in T by 4",
             "carry c : f32[t] = 0, m : f32[t] = 0, s : f32[t] = 0\neach j in D by 256\n  x = X[t, j]\n"
             "  k = rowsum(where(j >= 0, 1, 0))\n  y = rowsum(x) / k\n  d = y - m\n  n = c + k\n"
             "  s = s + rowsum((x - y) * (x - y)) + d * d * c * k / n\n  m = m + d * k / n\n  c = n\n"
             "M[t] = m\nV[t] = s / c"),
        {"X": ((8, 1000), B16)}, moments,
    ),
    "softmax_of_weights_in_waves": Case(
        spec("R = 6, D = 4096", "X : f32[R, D]; W : bf16[D]; Y : f32[R, D]", "r in R by 2",
             "m = rowmax(W)\ne = exp(W - m)\nl = rowsum(e)\nY[r] = X[r] * e / l"),
        {"X": ((6, 4096), F32), "W": ((4096,), B16)}, softmax_of_weights,
    ),
    "of_constants_and_coordinates": Case(
        spec("R = 7, D = 100", "X : f32[R, D]; Y : f32[R, D]; Z : f32[R]", "r in R by 4",
             "n = rowsum(where(coordinate(D) >= 3, 1, 0.5))\nm = rowmax(coordinate(D) * 2)\n"
             "Y[r] = X[r] / n + m\nZ[r] = n + 0 * rowmax(X[r])"),
        {"X": ((7, 100), F32)}, lambda t: (t["X"] / 98.5 + 198, torch.full((7,), 98.5)),
    ),
    "weights_of_a_batch": Case(
        spec("B = 2, R = 5, D = 96", "X : f32[B, R, D]; W : f32[B, D]; V : f32[B, R]; Y : f32[B, R, D]; Z : f32[B, R]",
             "b in B, r in R by 4", "n = rowsum(W[b] * W[b])\nk = n * 2 + 1\n"
             "Y[b, r] = X[b, r] * k\nZ[b, r] = k / n * V[b, r]", 2),
        {"X": ((2, 5, 96), F32), "W": ((2, 96), F32), "V": ((2, 5), F32)},
        lambda t: (t["X"] * (2 * t["W"].square().sum(-1) + 1)[:, None, None],
                   (2 + 1 / t["W"].square().sum(-1))[:, None] * t["V"]),
    ),
    "carried_divisor": Case(
        spec("R = 4, D = 512", "X : f32[R, D]; V : f32[R]; Z : f32[R]", "r in R by 2",
             "v = abs(V[r]) + 1\nw = v * v\ncarry m : f32[r] = 1\neach i in D by 128\n"
             "  x = X[r, i] / m\n  m = m + rowsum(abs(x)) * 0.01 + w\nZ[r] = m + v", 1),
        {"X": ((4, 512), F32), "V": ((4,), F32)}, lambda t: carried_divisor(t),
    ),
    "carried_as_it_is": Case(
        spec("R = 4, D = 512", "X : f32[R, D]; W : f32[D]; Z : f32[R]; Y : f32[R, D]", "r in R by 4",
             "carry b : f32[r] = 0, p : f32[r] = 0\neach i in D by 128\n  p = b\n  b = rowsum(W[i]) + 0 * b\n"
             "each i in D by 128\n  Y[r, i] = X[r, i] / b\nZ[r] = b - p", 2),
        {"X": ((4, 512), F32), "W": ((512,), F32)},
        lambda t: ((t["W"][384:].sum() - t["W"][256:384].sum()).expand(4), t["X"] / t["W"][384:].sum()),
    ),
    "two_gathers": Case(
        spec("L = 9, V = 16, D = 64", "POS : i32[L]; C : f32[V, D]; S : f32[V, D]; Y : f32[L, D]", "n in L by 4",
             "Y[n] = C[POS[n]] + S[POS[n]]"),
        {"POS": ((9,), 16), "C": ((16, 64), F32), "S": ((16, 64), F32)},
        lambda t: t["C"][t["POS"].long()] + t["S"][t["POS"].long()],
    ),
    "gathered_number": Case(
        spec("L = 9, V = 16, D = 64", "POS : i32[L]; C : f32[V]; S : f32[V, D]; X : f32[L, D]; Y : f32[L, D]",
             "n in L by 4", "Y[n] = X[n] * C[POS[n]] + S[POS[n]] * POS[n]"),
        {"POS": ((9,), 16), "C": ((16,), F32), "S": ((16, 64), F32), "X": ((9, 64), F32)},
        lambda t: t["X"] * t["C"][t["POS"].long()][:, None] + t["S"][t["POS"].long()] * t["POS"][:, None],
    ),
    "gathered_in_a_loop": Case(
        spec("L = 5, V = 16, D = 512", "POS : i32[L]; C : bf16[V, D]; W : f32[D]; S : f32[V, D]; Z : f32[L]",
             "n in L by 4", "carry a : f32[n] = 0\neach j in D by 128\n"
             "  a = a + rowsum(C[POS[n], j] * W[j]) + rowmax(S[POS[n], j]) * rowmin(W[j])\nZ[n] = a"),
        {"POS": ((5,), 16), "C": ((16, 512), B16), "W": ((512,), F32), "S": ((16, 512), F32)},
        lambda t: gathered_in_a_loop(t),
    ),
    "rope_positions": Case(
        spec("L = 5, M = 32, H = 4, P = 2, D = 64",
             "POS : i32[L]; X : bf16[L, H, P, D]; C : f32[M, D]; S : f32[M, D]; Y : bf16[L, H, P, D]",
             "n in L by 2, h in H by 4", "a = X[n, h, 0]\nb = X[n, h, 1]\nc = C[POS[n]]\nd = S[POS[n]]\n"
             "Y[n, h, 0] = a * c - b * d\nY[n, h, 1] = b * c + a * d"),
        {"POS": ((5,), 32), "X": ((5, 4, 2, 64), B16), "C": ((32, 64), F32), "S": ((32, 64), F32)}, rotated,
    ),
    "a_column_of_weights": Case(
        spec("R = 16, D = 96, P = 3", "X : bf16[R, D]; W : bf16[D, P]; Y : f32[R, D]", "r in R by 4, d in D by 96",
             "Y[r, d] = X[r, d] + W[d, 1] * 2"),
        {"X": ((16, 96), B16), "W": ((96, 3), B16)}, lambda t: t["X"] + 2 * t["W"][:, 1],
    ),
    "columns_beside_a_transposition": Case(  # only one row of four was loaded
        spec("R = 64, D = 64, P = 2", "X : f32[R, D]; Z : f32[D, R]; T : f32[R, D, P]; Y : f32[R, D, P]",
             "t in R by 64, c in D by 64",
             "Y[t, c, 1] = X[t, c] + Z[c, t] + T[t, c, 1]\nY[t, c, 0] = X[t, c] - T[t, c, 0]"),
        {"X": ((64, 64), F32), "Z": ((64, 64), F32), "T": ((64, 64, 2), F32)},
        lambda t: torch.stack([t["X"] - t["T"][..., 0], t["X"] + t["Z"].T + t["T"][..., 1]], -1),
    ),
    "integers": Case(
        spec("R = 8, D = 64", "X : i8[R, D]; W : i8[D]; Y : i32[R, D]; Z : i8[R]", "r in R by 4",
             "n = rowmax(W)\nY[r] = X[r] * W + n\nZ[r] = rowmin(X[r])", 2),
        {"X": ((8, 64), 100), "W": ((64,), 100)},
        lambda t: (t["X"] * t["W"] + t["W"].max(), t["X"].amin(-1)),
    ),
    "a_count_that_belongs_to_no_row": Case(
        spec("R = 5, D = 100", "X : f32[R, D]; S : f32[R]", "r in R by 4",
             "carry c : f32 = 0, s : f32[r] = 0\neach j in D by 32\n  s = s + rowsum(X[r, j])\n  c = c + 1\n"
             "S[r] = s / c", 1),
        {"X": ((5, 100), F32)}, lambda t: t["X"].sum(-1) / 4,
    ),
    "one_row_of_four_waves": Case(
        spec("H = 3, W = 256", "X : f32[H, W]; Y : f32[H, W]", "h in H, w in W by 256", "Y[h, w] = X[h, w]"),
        {"X": ((3, 256), F32)}, lambda t: t["X"],
    ),
    "one_row_in_place": Case(
        spec("H = 3, W = 64", "X : f32[H, W]", "h in H, w in W by 64",
             "m = rowmax(X[h, w])\nX[h, w] = X[h, w] - m"),
        {"X": ((3, 64), F32)}, lambda t: t["X"] - t["X"].amax(-1, keepdim=True),
    ),
    "one_row_of_a_loop": Case(
        spec("H = 3, W = 1000", "X : f32[H, W]; Y : f32[H, W]; S : f32[H]", "h in H",
             "carry a : f32 = 0\neach i in W by 64\n  a = a + rowsum(X[h, i])\n"
             "each i in W by 64\n  Y[h, i] = X[h, i] / (abs(a) + 1)\nS[h] = a", 2),
        {"X": ((3, 1000), F32)},
        lambda t: (t["X"] / (t["X"].sum(-1, keepdim=True).abs() + 1), t["X"].sum(-1)),
    ),
}  # fmt: skip


def carried_divisor(t: Tensors) -> Tensor:
    v = t["V"].abs() + 1
    m = torch.ones(4, dtype=torch.float64)
    for part in t["X"].split(128, -1):
        m = m + (part / m[:, None]).abs().sum(-1) * 0.01 + v * v
    return m + v


def gathered_in_a_loop(t: Tensors) -> Tensor:
    c, s = (t[name][t["POS"].long()].unflatten(-1, (4, 128)) for name in "CS")
    w = t["W"].unflatten(-1, (4, 128))
    return (c * w).sum((-1, -2)) + (s.amax(-1) * w.amin(-1)).sum(-1)


def inputs_of(case: Case) -> dict[str, Tensor]:
    """Numbers for each input: normally distributed, or integers below a count."""
    generator = torch.Generator().manual_seed(7)
    found = {}
    for name, (shape, kind) in case.inputs.items():
        if isinstance(kind, int):
            drawn = torch.randint(0, kind, shape, generator=generator)
            found[name] = drawn.to(torch.int32 if f"{name} : i32" in case.text else torch.int8)
        else:
            found[name] = torch.randn(shape, generator=generator).to(kind)
    return found


def on_targets() -> Iterator[ParameterSet]:
    """Each case on one target, in turn, and slowly on the others."""
    for number, name in enumerate(CASES):
        for target in TARGETS:
            marks = () if target == TARGETS[number % len(TARGETS)] else pytest.mark.slow
            yield pytest.param(name, target, marks=marks, id=f"{name}-{target}")


@pytest.mark.parametrize(("name", "target"), [*on_targets()])
def test_right_on_the_machine_code_or_the_host(name: str, target: str, tmp_path: Path) -> None:
    case = CASES[name]
    path = tmp_path / "drawn.tk"
    path.write_text(case.text)
    build = load(path, target=target).build()
    inputs = inputs_of(case)
    found = computed(build, *inputs.values(), host=target == "sm_90a")
    meant = case.meant({n: t.double() for n, t in inputs.items()})
    for ours, theirs in zip(found, meant if isinstance(meant, tuple) else (meant,), strict=True):
        torch.testing.assert_close(ours.double(), theirs.double(), rtol=1e-2 if ours.dtype == B16 else 2e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["one_row_of_four_waves", "one_row_in_place"])
def test_waves_without_a_row_touch_nothing(name: str, tmp_path: Path) -> None:
    """All waves of a block stored its one row: the referee saw a race, `check` warned of idle lanes."""
    path = tmp_path / "drawn.tk"
    path.write_text(CASES[name].text)
    found = CliRunner().invoke(app, ["run", str(path), "--schedules", "3"])
    assert found.exit_code == 0, found.output


def test_a_sum_of_what_is_made_of_each_tile_goes_tile_by_tile(tmp_path: Path) -> None:
    """The reference took the maximum of whole rows, as if the loop only summed: right code was called wrong."""
    text = spec(
        "R = 4, D = 64", "X : f32[R, D]; S : f32[R]", "t in R by 2",
        "carry a : f32[t] = 0\neach j in D by 16\n  k = rowmax(X[t, j])\n  a = a + rowsum(max(X[t, j], k))\nS[t] = a",
    )  # fmt: skip
    path = tmp_path / "drawn.tk"
    path.write_text(text)
    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(3))
    meant = x.unflatten(1, (4, 16)).amax(-1).sum(-1) * 16
    torch.testing.assert_close(tkgen.run(load(path).build(), x), meant)
    found = CliRunner().invoke(app, ["run", str(path)])
    assert found.exit_code == 0, found.output
