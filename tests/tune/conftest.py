from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tkgen.tune import Outcome, Request, tune

SMALL = """# A small kernel to tune.
# It has four settings that are legal and two that are not.
# expect waves 1, barriers/step 9, vgpr <= 7, lds 1
kernel small
  dims M = 256, N = 256, K = 256
  param ROWS = 32, BUFFERS = 1, DOUBLE = 2 * ROWS
  tune ROWS in 32, 64,  # 96 does not divide 256
    96
  tune BUFFERS in 1, 2
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]

  block ROWS x 32 step 32
  waves 1 x 1
  shared A, B buffers BUFFERS
  accumulate C : f32 tile 32 x 32
  store C
"""


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
