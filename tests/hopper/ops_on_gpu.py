"""The operators of `tkgen.ops` on tensors of a Hopper GPU.

    python3 tests/hopper/ops_on_gpu.py

prints a line for each, with the deviation of its output and of each gradient, `WRONG` before one that is too large.
"""

from __future__ import annotations

import sys

import torch
from ops_cases import cases, normal, refusals

from tkgen import ops


def refused(said: str, call: object) -> bool:
    """Return True if a call raises ValueError with this message."""
    assert callable(call)
    try:
        call()
    except ValueError as error:
        print(f"refused: {error}")
        return said in str(error)
    return False


def main() -> int:
    """The exit code: whether all is as it should be."""
    wrong, compared = 0, 0
    for name, case in cases("cuda").items():
        found = case.deviations()
        bad = not max(found) <= case.most
        wrong, compared = wrong + bad, compared + len(found)
        print(f"{'WRONG ' * bad}{name}: {' '.join(f'{d:.5f}' for d in found)}", flush=True)
    x, w = cases("cuda")["linear"].inputs
    compiled = torch.compile(lambda x, w: ops.linear(x, w).relu(), fullgraph=True)
    wrong += not torch.equal(compiled(x, w), ops.linear(x, w).relu())
    odd = {"no multiple of 16": lambda: ops.linear(normal(64, 71, device="cuda"), normal(72, 71, device="cuda"))}
    for said, call in {**refusals("cuda"), **odd}.items():
        if not refused(said, call):
            wrong += 1
            print(f"WRONG not refused: {said}")
    print(f"{compared} launches compared")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
