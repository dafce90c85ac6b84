"""Processor time of commands that should answer at once, beside other tools on the same machine.

    python benchmarks/latency.py               a table: seconds of processor time, the least of five runs, and the bar
    python benchmarks/latency.py --runs 9
    python benchmarks/latency.py --every       checks of every shipped spec
    python benchmarks/latency.py --write       also puts the tables into docs/editor.md

Each command is a separate process, children included, with warm file caches. Its first run is not timed: it compiles
Python's modules, which an installed tkgen has compiled. `ruff check` of this repository and a Triton kernel compiled
for gfx942 are beside; a tool that is not installed is left out, and said so. Then the language server's analysis of
edits (`keystrokes`).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import keystrokes
import pages

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


def environment(folder: Path) -> dict[str, str]:
    """The environment of a timed command: modules of Python are compiled once, as where tkgen is installed."""
    given = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return given | {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(folder / "compiled")}


def seconds(timed: Timed, runs: int, folder: Path) -> float | None:
    """The least processor time of some runs after a first one; None where the command does not end as it should."""
    given = environment(folder)
    least = None
    for run in range(runs + 1):
        if timed.name == "triton compile":
            given["TRITON_CACHE_DIR"] = str(folder / f"triton{run}")  # compiled each time
        process = subprocess.Popen(
            timed.command, cwd=ROOT, env=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != timed.code:
            return None
        taken = usage.ru_utime + usage.ru_stime
        if run:
            least = taken if least is None else min(least, taken)
    return least


def rows_of_commands(runs: int, every: bool) -> Iterator[list[str]]:
    """(command, seconds, bar), printed as they are measured."""
    with tempfile.TemporaryDirectory() as name:
        for timed in cases(Path(name), every):
            taken = seconds(timed, runs, Path(name))
            shown = "left out" if taken is None else f"{taken:.2f}"
            bar = "" if timed.bar is None else f"{timed.bar:.1f}"
            missed = "  missed" if taken is not None and timed.bar is not None and taken > timed.bar else ""
            print(f"{timed.name:<48}{shown:>10}{bar:>6}{missed}", flush=True)
            yield [f"`{timed.name}`", shown, bar]


def rows_of_keystrokes(runs: int) -> Iterator[list[str]]:
    """(spec, seconds of each kind of edit), printed as they are measured."""
    print(f"{'edit of':<40}" + "".join(f"{kind:>16}" for kind in keystrokes.KINDS))
    for spec in keystrokes.EDITS:
        taken = keystrokes.times(spec, runs)
        missed = "  missed" if max(taken) > keystrokes.BAR else ""
        print(f"{spec:<40}" + "".join(f"{each:>16.3f}" for each in taken) + missed, flush=True)
        yield [f"`{spec}`", *(f"{each:.3f}" for each in taken)]


def summary(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The commands of a table without those errors that are not the slowest of their kind."""
    kinds: dict[str, list[str]] = {}
    for name, shown, bar in rows:
        kind = f"an error: `{' '.join(name.strip('`').split()[1:])}`" if bar == "0.3" else name
        if kind not in kinds or shown > kinds[kind][1]:
            kinds[kind] = [kind, shown, bar]
    return [[kind, shown, bar and f"{bar} s"] for kind, shown, bar in kinds.values()]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--every", action="store_true", help="check every shipped spec")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/editor.md")
    options = parser.parse_args()
    print(f"{'command':<48}{'CPU s':>10}{'bar':>6}")
    commands = list(rows_of_commands(options.runs, options.every))
    edits = list(rows_of_keystrokes(options.runs))
    if options.write:
        pages.put("editor.md", "commands", pages.markdown(["command", "CPU s", "bar"], summary(commands)))
        pages.put("editor.md", "keystrokes", pages.markdown(["edit of", *keystrokes.KINDS], edits))


if __name__ == "__main__":
    main()
