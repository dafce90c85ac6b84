"""The kernel of a product on Hopper: the block, clusters and parts of K that are predicted to be fastest."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch

from tkgen.ops.kernels import HOPPER, Choice, architecture
from tkgen.predict.hopper.dense import STEP, Form, Sizes, seconds

SPECS = Path(__file__).with_name("specs") / HOPPER
FORMS = (
    Form(64, 64, 12), Form(64, 128, 8), Form(128, 64, 8), Form(128, 128, 6), Form(192, 128, 5),
    Form(256, 128, 4), Form(128, 256, 4), Form(128, 64, 8, "m"), Form(128, 128, 6, "m"), Form(192, 128, 5, "m"),
    Form(128, 256, 4, "m"), Form(192, 128, 5, "n"), Form(256, 128, 4, "n"),
)  # fmt: skip
"""Blocks of one launch. Clusters make fewer requests, which count where rows of memory are not a multiple of 64
bytes."""
ALONG = Form(128, 192, 5, "m")  # only where K is along the rows of both factors: three panels of B have no halves
SHORT = {Form(64, 64, 4): 3, Form(64, 64, 6): 2}
"""Blocks of a few K-steps, with the number that an SM holds: fewer barriers to initialise, and no loop over tiles."""
PARTED = (
    Form(64, 64, 8), Form(64, 128, 8), Form(128, 128, 6), Form(192, 128, 5), Form(256, 128, 4), Form(128, 256, 4),
)  # fmt: skip
"""Blocks of parts of K."""
PARTS = (2, 3, 4, 5, 6, 8, 12, 16)
BLOCKS = 132  # that run at the same time, one on each SM
MOST_BLOCKS = 4 * BLOCKS  # of parts
MOST_PARTED_BYTES = 64 << 20  # of sums of parts between two kernels
GRID = "  grid persistent(132)\n"


def product(
    name: str, left: torch.Tensor, right: torch.Tensor, *, transposed: bool = False, along: bool = False
) -> Choice:
    """The kernel of spec `name` for left @ right, or leftᵀ @ right if `transposed`, left @ rightᵀ if K is `along` both.

    `left` and `right` are matrices, or views of them. Other targets than Hopper have one kernel for all sizes.
    """
    if architecture(left.device) != HOPPER:
        return Choice(name)
    m, k = left.shape[::-1] if transposed else left.shape
    n = right.shape[0] if along else right.shape[1]
    row_bytes = tuple(t.stride(0) * t.element_size() for t in (left, right))
    device = torch.cuda.get_device_name(left.device) if left.device.type == "cuda" else ""
    form, parts = chosen(Sizes(m, n, k, (row_bytes[0], row_bytes[1]), along), _named(device))
    if parts > 1:
        return Choice(f"{name}_parts", _values(form), {"PARTS": parts})
    text = (SPECS / f"{name}.tk").read_text(encoding="utf-8")
    grid = "" if form in SHORT else GRID + (f"  clusters 2 along {form.clusters}\n" if form.clusters else "")
    return Choice(text.replace(GRID, grid), _values(form))


def _values(form: Form) -> dict[str, int]:
    """The parameters of a spec that has this form."""
    return {"ROWS": form.rows, "COLUMNS": form.columns, "STAGES": form.stages}


def _named(device: str) -> str:
    """The product of a target's file that a device is: H200 or, as was measured, H100."""
    return next((name for name in ("H200", "H100") if name in device), "H100")


@cache
def chosen(sizes: Sizes, product: str) -> tuple[Form, int]:
    """The form of a product that is predicted to be fastest on a product of NVIDIA, and its number of parts of K."""
    steps = -(-sizes.k // STEP)
    for form, resident in SHORT.items():
        if steps <= form.stages and _tiles(form, sizes) <= resident * BLOCKS:
            return form, 1
    found = [(seconds(form, sizes, product), form, 1) for form in (*FORMS, *([ALONG] if sizes.along else ()))]
    most = min(steps // 2, MOST_PARTED_BYTES // (4 * sizes.m * sizes.n))
    found += [
        (seconds(form, sizes, product, parts), form, parts)
        for form in PARTED for parts in PARTS if parts <= min(most, MOST_BLOCKS // _tiles(form, sizes))
    ]  # fmt: skip
    return min(found, key=lambda each: each[0])[1:]


def _tiles(form: Form, sizes: Sizes) -> int:
    return -(-sizes.m // form.rows) * -(-sizes.n // form.columns)
