"""Statements of benchmarks/attention.py on forward attention on gfx950 beside HipKittens' compiled kernel."""

from __future__ import annotations

import attention
import pytest


@pytest.mark.parametrize(("name", "kinds"), [("attention_direct", attention.KINDS),
                                             ("attention_ping_pong_direct", attention.KINDS[:-1])])  # fmt: skip
def test_no_more_instructions_of_a_kind_than_hipkittens(name: str, kinds: tuple[str, ...]) -> None:
    """Of the same block, per MFMA; kinds that only wait or say which wave is first are more in ping-pong."""
    found, theirs = attention.ours(name, "gfx950", 128), attention.HIPKITTENS
    assert found.registers[2] == 0 and found.lds_bytes <= theirs.lds_bytes and found.others < theirs.others
    for kind, ours, other in zip(attention.KINDS, found.kinds, theirs.kinds, strict=True):
        assert kind not in kinds or ours <= other, kind
