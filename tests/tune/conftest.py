from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tunable_specs import SMALL

from tkgen.tune import Outcome, Request, tune


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tune") / "small.tk"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="session")
def searched(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """All candidates of the small kernel."""
    return tune(Request((small,), best=2, directory=tmp_path_factory.mktemp("searched")))


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def writer(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return writer
