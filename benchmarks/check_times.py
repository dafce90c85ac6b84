"""The CPU time of `check` for all of specs/, one process a target, beside the stored record.

    python benchmarks/check_times.py            a table, and the slowest specs of each target
    python benchmarks/check_times.py --write    also stores it in tests/specs/figures/check_times.json

The process checks every spec for its target, accepted or refused, after it has imported tkgen and loaded one spec. Each
number is the smallest of three processes. Times depend on the machine: compare those of one machine, when it is idle.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from shipped import SPECS, TARGETS

from tkgen.api import load
from tkgen.diagnostics import SpecError

RECORD = Path(__file__).parents[1] / "tests" / "specs" / "figures" / "check_times.json"
SLOWEST, RUNS = 10, 3
Times = dict[str, float]


def check_all(target: str) -> Times:
    """CPU seconds of loading and checking each spec for a target, in this process."""
    paths, times = sorted(SPECS.rglob("*.tk")), Times()
    check(paths[0], target)  # imports
    for path in paths:
        begin = time.process_time()
        check(path, target)
        times[str(path.relative_to(SPECS).with_suffix(""))] = time.process_time() - begin
    return times


def check(path: Path, target: str) -> None:
    """Check a spec that may be refused."""
    with contextlib.suppress(SpecError):
        load(path, target=target).check()


def in_process(target: str) -> Times:
    """`check_all` in its own process."""
    command = [sys.executable, __file__, "--target", target]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def measure(target: str) -> dict[str, Any]:
    """The record of a target: the whole of the quickest run, and the smallest time of the slowest specs."""
    runs = [in_process(target) for _ in range(RUNS)]
    least = {spec: min(run[spec] for run in runs) for spec in runs[0]}
    slowest = sorted(least, key=lambda spec: -least[spec])[:SLOWEST]
    return {
        "seconds": round(min(sum(run.values()) for run in runs), 2),
        "specs": len(least),
        "slowest": {spec: round(least[spec], 3) for spec in slowest},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="store the record")
    parser.add_argument("--target", choices=TARGETS, help="check the specs for it in this process; prints JSON")
    options = parser.parse_args()
    if options.target:
        print(json.dumps(check_all(options.target)))
        return
    found = {target: measure(target) for target in TARGETS}
    stored = json.loads(RECORD.read_text(encoding="utf-8"))["targets"] if RECORD.is_file() else {}
    table = Table(title="CPU seconds of `check` of all specs", box=None)
    for heading in ("target", "stored", "now", "slowest specs now"):
        table.add_column(heading)
    for target, record in found.items():
        slowest = "\n".join(f"{seconds:.3f} {spec}" for spec, seconds in record["slowest"].items())
        table.add_row(target, str(stored.get(target, {}).get("seconds", "")), str(record["seconds"]), slowest)
    Console(width=100).print(table)
    if options.write:
        RECORD.parent.mkdir(parents=True, exist_ok=True)
        whole = {"python": platform.python_version(), "processor": processor(), "targets": found}
        RECORD.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")


def processor() -> str:
    """The name of this machine's processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    return next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), platform.processor())


if __name__ == "__main__":
    main()
