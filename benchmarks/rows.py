"""Predicted rates of kernels of rows, family by family and length by length, beside a plain copy in the same run.

    python benchmarks/rows.py [--lengths 1 64 1000 4096 16384] [--product MI325X]

Every number is a prediction from the machine code; nothing here runs on a GPU.
"""

from __future__ import annotations

import argparse

from tkgen.api import load
from tkgen.backends.cdna.spec import Spec
from tkgen.predict import predict

BYTES = 1 << 29  # of one tensor
LENGTHS = [1, 3, 13, 64, 100, 1000, 1024, 4095, 4096, 6001, 8192, 10000, 12289, 16383, 16384]
HEAD = """kernel {name}
  dims ROWS = {rows}, D = {length}
  global X : bf16[ROWS, D]
  global Y : bf16[ROWS, D]
  global W : bf16[D]
  over r in ROWS by {by}
  waves {waves}
"""
BODIES = {
    "copy": "  Y[r] = X[r]\n",
    "softmax": "  e = exp2((X[r] - rowmax(X[r])) * LOG2E)\n  Y[r] = e / rowsum(e)\n",
    "rmsnorm": "  x = X[r]\n  Y[r] = x * rsqrt(rowmean(x * x) + 0.00001) * W\n",
    "layernorm": "  d = X[r] - rowmean(X[r])\n  Y[r] = d * rsqrt(rowmean(d * d) + 0.00001) * W\n",
    "silu": "  Y[r] = silu(X[r])\n",
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", nargs="*", type=int, default=LENGTHS)
    parser.add_argument("--product", default="MI325X")
    options = parser.parse_args()
    print(f"predicted GB/s on {options.product} (share of what streams reach)")
    print(f"{'length':>7}", *(f"{name:>16}" for name in BODIES))
    for length in options.lengths:
        by = max(4, 1 << max((8192 // length).bit_length() - 1, 0))
        waves = 4 if length < 8192 else 16  # a lane holds up to 64 numbers of a row
        cells = []
        for name, body in BODIES.items():
            text = HEAD.format(name=name, rows=BYTES // (2 * length), length=length, by=by, waves=waves) + body
            spec = load(text)
            assert isinstance(spec, Spec)
            p = predict(spec.build(machine_check=False).check(), None, options.product)
            cells.append(f"{p.gbps:>9.0f} ({p.share_of_copy:>4.0%})")
        print(f"{length:>7}", *(f"{cell:>16}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
