"""Tiles that direct loads cannot load are refused, with the way out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tkgen import api
from tkgen.diagnostics import SpecError

Small = Callable[..., api.Spec]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"slice": 16}, "slices of 16"),
        ({"dtype": "f32"}, "elements are f32"),
        ({"block": "48 x 64 step 64", "m": 48, "waves": "waves 1 x 4", "tile": "48 x 16"}, "6 boxes"),
        ({"a": "K, M", "block": "48 x 64 step 64", "m": 48, "waves": "waves 1 x 2", "tile": "48 x 32"}, "64 x 48"),
        ({"k": 190, "rest": "  tail masked\n"}, "end within a load of 16 bytes"),
    ],
)
def test_refused(small: Small, changes: dict[str, object], says: str) -> None:
    with pytest.raises(SpecError) as refused:
        small(**changes).check()
    found = [d for d in refused.value.diagnostics if d.code == "E221"]
    assert found and all(d.fix for d in found)
    assert any(says in d.message for d in found)


def test_no_warning_of_slow_reads(small: Small) -> None:
    assert not [d for d in small(a="K, M", b="K, N").check().diagnostics if d.code == "W201"]


def test_refused_on_gfx942(small: Small) -> None:
    path = small().path
    path.write_text(path.read_text().replace("  target gfx950\n", ""))
    with pytest.raises(SpecError) as refused:
        api.load(path, target="gfx942").check()
    assert [d.code for d in refused.value.diagnostics] == ["E218"]
