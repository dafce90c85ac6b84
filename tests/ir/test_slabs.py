"""Kernels evaluated slab by slab: the results of all tiles at once, in less memory and time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
import torch
from sampling import only

from tkgen import load
from tkgen.execute.arguments import scalar_values
from tkgen.execute.compare import Inputs, random_inputs, references
from tkgen.ir import meaning, slabs
from tkgen.ir.equations import Kernel

SPECS = Path(__file__).parents[2] / "specs"
# Sizes with several tiles along each axis, the last of them cut off where the kernel admits it.
SIZES: Mapping[str, dict[str, int]] = MappingProxyType(
    {
        "rows/layernorm": {"TOKENS": 30, "D": 200},
        "attention/attention_causal": {"BATCH": 2, "HEADS": 4, "KV_HEADS": 2, "LENGTH": 512},
        "groups/moe": {"TOKENS": 150, "EXPERTS": 3, "D": 128, "HIDDEN": 256},
        "eight_wave": {"M": 512, "N": 384, "K": 128},
        "block_scaled": {"M": 256, "N": 512, "K": 128},
        "low_precision/fp8_rowwise": {"M": 256, "N": 512, "K": 256},
        "split_k": {"M": 256, "N": 256, "K": 1024},
        "quantise/mxfp4_rows": {"TOKENS": 70, "BLOCKS": 8},
        "conv2d": {"BATCH": 2, "HEIGHT": 10, "WIDTH": 10, "CHANNELS": 64, "FILTERS": 256},
    }
)


@pytest.mark.parametrize("name", only(SIZES, ("rows/layernorm", "groups/moe", "attention/attention_causal")))
@pytest.mark.parametrize("kind", list(Inputs))
def test_slabs_give_the_results_of_all_tiles_at_once(name: str, kind: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = load(SPECS / f"{name}.tk", SIZES[name], "gfx950").check()
    launch, scalars = spec.launch({}), scalar_values(spec.program, {})
    inputs = random_inputs(launch, 3, kind)
    counts = list[int]()

    def counted(kernel: Kernel, lengths: Mapping[str, int]) -> Iterator[dict[str, range]]:
        found = list(slabs.slabs(kernel, lengths))
        counts.append(len(found))
        yield from found

    monkeypatch.setattr(meaning, "slabs", counted)
    results = []
    for elements in (1 << 40, 1):
        counts.clear()
        monkeypatch.setattr(slabs, "ELEMENTS", elements)
        results.append(references(launch, inputs, scalars))
        assert max(counts) == 1 if elements > 1 else max(counts) > 2
    at_once, in_slabs = results
    for tensor, (value, bound) in at_once.items():
        torch.testing.assert_close(in_slabs[tensor][0], value, rtol=1e-12, atol=1e-12, equal_nan=True)
        tighter = in_slabs[tensor][1] <= 1.01 * bound + 1e-12  # all sums of a slab may be exact, where others are not
        assert bool((tighter | bound.isnan()).all()), tensor
