"""The error of sums of products that matrix units truncate: those of 8-bit floats on Hopper.

One instruction adds `depth` products and the sum before, c. It aligns all of them to the largest exponent E among them,
cuts each off, towards zero, after `fraction` bits (u = 2^-fraction: at 2^E u), adds what is left exactly, and cuts the
sum off to `fraction` bits after its leading one. (DeepSeek-V3 technical report, arXiv 2412.19437, section 3.5.2, on
H800; Xie et al., MMA-Sim, arXiv 2511.10909, whose model of `wgmma` gives the hardware's bits; PyTorch's blog on the
accumulators of 8-bit floats calls the same e8m13. NVIDIA documents none of it.) With s the largest magnitude of an
addend, 2^E <= s, an instruction is off by

- less than u s for each product,
- less than u p for c, with p the largest magnitude of a product: where c has the largest exponent, it is on its grid,
- less than u times its sum.

The last two are counted in full, as all could pull the same way: sums shrink by them. What is cut off a product has the
product's sign, and is here taken to know nothing else of it: its mean, at most u s / 2, counts as often as there are
more products of one sign than of the other (twice: s may grow on the way), and what varies about it adds up to at most
t u s sqrt(n) but for a probability of 2 exp(-t^2 / 2) (Hoeffding), as in `tkgen.ir.rounding`. Where counting all
products in full gives less, that is the bound: the worst case of all.

Partial sums are those in the order of the instructions, along the contraction, which kernels for Hopper keep to.
"""

from __future__ import annotations

from math import expm1, sqrt

import torch
from torch import Tensor

from tkgen.targets import ShortSums

DEVIATIONS_SQUARED = 80.0  # t^2
SECOND_ORDER = 1 + 2.0**-10  # what is cut off what was cut off


def cut_off(left: Tensor, right: Tensor, equation: str, sums: ShortSums, least: tuple[float, float]) -> Tensor:
    """The bound, for factors in f64: `equation` is einsum's, over both, which have one direction to sum over.

    `least` are the least normal numbers of both types: subnormals are aligned by the exponent of these.
    """
    texts, out = equation.split("->")
    of_left, of_right = texts.split(",")
    (summed,) = (set(of_left) & set(of_right)) - set(out)
    at, also = of_left.index(summed), of_right.index(summed)
    outer = f"{of_left.replace(summed, '')},{of_right.replace(summed, '')}->{out}"
    unit, t = 2.0**-sums.fraction, sqrt(DEVIATIONS_SQUARED)
    largest_factors = (f.abs().amax(of).clamp(min=x) for f, of, x in zip((left, right), (at, also), least, strict=True))
    product = torch.einsum(outer, *largest_factors)
    total, signs = torch.zeros_like(product), torch.zeros_like(product)
    squares, whole, results, most, uneven, bound = (torch.zeros_like(product) for _ in range(6))
    for a, b in zip(left.split(sums.depth, at), right.split(sums.depth, also), strict=True):
        n = a.shape[at]
        largest = torch.maximum(total.abs() + bound, product)
        total = total + torch.einsum(equation, a, b)
        signs = signs + torch.einsum(equation, a.sign(), b.sign())
        results += unit * (product + total.abs() + bound)
        squares += n * largest.square()
        whole += n * unit * largest
        most, uneven = torch.maximum(most, largest), torch.maximum(uneven, signs.abs())
        usual = unit * (most * uneven + t * squares.sqrt())
        bound = (torch.minimum(whole, usual) + results) * SECOND_ORDER
    return bound


def cut_off_start(value: Tensor, error: Tensor | None, n: int, sums: ShortSums) -> Tensor:
    """Bound what is cut off further where a sum of `n` products starts at `value`, off by `error`, and not at zero.

    With x its magnitude, each addend's largest grows by x. So what is cut off the products grows by u x for each of
    them, and by t u x sqrt(n) where `cut_off` takes their mean, and each sum is cut off by u x more. All of it is added
    to x for the instructions that follow.
    """
    start = value.abs() if error is None else value.abs() + error
    varies = sqrt(DEVIATIONS_SQUARED * n) if n > DEVIATIONS_SQUARED else 0.0  # of fewer all are counted in full
    return start * expm1(2.0**-sums.fraction * (n + varies - (-n // sums.depth)))
