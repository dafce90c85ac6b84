"""Products on Hopper whose batch only the launch knows: two indices, one after the other, and none of one."""

from __future__ import annotations

import torch

import tkgen
from tkgen.backends.hopper.host.run import run
from tkgen.proof.execution import Order

TEXT = """\
kernel heads
  target sm_90a
  dims B = dynamic, H = dynamic, M = 72, N = dynamic, K = 64
  global X : bf16[B, H, M, K]
  global W : bf16[H, N, K]
  global Y : bf16[B, H, M, N]
  over b in B, h in H, m in M by 64, n in N by 64
  tail masked
  shared X, W buffers 2 via direct
  role producer waves 0..3
    load X, W
  role consumer waves 4..7 as 4 x 1
    accumulate y : f32 tile 16 x 64
  each k in K by 64
    y = y + X[b, h, m, k] @ W[h, n, k].T
  Y[b, h, m, n] = y
"""


def test_each_matrix_of_a_batch_that_the_launch_knows() -> None:
    spec = tkgen.load(TEXT).check()
    for batch, heads in ((1, 1), (2, 3), (3, 2)):
        generator = torch.Generator().manual_seed(batch)
        x = torch.randint(-2, 3, (batch, heads, 72, 64), generator=generator).to(torch.bfloat16)
        w = torch.randint(-2, 3, (heads, 136, 64), generator=generator).to(torch.bfloat16)
        launch = spec.launch({"B": batch, "H": heads, "N": 136})
        found = run(spec, launch, {"X": x, "W": w}, {}, Order(), limit=60)
        assert not found.findings
        assert torch.equal(
            found.outputs["Y"].float(), (x.float() @ w.float().transpose(-1, -2)).to(torch.bfloat16).float()
        )


def test_a_batch_without_matrices_has_no_blocks() -> None:
    assert tkgen.load(TEXT).check().launch({"B": 0, "H": 3, "N": 8}).blocks == 0
