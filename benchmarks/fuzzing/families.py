"""The families of kernels that are drawn, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fuzzing.alike import alike
from fuzzing.fused import fused, fused_hopper
from fuzzing.gradients import gradients
from fuzzing.groups import groups
from fuzzing.hopper import hopper
from fuzzing.large import large
from fuzzing.loops import loops
from fuzzing.narrow import narrow
from fuzzing.rows import rows
from fuzzing.sequences import sequences
from fuzzing.specs import Sample, sample
from fuzzing.sums import sums

FAMILIES: Mapping[str, Callable[[int], Sample]] = {
    "matrix": alike(sample, 0.1), "sums": alike(sums, 0.3), "groups": alike(groups, 0.3), "rows": rows,
    "sequences": sequences, "loops": loops, "narrow": narrow, "gradients": gradients, "fused": fused,
    "fused_hopper": fused_hopper, "hopper": hopper, "large": large,
}  # fmt: skip
