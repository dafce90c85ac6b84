"""Processor time of commands that should answer at once, beside other tools on the same machine.

    python benchmarks/latency.py               a table: seconds of processor time, the least of five runs, and the bar
    python benchmarks/latency.py --runs 9
    python benchmarks/latency.py --every       checks of every shipped spec

Each command is a separate process, children included, with warm file caches. `ruff check` of this repository and a
Triton kernel compiled for gfx942 are beside; a tool that is not installed is left out, and said so. Then the language
server's answer to an edit: the analysis of the new text in a process that has analysed the old one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERBS = ("check", "build", "run", "verify", "predict", "report", "graph", "sanitize", "test", "tune", "diff")
TRITON = """
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def add(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(y + i, tl.load(x + i) + 1.0)

source = ASTSource(fn=add, signature={"x": "*fp32", "y": "*fp32", "n": "constexpr"}, constexprs={"n": 256})
triton.compile(source, target=GPUTarget("hip", "gfx942", 64))
"""


# Edits of shipped specs as one types: what is replaced, by what. The last changes a schedule that must be proven anew.
KEYSTROKES = (
    ("eight_wave", "store C", "store  C"),
    ("attention/attention", "by 64", "by 32"),
    ("rows/rmsnorm", "waves 4", "waves 8"),
    ("hopper/h100_ping_pong", "STAGES = 6", "STAGES = 5"),
)
ANALYSED = """
import sys, time
from pathlib import Path
from tkgen.lsp.analysis import Request, analyze
from tkgen.source import SourceFile

path, old, new = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
text = path.read_text()
assert old in text
analyze(Request(SourceFile(str(path), text)))
begin = time.process_time()
analyze(Request(SourceFile(str(path), text.replace(old, new, 1))))
print(time.process_time() - begin)
"""
KEYSTROKE_BAR = 0.1


@dataclass(frozen=True)
class Timed:
    """A command, the exit code that it must have, and the most seconds of processor time that it may take."""

    name: str
    command: list[str]
    code: int = 0
    bar: float | None = None


def tkgen(*words: str) -> list[str]:
    """A command line of tkgen in this interpreter."""
    return [sys.executable, "-m", "tkgen", *words]


def cases(folder: Path, every: bool) -> list[Timed]:
    """Errors of the command line, checks of some specs or of every one, and the tools beside."""
    kernel = folder / "add.py"  # Triton reads the source of its kernels
    kernel.write_text(TRITON, encoding="utf-8")
    spec = "specs/eight_wave.tk"
    errors = [Timed(f"{verb} nope.tk", tkgen(verb, "nope.tk"), 1, 0.3) for verb in VERBS]
    errors += [Timed(f"{verb} --nope", tkgen(verb, spec, "--nope"), 2, 0.3) for verb in VERBS]
    errors += [Timed(f"{verb} -t nope", tkgen(verb, spec, "-t", "nope"), 2, 0.3) for verb in VERBS if verb != "graph"]
    errors += [
        Timed(f"{verb} -D NOPE=3", tkgen(verb, spec, "-D", "NOPE=3"), 1, 0.3) for verb in VERBS if verb != "test"
    ]
    checked = ["eight_wave", "attention/attention", "rows/rmsnorm", "groups/moe", "hopper/h100_ping_pong"]
    if every:
        specs = ROOT / "specs"
        checked = sorted(str(path.relative_to(specs).with_suffix("")) for path in specs.rglob("*.tk"))
    return [
        *errors,
        *(Timed(f"check {name}", tkgen("check", f"specs/{name}.tk"), 0, 1.0) for name in checked),
        Timed("ruff check", [sys.executable, "-m", "ruff", "check", "--no-cache", "."]),
        Timed("triton compile", [sys.executable, str(kernel)]),
    ]


def seconds(timed: Timed, runs: int, folder: Path) -> float | None:
    """The least processor time of some runs; None where the command does not end as it should."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TRITON_CACHE_DIR": str(folder / "triton")}
    least = None
    for run in range(runs):
        if timed.name == "triton compile":
            environment["TRITON_CACHE_DIR"] = str(folder / f"triton{run}")  # compiled each time
        process = subprocess.Popen(
            timed.command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != timed.code:
            return None
        taken = usage.ru_utime + usage.ru_stime
        least = taken if least is None else min(least, taken)
    return least


def keystroke(spec: str, old: str, new: str, runs: int) -> float:
    """The least processor time in which the language server analyses a spec anew after an edit."""
    command = [sys.executable, "-c", ANALYSED, str(ROOT / "specs" / f"{spec}.tk"), old, new]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    made = (subprocess.run(command, env=environment, check=True, capture_output=True, text=True) for _ in range(runs))
    return min(float(done.stdout) for done in made)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--every", action="store_true", help="check every shipped spec")
    options = parser.parse_args()
    runs = options.runs
    print(f"{'command':<48}{'CPU s':>8}{'bar':>6}")
    with tempfile.TemporaryDirectory() as name:
        for timed in cases(Path(name), options.every):
            taken = seconds(timed, runs, Path(name))
            shown = "left out" if taken is None else f"{taken:.2f}"
            bar = "" if timed.bar is None else f"{timed.bar:.1f}"
            missed = "  missed" if taken is not None and timed.bar is not None and taken > timed.bar else ""
            print(f"{timed.name:<48}{shown:>8}{bar:>6}{missed}", flush=True)
    for spec, old, new in KEYSTROKES:
        taken = keystroke(spec, old, new, runs)
        missed = "  missed" if taken > KEYSTROKE_BAR else ""
        print(f"{f'edit of {spec}':<48}{taken:>8.2f}{KEYSTROKE_BAR:>6.1f}{missed}", flush=True)


if __name__ == "__main__":
    main()
