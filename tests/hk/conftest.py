from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tkgen import api

TEXT = """\
kernel {name}
  target gfx950
  dims M = {m}, N = {n}, K = {k}
  global A : {dtype}[{a}]
  global B : {dtype}[{b}]
  global C : f32[M, N]
  block {block}
  {waves}
  shared A, B buffers {buffers} via direct
  registers A, B slice {slice} buffers {registers}
  accumulate C : f32 tile {tile} {mfma}
  store C
{rest}"""
DEFAULTS = {
    "name": "small", "m": 64, "n": 64, "k": 192, "dtype": "bf16", "a": "M, K", "b": "N, K", "block": "64 x 64 step 64",
    "waves": "waves 2 x 2", "buffers": 2, "slice": 32, "registers": 1, "tile": "32 x 32", "mfma": "", "rest": "",
}  # fmt: skip


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., api.Spec]:
    """A small kernel with direct loads; keywords replace parts of its text."""

    def load(**changes: object) -> api.Spec:
        path = tmp_path / "small.tk"
        path.write_text(TEXT.format(**(DEFAULTS | changes)))
        return api.load(path)

    return load
