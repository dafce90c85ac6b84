"""The generated C++ for Hopper, executed on the CPU, against plain torch: right kernels are right, slips are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tkgen.api import load
from tkgen.backends.hopper.host.run import run
from tkgen.backends.protocol import Modelled
from tkgen.execute import kernels
from tkgen.proof.execution import Order

SPECS = Path(__file__).parents[2] / "specs" / "hopper"
EARLY, LATE, LAST = Order(), Order("first", frozenset()), Order("last", frozenset())
RANDOM = Order("random", seed=1)
ORDERS = {"early": EARLY, "late": LATE, "last": LAST, "random": RANDOM}

SQUARE = """\
kernel square
  dims D = 256
  global A : bf16[D, D]
  global B : bf16[D, D]
  global Y : f32[D, D]
  over m in D by 128, n in D by 128
  shared A, B buffers 2 via direct
  role producer waves 0..3
    load A, B
  role consumer waves 4..11 as 8 x 1
    accumulate y : f32 tile 16 x 128
  allow slow_reads
  each k in D by 128
    y = y + A[m, k] @ B[n, k].T
  Y[m, n] = y
"""


def launched(
    source: Path | str, sizes: Mapping[str, int] | None = None, order: Order = EARLY,
    edit: Callable[[str], str] | None = None,
) -> tuple[Mapping[str, Tensor], Modelled]:  # fmt: skip
    """Inputs of small integers, and what the C++ makes of them; `edit` changes its text."""
    spec = load(source, dict(sizes or {}), "sm_90a").check()
    launch = kernels.launch_of(spec)
    generator = torch.Generator().manual_seed(0)
    inputs = {
        t.name: torch.randint(-4, 5, launch.shape(t), generator=generator).to(torch.bfloat16)
        for t in spec.program.reads
    }
    return inputs, run(spec, launch, inputs, {}, order, text=edit(spec.text) if edit else None, limit=60)


def replaced(old: str, new: str) -> Callable[[str], str]:
    """An edit of the C++ that must find something to change."""

    def edit(text: str) -> str:
        assert old in text, old
        return text.replace(old, new)

    return edit


LCF = {"M": 128, "N": 512, "K": 320}


def lcf(order: Order = LATE, edit: Callable[[str], str] | None = None) -> tuple[bool, tuple[str, ...]]:
    """Whether the product is right, and what was found."""
    inputs, made = launched(SPECS / "h100_lcf.tk", LCF, order, edit)
    wanted = inputs["A"].double() @ inputs["B"].double()
    return torch.equal(made.outputs["C"], wanted.to(torch.bfloat16)), made.findings


@pytest.mark.parametrize("order", ORDERS)
def test_a_product_is_right_in_every_order(order: str) -> None:
    assert lcf(ORDERS[order]) == (True, ())


def test_the_layout_of_a_square_factor() -> None:
    inputs, made = launched(SQUARE)
    assert torch.equal(made.outputs["Y"], (inputs["A"].float() @ inputs["B"].float().T))
    _, other = launched(SQUARE, edit=lambda text: text.replace("mma_ABt(", "mma_AB(").replace("mm_ABt(", "mm_AB("))
    assert not torch.equal(other.outputs["Y"], made.outputs["Y"]) and not other.findings


SLIPS = {
    "a wait for copies left out": (
        "            wait(full[stage], phase);\n            warpgroup::mm_AB",
        "            warpgroup::mm_AB",
    ),
    "a wait for products left out": ("            warpgroup::mma_async_wait();\n            if", "            if"),
    "another stage": ("mma_AB(C_acc, A_s[stage]", "mma_AB(C_acc, A_s[last]"),
    "sums not added to": ("warpgroup::mma_AB(C_acc", "warpgroup::mm_AB(C_acc"),
    "another tile": ("{0, 0, k, tile_col}", "{0, 0, k + 1, tile_col}"),
    "no meeting before the store": (
        "warpgroup::store(panel, values);\n                warpgroup::sync(consumer + 1);",
        "warpgroup::store(panel, values);",
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_slips_give_wrong_numbers(slip: str) -> None:
    found = (lcf(order, replaced(*SLIPS[slip])) for order in (LATE, LAST, RANDOM))
    assert any(outcome != (True, ()) for outcome in found)


def test_who_waits_for_what() -> None:
    """A hang is a finding, with the names of the C++."""
    _, findings = lcf(edit=replaced("                if (laneid() == 0) arrive(empty[last]);\n", ""))
    assert any("waits for ever for phase" in found and "`empty[0]`" in found for found in findings), findings
    _, findings = lcf(edit=replaced("init_semaphore(full[s], 0, 1);", "init_semaphore(full[s], 1, 1);"))
    assert any("`full[0]`, whose phase 0 lacks 1 arrivals" in found for found in findings), findings


def test_memory_beyond_a_tensor() -> None:
    """A plain store past the end of a tensor ends the launch, which says where."""
    text = "    extern __shared__ int memory[];"
    _, findings = lcf(edit=replaced(text, f"    g.C.raw_ptr[{128 * 512}] = bf16(1.0f);\n{text}"))
    assert any("bytes after the end of `C`" in found for found in findings), findings


def test_shared_memory_is_unknown_before_it_is_written() -> None:
    right, _ = lcf(
        edit=replaced(
            "for (int i = 0; i < CONSUMERS; ++i) tma::load_async", "for (int i = 0; i < 0; ++i) tma::load_async"
        )
    )
    assert not right
