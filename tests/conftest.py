"""Settings of every test: one thread for torch's arithmetic, in the commands that tests start, too.

Workers of pytest-xdist take the cores; OpenMP's threads of each of them would wait for one another. What there is of
modules and of collected tests stays, so the collector of garbage need not walk it each time. Where the environment
forbids bytecode beside the modules, it is written to the cache of pytest: otherwise each worker, and each command that
a test starts, compiles all modules again.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
from pathlib import Path

import pytest

for threads in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


@pytest.fixture
def new_cache(tmp_path: Path) -> Path:
    """An empty cache except for the emulator's compiled core, which takes half a minute."""
    from tkgen.emulate import native

    core = native.build()
    (tmp_path / "cache" / "emulate").mkdir(parents=True)
    shutil.copy(core, tmp_path / "cache" / "emulate")
    return tmp_path / "cache"
