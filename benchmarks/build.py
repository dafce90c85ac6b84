"""Times of a build: spec to source, the whole build against the bare compile of the same source, and Triton.

    python benchmarks/build.py

Medians of several runs; every build is of a spec under a new name, so that nothing comes from the cache. Triton
compiles a GEMM of the same block shape for the same target.
"""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["TRITON_ALWAYS_COMPILE"] = "1"

from rich.console import Console
from rich.table import Table

import tkgen
from tkgen.backends.cdna import kittens
from tkgen.build.outputs import produce
from tkgen.targets import load_target
from tkgen.toolchain.compile import Options, device_flags
from tkgen.toolchain.discover import find_compiler

ROOT = Path(__file__).parent.parent
RUNS = 7


def median(work: Callable[[], object]) -> float:
    """Milliseconds of one call, after a warm-up."""
    work()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main() -> None:
    spec_path = ROOT / "specs" / "eight_wave.tk"
    target = load_target("gfx942")
    compiler = find_compiler(target)
    table = Table(title="eight_wave for gfx942, medians")
    for heading in ("what", "ms", "ratio"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    table.add_row(
        "tkgen --help (a process)",
        f"{median(lambda: subprocess.run([sys.executable, '-m', 'tkgen', '--help'], capture_output=True)):.0f}",
        "",
    )
    source = median(lambda: tkgen.load(spec_path).check().source)
    table.add_row("spec to source, checks included", f"{source:.1f}", "")
    with tempfile.TemporaryDirectory() as folder:
        cpp = Path(folder) / "kernel.cpp"
        cpp.write_text(tkgen.load(spec_path).source.text)
        flags = device_flags(target, Options((kittens.include_dir(),)))
        bare_command = [*compiler.command, *flags, "-o", str(Path(folder) / "kernel.hsaco"), str(cpp)]
        bare = median(lambda: subprocess.run(bare_command, check=True))
        numbers = itertools.count()

        def whole_build(watch: bool = True) -> None:
            # Another name, in the spec's comment too: neither the code nor the verdict on it is in the cache.
            fresh = Path(folder) / f"eight_wave_{Path(folder).name}_{next(numbers)}.tk"
            fresh.write_text(spec_path.read_text().replace("kernel eight_wave", f"kernel {fresh.stem}"))
            built, _ = produce(tkgen.load(fresh), Path(folder) / "out", watch=watch)
            assert not built.cached and not built.machine_check.cached

        whole, unwatched = median(whole_build), median(lambda: whole_build(watch=False))
    table.add_row("bare compile of the source to a code object", f"{bare:.0f}", "1.00")
    table.add_row("whole tkgen build (all outputs)", f"{whole:.0f}", f"{whole / bare:.2f}")
    table.add_row("the same without the machine check", f"{unwatched:.0f}", f"{unwatched / bare:.2f}")
    try:
        from triton_gemm import compile_gemm

        peer = median(lambda: compile_gemm("gfx942", (128, 128, 64), 8))
        table.add_row("Triton, the same block, 8 warps", f"{peer:.0f}", f"{peer / bare:.2f}")
    except ImportError:
        table.add_row("Triton (pip install triton==3.9.0)", "-", "")
    Console().print(table)


if __name__ == "__main__":
    main()
