"""Some drawn kernels of products have dimensions of one size, or of one name."""

from __future__ import annotations

import pytest
from fuzzing.families import FAMILIES


@pytest.mark.parametrize("family", ["matrix", "sums", "groups"])
def test_some_dimensions_share_sizes_and_names(family: str) -> None:
    drawn = [FAMILIES[family](seed) for seed in range(150)]
    features = {name for made in drawn for name in made.features}
    assert {"dimensions of one size", "dimensions of one name"} <= features
    assert all("None" not in made.text for made in drawn)
