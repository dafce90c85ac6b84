"""A first spec from a handful of answers, for `tkgen new`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tkgen.ir.types import DTYPE_NAMES

LAYOUTS = ("AB", "ABt", "AtB", "AtBt")

TEMPLATE = """# {name}: C = {product} in {dtype}, a first version made by `tkgen new`.
# Change one line at a time; `tkgen watch {name}.tk` checks, builds and runs it at every save.
kernel {name}
  dims M = {m}, N = {n}, K = {k}
  global A : {dtype}[{a}]
  global B : {dtype}[{b}]
  global C : f32[M, N]

  block {rows} x {cols} step {step}
  waves {waves}
  shared A, B buffers {buffers}
  accumulate C : f32 tile {tile} x {tile}
  store C
"""


@dataclass(frozen=True)
class Answers:
    """What `tkgen new` asks for."""

    name: str
    layout: str = "ABt"
    dtype: str = "bf16"
    size: str = "8192 x 8192 x 8192"
    block: str = "128 x 128 x 64"
    waves: str = "2 x 2"
    buffers: int = 2


def three(text: str, what: str) -> tuple[int, int, int]:
    """Three numbers of `128 x 128 x 64`. Raises ValueError."""
    numbers = re.findall(r"\d+", text)
    if len(numbers) != 3 or not re.fullmatch(r"\s*\d+\s*[x,]\s*\d+\s*[x,]\s*\d+\s*", text):
        raise ValueError(f"{what} is three numbers such as `128 x 128 x 64`, not `{text}`")
    m, n, k = map(int, numbers)
    return m, n, k


def spec_text(answers: Answers) -> str:
    """The spec that `answers` describe; whether it can be built is for the checks to say.

    Raises:
        ValueError: an answer of the wrong form.
    """
    if answers.layout not in LAYOUTS:
        raise ValueError(f"the layout is one of {', '.join(LAYOUTS)}, not `{answers.layout}`")
    if answers.dtype not in DTYPE_NAMES:
        raise ValueError(f"the type is one of {', '.join(DTYPE_NAMES)}, not `{answers.dtype}`")
    if not re.fullmatch(r"\s*\d+(\s*x\s*\d+)?\s*", answers.waves):
        raise ValueError(f"the waves are `4 x 2` or `8`, not `{answers.waves}`")
    m, n, k = three(answers.size, "the size")
    rows, cols, step = three(answers.block, "the block")
    waves = [int(w) for w in re.findall(r"\d+", answers.waves)]
    per_wave = min(rows // waves[0], cols // waves[-1]) if len(waves) == 2 else 32
    tile = next((t for t in (32, 16) if per_wave % t == 0), 16)
    transposed_a, transposed_b = "At" in answers.layout, answers.layout.endswith("Bt")
    return TEMPLATE.format(
        name=answers.name, dtype=answers.dtype, m=m, n=n, k=k, rows=rows, cols=cols, step=step,
        product=f"{'At' if transposed_a else 'A'} {'Bt' if transposed_b else 'B'}",
        a="K, M" if transposed_a else "M, K", b="N, K" if transposed_b else "K, N",
        waves=" x ".join(map(str, waves)), buffers=answers.buffers, tile=tile,
    )  # fmt: skip
