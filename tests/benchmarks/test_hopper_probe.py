"""Selection of probes of a Hopper GPU."""

from __future__ import annotations

import pytest
from hopper_probe import chosen, probes


def test_probes_are_chosen_by_the_beginning_of_their_names() -> None:
    found = chosen(["rows", "memory to all SMs"])
    assert {what for what, *_ in found} == {"rows", "memory to all SMs"} and len(found) == 3
    assert chosen(None) == probes()


def test_a_probe_that_is_none_is_told() -> None:
    with pytest.raises(SystemExit, match="no probe's name begins with `columns`"):
        chosen(["rows", "columns"])
