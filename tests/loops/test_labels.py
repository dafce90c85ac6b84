"""An integer for each row of a fused matmul: cross entropy of logits that no memory holds, beside torch."""

from __future__ import annotations

import pytest
import torch
from executed import built, computed, fault
from sampling import sample
from torch.nn import functional

import tkgen
from tkgen.diagnostics import SpecError

TEXT = """
kernel cross_entropy
  dims TOKENS = 150, VOCABULARY = 1000, D = 128
  global X : bf16[TOKENS, D]
  global W : bf16[VOCABULARY, D]
  global LABEL : i32[TOKENS]
  global LOSS : f32[TOKENS]
  over t in TOKENS by 128
  waves 4 along t
  shared W
  carry m : f32[t] = -3.4e38, l : f32[t] = 0, hit : f32[t] = 0
  each v in VOCABULARY by 64
    s = X[t] @ W[v].T
    n = max(m, rowmax(s))
    l = l * exp(m - n) + rowsum(exp(s - n))
    hit = hit + rowsum(where(LABEL[t] == v, s, 0))
    m = n
  LOSS[t] = where(LABEL[t] == -100, 0, m + log(l) - hit)
"""


@pytest.mark.parametrize("target", sample(("gfx90a", "gfx942", "gfx950"), 1))
def test_cross_entropy_of_logits_that_are_not_stored(target: str) -> None:
    """Labels at both ends of the vocabulary and of its tiles, and one that is ignored."""
    generator = torch.Generator().manual_seed(3)
    inputs, weights = (torch.randn(n, 128, generator=generator).bfloat16() for n in (150, 1000))
    labels = torch.randint(0, 1000, (150,), generator=generator, dtype=torch.int32)
    labels[:6] = torch.tensor([0, 999, -100, 63, 64, 960])
    (found,) = computed(built(TEXT, target), inputs, weights, labels)
    logits = inputs.double() @ weights.double().mT
    wanted = functional.cross_entropy(logits, labels.long(), reduction="none", ignore_index=-100)
    assert fault(found, wanted) <= 1e-5


def test_integers_for_each_score_are_refused() -> None:
    text = TEXT.replace("LABEL : i32[TOKENS]", "LABEL : i32[TOKENS, VOCABULARY]").replace(
        "  LOSS[t] = where(LABEL[t] == -100, 0, m + log(l) - hit)", "  LOSS[t] = m + log(l) - hit")  # fmt: skip
    with pytest.raises(SpecError) as caught:
        tkgen.load(text.replace("LABEL[t] == v", "LABEL[t, v] == 1"), target="gfx942").check()
    found = [(d.code, d.message) for d in caught.value.diagnostics]
    assert found == [("E230", "`LABEL` is i32, which fused matmuls cannot hold yet")]
