"""Reports of fused matmuls say which tiles are transposed, and where, in one line."""

from __future__ import annotations

import pytest
from report_specs import SPECS

from tkgen.api import load

SAID = {
    "attention/attention": {"attention": "; V is transposed on the way to LDS"},
    "attention/attention_direct": {"attention_direct": "; V is read transposed from LDS"},
    "attention/attention_backward": {
        "keys": "; Q, GO are read transposed from LDS", "queries": "; K is read transposed from LDS",
    },
    "hopper/h100_attention": {"h100_attention": "; wgmma reads V transposed"},
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_transposed_tiles_are_named(name: str) -> None:
    kernels = {kernel.name: kernel for kernel in load(SPECS / f"{name}.tk").kernels}
    for kernel, said in SAID[name].items():
        assert kernels[kernel].footprint.ownership.how.endswith(said)


def test_rows_have_nothing_to_transpose() -> None:
    assert "transposed" not in load(SPECS / "rows" / "softmax.tk").footprint.ownership.how
