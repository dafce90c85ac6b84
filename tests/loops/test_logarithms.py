"""Kernels of attention store the logarithms of their sums to base 2, all of them, as `LSE2`."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

import tkgen
from tkgen.ir.meaning import evaluate
from tkgen.ir.types import Tensor
from tkgen.sequence import SequenceSpec

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "specs/attention", ROOT / "specs/hopper", ROOT / "tkgen/ops/specs")
ATTENTION = sorted(path for folder in FOLDERS for path in folder.glob("*attention*.tk"))
STORED = [path for path in ATTENTION if any("LSE2[" in x.split("=")[0] for x in path.read_text("utf-8").splitlines())]
SMALL = {"BATCH": 1, "SETS": 1, "HEADS": 2, "KV_HEADS": 1, "GROUP": 2, "SEQUENCES": 1, "LENGTH": 40, "TOTAL": 40,
         "KEYS": 40, "D": 64}  # fmt: skip


def test_no_kernel_of_attention_has_another_base() -> None:
    assert len(ATTENTION) > 20 and len(STORED) >= 6
    for path in ATTENTION:
        assert not any(
            line.strip().startswith(("LSE[", "global LSE ")) for line in path.read_text("utf-8").splitlines()
        )


@pytest.mark.parametrize("path", STORED, ids=[f"{path.parent.name}-{path.stem}" for path in STORED])
def test_they_are_torchs_over_the_logarithm_of_2(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    names = [part.split("=")[0].strip() for x in text.splitlines() if x.strip().startswith("dims ")
             for part in x.strip().removeprefix("dims ").split(",")]  # fmt: skip
    spec = tkgen.load(path, {name: size for name, size in SMALL.items() if name in names})
    assert not isinstance(spec, SequenceSpec)
    kernel, generator = spec.program.kernel, torch.Generator().manual_seed(0)
    given = {
        t.name: torch.tensor([0, 40], dtype=torch.int32)
        if t.dtype.whole
        else torch.randn([d.size or SMALL[d.name] for d in t.dims], generator=generator).bfloat16()
        for t in kernel.inputs
    }
    sizes = {"BATCH": 1, "SETS": 1, "LENGTH": 40, "KEYS": 40}
    found = evaluate(kernel, given, {"scale": math.log2(math.e) / 8}, sizes)["LSE2"].value
    of = {t.name: t for t in kernel.tensors}
    q, k = (_rows(given[name].double(), of[name]) for name in "QK")
    sums = _rows(found.unsqueeze(-1), of["LSE2"]).squeeze(-1)
    scores = q @ k.repeat_interleave(len(q) // len(k), 0).transpose(-1, -2) / 8
    if "to q" in text:
        scores = scores.masked_fill(torch.ones(40, 40).triu(1).bool(), -math.inf)
    torch.testing.assert_close(sums, scores.logsumexp(-1) / math.log(2), rtol=1e-4, atol=1e-4)


def _rows(x: torch.Tensor, of: Tensor) -> torch.Tensor:
    """As many matrices as there are, of 40 rows."""
    at = next(n for n, dim in enumerate(of.dims) if dim.name in ("LENGTH", "TOTAL", "KEYS"))
    return x.movedim(at, -2).reshape(-1, 40, x.shape[-1])
