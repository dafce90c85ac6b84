"""Specs with a large or senseless number in every numeric place of the grammar, and what judging each of them takes.

Run as a script it judges them all, or every N-th from the I-th on (`large_numbers.py I N`), in its own process, and
prints the worst: a line of JSON with the seconds, the spec, and the peak memory of the process in bytes.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tkgen.api import load
from tkgen.diagnostics import SpecError

VALUES = ("0", "-1", "16", "63", "64", "1000", "1000000", f"{2**31 - 1}", f"{2**31}", f"{2**63}", f"{10**30}")

# Between them every numeric place of grammar/tk.lark.
WHOLE = """kernel t
  dims M = 256, N = 256, K = 256
  param P = 2 * 16 + 64 / 2 - 10 % 4, Q = ceil_div(64, 32)
  tune Q in 1, 2
  global A : bf16[M, K]
  global B : bf16[N, K]
  global V : f32[N]
  global C : f32[M, N]
  scalar beta : f32 = 1.5
  block 128 x 128 step 32
  remap xcd(8, chunk = 4) | group(rows = 4)
  grid persistent(blocks = 16)
  waves 2 x 2
  occupancy 1 waves per simd
  unroll 2
  shared A, B buffers 2
  registers A, B slice 16 buffers 2
  accumulate C : f32 tile 32 x 32 mfma 16 x 16
  epilogue scale(beta) | bias(V) | scale(2)
  load A, B by 4 waves
  store C
"""
WRITTEN = """kernel t
  dims M = 256, N = 256, K = 256
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 128 x 128 step 32
  waves 4 x 2
  shared A, B buffers 2 via registers
  registers A, B slice 16 buffers 2
  accumulate C : f32 tile 32 x 32
  store C
  phase waves 4..7 by 1 cluster
  schedule
    cluster fetch A[k+1] B[k+1]  read A(0; 0..1) B(0..1; 0..1)  wait lds 0
    cluster priority 1 multiply (0, 0..1; 0)  multiply slice 1
    cluster write A[k+1] B[k+1]  wait lds 0  wait vm 0
    cluster priority 0
"""
ROLES = """kernel t
  dims M = dynamic, N = 256, K = 256
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 128 x 128 step 32
  grid split_k(4)
  shared A, B buffers 2
  role producer waves 0..3
    load A, B
  role consumer waves 4..7 as 2 x 2
    accumulate C : f32 tile 32 x 32
    epilogue scale(0.5)
    store C
"""
STREAM = ROLES.replace("split_k(4)", "stream_k(16)").replace("dynamic", "256").replace("buffers 2", "buffers 1")
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])|(?<=\.\.)\d+|\d+(?=\.\.)")


def specs() -> Iterator[str]:
    """Every number of the texts above, replaced by every value."""
    for text in (WHOLE, WRITTEN, ROLES, STREAM):
        for place in NUMBER.finditer(text):
            for value in VALUES:
                yield text[: place.start()] + value + text[place.end() :]


def judge(path: Path) -> None:
    """Run the steps of `tkgen check`; print the source if nothing is wrong."""
    try:
        load(path).check().source  # noqa: B018
    except SpecError as error:
        assert all(d.primary.span.text for d in error.diagnostics)


def main(first: int, every: int) -> None:
    worst, shown = 0.0, ""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.tk"
        path.write_text(WHOLE)
        judge(path)  # what is imported and cached once is no spec's fault
        for text in list(specs())[first::every]:
            path.write_text(text)
            start = time.process_time()
            judge(path)
            if (taken := time.process_time() - start) > worst:
                worst, shown = taken, text
    # Not ru_maxrss: that begins with what the process had that started this one.
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
    print(json.dumps({"seconds": worst, "spec": shown, "peak": peak}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
