"""What every test has: one thread for torch's arithmetic, in the commands that tests start, too.

Workers of pytest-xdist take the cores; OpenMP's threads of each of them would wait for one another.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

for threads in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")


@pytest.fixture
def new_cache(tmp_path: Path) -> Path:
    """An empty cache but for the emulator's compiled core, which takes half a minute."""
    from tkgen.emulate import native

    core = native.build()
    (tmp_path / "cache" / "emulate").mkdir(parents=True)
    shutil.copy(core, tmp_path / "cache" / "emulate")
    return tmp_path / "cache"
