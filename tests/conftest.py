"""What every test has: one thread for torch's arithmetic, in the commands that tests start, too.

Workers of pytest-xdist take the cores; OpenMP's threads of each of them would wait for one another.
"""

from __future__ import annotations

import os

for threads in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")
