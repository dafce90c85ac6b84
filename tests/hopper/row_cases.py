"""Kernels of rows for tests on Hopper: specs with other tiles, warps, types and sizes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tkgen.api import load
from tkgen.backends.hopper.spec import HopperSpec

SPECS = Path(__file__).parents[2] / "specs"
LENGTHS = (1, 2, 3, 7, 17, 64, 100, 129, 255, 1000, 1001, 2048, 4095, 4096, 5120, 8191, 8192, 10000, 16384)


@dataclass(frozen=True)
class Case:
    """A spec by its name; those of specs/rows with tiles of `by` rows, `waves` warps, another type than bf16."""

    name: str
    by: int
    waves: int
    sizes: tuple[tuple[str, int], ...]
    dtype: str = "bf16"

    def __str__(self) -> str:
        sizes = " ".join(f"{name}={size}" for name, size in self.sizes)
        return f"{self.name} by {self.by}, {self.waves} warps, {self.dtype}, {sizes}"

    def spec(self) -> HopperSpec:
        """The spec."""
        folder = {"h100": "hopper", "quantise": "quantise"}.get(self.name.partition("_")[0], "rows")
        text = (SPECS / folder / f"{self.name}.tk").read_text()
        text = re.sub(r"^  over (\w+) in (\w+) by \d+", rf"  over \1 in \2 by {self.by}", text, flags=re.M)
        text = re.sub(r"^  waves \d+", f"  waves {self.waves}", text, flags=re.M)
        found = load(text.replace(": bf16[", f": {self.dtype}["), dict(self.sizes), "sm_90a")
        assert isinstance(found, HopperSpec)
        return found


def of_length(name: str, length: int, dtype: str = "bf16") -> Case:
    """A kernel of whole rows of a length, with the last tile over the end."""
    rows = "ROWS" if name == "softmax" else "TOKENS"
    waves = 4 if length <= 2048 else 8 if length <= 8192 else 16
    return Case(name, 4 if length <= 4096 else 2, waves, ((rows, 7), ("D", length)), dtype)


CASES = [of_length(name, length) for name in ("softmax", "layernorm") for length in LENGTHS]
CASES += [of_length("rmsnorm", length) for length in LENGTHS[:-1]]  # its dropout takes too many registers beyond
CASES += [Case("h100_rmsnorm", tile, 8, (("TOKENS", 7), ("D", length), ("TILE", tile), ("WARPS", 8)))
          for tile, length in ((1, 16384), (4, 1000))]  # fmt: skip
CASES += [of_length(name, length, dtype) for name in ("softmax", "layernorm") for dtype in ("f32", "f16")
          for length in (3, 1000, 4096)]  # fmt: skip
CASES += [Case("rotary", 2, waves, (("LENGTH", 5), ("HEADS", 19), ("HALF", half))) for waves in (1, 4)
          for half in (1, 3, 32, 64, 100)]  # fmt: skip
CASES += [Case("elementwise", by, 4, (("ROWS", 17), ("COLS", cols))) for by in (1, 8)
          for cols in (1, 7, 512, 513, 1000)]  # fmt: skip
CASES += [Case("transpose", 128, 4, (("ROWS", rows), ("COLS", cols))) for rows, cols in
          ((1, 1), (3, 129), (128, 256), (136, 200), (1000, 8))]  # fmt: skip
CASES += [Case("long_softmax", by, 4, (("ROWS", 7), ("D", length)), dtype) for by, dtype in ((1, "bf16"), (4, "bf16"),
          (4, "f32")) for length in (1, 7, 2047, 2048, 2049, 4096, 10000)]  # fmt: skip
CASES += [Case("h100_long_softmax", 1, warps, (("ROWS", 5), ("D", length), ("WARPS", warps), ("STEP", step)))
          for warps, step in ((8, 4096), (16, 8192)) for length in (1, 4095, 8192, 20001)]  # fmt: skip
CASES += [Case("norm_gradient", by, 8, (("TOKENS", tokens), ("D", 72))) for by in (16, 32)
          for tokens in (1, 255, 256, 257, 1000)]  # fmt: skip
CASES += [Case("h100_norm_gradient", tile, warps, (("TOKENS", tokens), ("D", 200), ("TILE", tile), ("WARPS", warps),
          ("STEP", step))) for tile, warps, step in ((64, 8, 128), (128, 16, 128), (32, 16, 256))
          for tokens in (1, 127, 1000)]  # fmt: skip
CASES += [Case(name, 4, 4, (("TOKENS", 7), ("D", length))) for name in ("quantise_rows", "quantise_int8")
          for length in (1, 3, 100, 1001, 4096)]  # fmt: skip
CASES += [Case("quantise_swiglu", 64, 4, (("TOKENS", 70), ("BLOCKS", 2)))]
# Elements of one byte, two of which, or one, a lane has side by side.
CASES += [Case("long_softmax", 1, 4, (("ROWS", 7), ("D", length)), "fp8") for length in (1001, 4098)]
CASES += [of_length("softmax", length, "fp8") for length in (6, 1001)]
