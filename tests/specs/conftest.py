from __future__ import annotations

from collections.abc import Iterator

import pytest
from spec_builds import Builds


@pytest.fixture(scope="session")
def builds() -> Iterator[Builds]:
    builds = Builds()
    yield builds
    builds.close()
