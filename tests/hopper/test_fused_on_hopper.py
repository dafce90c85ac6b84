"""Fused matmuls for Hopper: names of a spec, values read twice, and what no layout holds; numbers beside torch's."""

from __future__ import annotations

import pytest
import torch
from nvcc import compiles

import tkgen
from tkgen.diagnostics import SpecError

HOPPER = """
kernel hopper
  target sm_90a
  dims L = 256, D = 64
  global held_s : bf16[L, D]
  global K_c : bf16[L, D]
  global right : bf16[L, D]
  global out_tile : bf16[L, D]
  global first_row : f32[L]
  scalar scale : f32 = 0.25
  over q in L by 128
  waves 8 along q
  shared K_c, right buffers 2 via direct
  carry pass : f32[q] = 0, factor : f32[q, D] = 0
  each j in L by {keys}
    s = scale * held_s[q] @ K_c[j].T
    p = bf16(tanh(s))
    pass = pass + rowsum(p * p)
    factor = factor + p @ right[j]
  out_tile[q] = factor / (1 + pass)
  first_row[q] = pass
"""


@compiles
def test_names_and_factors_that_are_read_twice_on_hopper() -> None:
    generator = torch.Generator().manual_seed(1)
    inputs = [torch.randn(256, 64, generator=generator).bfloat16() for _ in range(3)]
    found = tkgen.run(tkgen.load(HOPPER.format(keys=64)).check().build(), *inputs)
    assert isinstance(found, tuple)
    q, k, v = (x.double() for x in inputs)
    p = (0.25 * q @ k.T).tanh().bfloat16().double()
    squares = (p * p).sum(-1)
    assert torch.allclose(found[0].double(), p @ v / (1 + squares[:, None]), rtol=0.02, atol=0.01)
    assert torch.allclose(found[1].double(), squares, rtol=0.02)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("factor / (1 + pass)", "held_s[q] * factor", "`held_s`"),
        ("factor = factor + p @ right[j]", "t = p @ right[j]\n    factor = factor + t + t", "once"),
        ("factor = factor + p @ right[j]", "factor = p @ right[j]", "added once, to a carried value"),
        ("held_s[q] @ K_c[j].T", "right[q] @ K_c[j].T", "tiles of 128 rows, and of 64"),
    ],
)
def test_what_hopper_cannot_hold_is_refused(old: str, new: str, message: str) -> None:
    text = HOPPER.format(keys=128)
    assert old in text
    with pytest.raises(SpecError) as caught:
        tkgen.load(text.replace(old, new)).check()
    (found,) = [d for d in caught.value.diagnostics if d.code.startswith("E")]
    assert found.code == "E230" and message in found.message


def test_a_choice_by_what_the_loop_carries_has_a_text() -> None:
    """Conditions on coordinates are looked for through sums, down to values that the loop carries."""
    text = HOPPER.format(keys=64).replace("tanh(s)", "where(s + pass > 0, s, 0.5 * s)")
    assert "> 0.0f" in tkgen.load(text).check().text  # type: ignore[union-attr]


def test_a_table_of_indices_is_not_told_to_be_a_float() -> None:
    text = HOPPER.format(keys=128).replace("K_c[j].T", "K_c[T[j]].T")
    text = text.replace("  global K_c", "  global T : i32[L]\n  global K_c")
    with pytest.raises(SpecError) as caught:
        tkgen.load(text).check()
    (found,) = [d for d in caught.value.diagnostics if d.code.startswith("E")]
    assert found.code == "E230" and "cannot read tables of indices" in found.message and found.fix is None
