"""Features of fused matmuls on Hopper together, beside torch: orders of tiles, parts of the keys, tensors of lanes."""

from __future__ import annotations

import pytest
import torch
from loop_cases import Attention
from nvcc import compiles
from torch import Tensor

from tkgen.api import load
from tkgen.backends.hopper.backend import HopperBackend
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.diagnostics import SpecError
from tkgen.execute.modelled import in_order

SPEC = """kernel attention
  target sm_90a
  dims PARTS = 3, HEADS = 2, LENGTH = 200, KEYS = 300, D = 64
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[HEADS, KEYS, D]
  global V : bf16[HEADS, KEYS, D]
  global B : f32[HEADS, LENGTH, KEYS]
  global G : bf16[LENGTH, HEADS, D]
  global W : f32[D]
  global S : f32[LENGTH]
  global O : {type}[PARTS, HEADS, LENGTH, D]
  global M : f32[PARTS, HEADS, LENGTH]
  over {parts}h in HEADS, q in LENGTH by {rows}
  {clauses}
  shared K, V
  carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0
  each j in KEYS by 64{of}
    x = 0.125 * Q[h, q] @ K[h, j].T + B[h, q, j]
    n = max(m, rowmax(x))
    p = exp(x - n)
    r = exp(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[h, j]
    m = n
  y = G[q, h] * o / l * W + S[q]
  O[{at}, h, q] = y * rsqrt(rowmean(y * y) + 0.001)
  M[{at}, h, q] = m + log(l)
"""


def text(clauses: str, parts: bool = False, rows: int = 128, dtype: str = "bf16") -> str:
    of = {"parts": "s in PARTS, ", "of": " part s", "at": "s"} if parts else {"parts": "", "of": "", "at": "0"}
    made = SPEC.format(clauses=clauses, rows=rows, type=dtype, **of)
    return made if parts else made.replace("PARTS = 3", "PARTS = 1")


def wanted(t: dict[str, Tensor], parts: int) -> tuple[Tensor, Tensor]:
    """The outputs in f64; of parts of 128 keys each, but the last."""
    t = {name: x.double() for name, x in t.items()}
    outputs, logarithms = [], []
    for keys in torch.arange(300).split(128 if parts > 1 else 300):
        scores = 0.125 * t["Q"] @ t["K"][:, keys].mT + t["B"][:, :, keys]
        y = t["G"].transpose(0, 1) * (scores.softmax(-1) @ t["V"][:, keys]) * t["W"] + t["S"][:, None]
        outputs.append(y * (y.square().mean(-1, True) + 0.001).rsqrt())
        logarithms.append(scores.logsumexp(-1))
    return torch.stack(outputs), torch.stack(logarithms)


@compiles
@pytest.mark.parametrize(
    "spec",
    [
        text("remap column_major", dtype="f32"),
        text("grid persistent(2)\n  remap reversed", rows=64),
        text("schedule ping_pong", parts=True),
    ],
    ids=["order", "persistent", "parts"],
)
def test_features_together_compute_what_torch_does(spec: str) -> None:
    loaded = load(spec).check()
    assert isinstance(loaded, HopperSpec)
    launch = loaded.launch()
    generator = torch.Generator().manual_seed(0)
    inputs = {
        t.name: torch.randn(launch.shape(t), generator=generator).to(
            torch.float32 if t.dtype.spelling == "f32" else torch.bfloat16
        )
        for t in loaded.program.reads
    }
    values = wanted(inputs, launch.extents["PARTS"])
    for executor in HopperBackend().executors.values():
        (order,) = executor.orders(1)
        made = in_order(executor, loaded, launch, inputs, {}, order)
        assert not made.findings
        for name, value in zip("OM", values, strict=True):
            assert torch.allclose(made.outputs[name].double(), value, rtol=0.02, atol=0.05), name
    assert loaded.build().figures.spill_bytes == 0


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (text("schedule ping_pong", rows=64), "cannot take turns"),
        (text("", parts=True).replace("PARTS = 3", "PARTS = 6"), "has no iteration"),
    ],
)
def test_what_cannot_be_together_is_refused(spec: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(spec).check()
    assert said in str([d.message for d in caught.value.diagnostics])


def test_an_unused_tensor_is_no_argument() -> None:
    """The kernel had it, and the launch did not pass it."""
    plain = Attention(128, 128).text
    more = plain.replace("  global Q", "  global UNUSED : f32[D]\n  global Q", 1)
    assert more != plain and [d.code for d in load(more).diagnostics] == ["W502"]
    assert load(more).text.count("gl<") == load(plain).text.count("gl<")
