"""Roles of fused matmuls on Hopper: the warpgroup that loads, before those that multiply or after them."""

from __future__ import annotations

import pytest
import torch
from nvcc import compiles

from tkgen.api import load
from tkgen.backends.hopper.host.run import run
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.diagnostics import SpecError
from tkgen.proof.execution import Order

SPEC = """kernel attention
  target sm_90a
  dims HEADS = 2, LENGTH = 200, KEYS = 230, D = 64
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[HEADS, KEYS, D]
  global V : bf16[HEADS, KEYS, D]
  global O : bf16[HEADS, LENGTH, D]
  over h in HEADS, q in LENGTH by 128
{roles}
  shared K, V
  carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0
  each j in KEYS by 64
    s = 0.125 * Q[h, q] @ K[h, j].T
    n = max(m, rowmax(s))
    p = exp(s - n)
    r = exp(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[h, j]
    m = n
  O[h, q] = o / l
"""
FIRST = "  role producer waves 0..3\n    load K, V\n  role consumer waves 4..11\n    store O"
LAST = "  role consumer waves 0..7\n    store O\n  role producer waves 8..11\n    load Q, K, V"
NONE = ""


def loaded(roles: str) -> HopperSpec:
    spec = load(SPEC.format(roles=roles)).check()
    assert isinstance(spec, HopperSpec)
    return spec


def right(spec: HopperSpec, text: str) -> bool:
    """True if the C++ computes what torch does."""
    generator = torch.Generator().manual_seed(0)
    shapes = {"Q": (2, 200, 64), "K": (2, 230, 64), "V": (2, 230, 64)}
    inputs = {name: torch.randn(shape, generator=generator).bfloat16() for name, shape in shapes.items()}
    q, k, v = (inputs[name].double() for name in "QKV")
    wanted = (0.125 * q @ k.transpose(1, 2)).softmax(-1) @ v
    made = [run(spec, spec.launch(), inputs, {}, order, text=text, limit=60)
            for order in (Order(), Order("last", frozenset()))]  # fmt: skip
    return all(not m.findings and torch.allclose(m.outputs["O"].double(), wanted, atol=0.02, rtol=0.02) for m in made)


@pytest.mark.parametrize("roles", [FIRST, LAST])
def test_named_roles_compute_what_torch_does(roles: str) -> None:
    spec = loaded(roles)
    assert right(spec, spec.text)


def test_the_warpgroups_are_those_that_the_roles_name() -> None:
    first, last, none = (loaded(roles).text for roles in (FIRST, LAST, NONE))
    assert "if (warpgroup::groupid() == 0) {  // producer" in first
    assert "consumer = warpgroup::groupid() - 1;" in first
    assert "if (warpgroup::groupid() == CONSUMERS) {  // producer" in last

    def code(text: str) -> str:
        lines = (line.partition("//")[0].rstrip() for line in text.splitlines())
        return "\n".join(line for line in lines if line)

    assert code(last) == code(none)


def test_a_consumer_that_counts_from_another_warpgroup_is_found() -> None:
    spec = loaded(FIRST)
    assert not right(spec, spec.text.replace("warpgroup::groupid() - 1;", "warpgroup::groupid();"))


@compiles
@pytest.mark.parametrize("roles", [FIRST, LAST])
def test_named_roles_compile_without_spills(roles: str) -> None:
    assert loaded(roles).build().figures.spill_bytes == 0


@pytest.mark.parametrize(
    ("roles", "code", "said"),
    [
        (FIRST.replace("load K, V", "load K"), "E230", "role `producer` loads K"),
        (FIRST.replace("load K, V", "load K, V, O"), "E230", "loads K, V, O"),
        (FIRST.replace("load K, V", "load W"), "E200", "is not a global tensor"),
        (FIRST.replace("store O", "store K"), "E200", "which no equation writes"),
        (FIRST.replace("store O", "load Q"), "E230", "of which 2 load"),
        (FIRST.replace("0..3", "0..7").replace("4..11", "8..15"), "E230", "one warpgroup must load"),
        (FIRST.replace("4..11", "4..7"), "E230", "want `waves 8 along q`"),
        (FIRST.replace("4..11", "5..12"), "E214", "wave 4 of 13 has no role"),
        (FIRST.replace("4..11", "4..11 as 8 x 1"), "E214", "a grid of waves"),
        (FIRST.replace("load K, V", "load K, V by 2 waves"), "E214", "load together"),
        (FIRST.replace("load K, V", "load K, V\n    store O"), "E215", "loads, and stores"),
        (FIRST + "\n    registers Q", "E222", "`registers` belongs to the kernel here"),
        (FIRST + "\n  waves 8 along q", "E214", "both divide the block's waves"),
    ],
)
def test_other_roles_are_refused(roles: str, code: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(SPEC.format(roles=roles)).check()
    assert any(d.code == code and said in d.message for d in caught.value.diagnostics), str(caught.value)
