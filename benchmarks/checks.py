"""Times of the checks, and errors of the register estimate.

    python benchmarks/checks.py [--growth | --registers]

The table has a spec of each kind with 16 waves and 200 operations or equations, and the time from its text to the
verdict, and to C++: both are to stay under a second. `--growth` grows a written schedule instead: operations, LDS
buffers, phases of the waves. `--registers` compiles all specs and compares the estimate with the machine code.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

import tkgen
from tkgen.checks.families import check
from tkgen.checks.registers import estimate
from tkgen.diagnostics import Severity, SpecError
from tkgen.ir.program import matrix_program as resolve
from tkgen.schedule.plan import Plan, plan
from tkgen.source import SourceFile
from tkgen.syntax.parser import parse
from tkgen.targets import load_target

ROOT = Path(__file__).parent.parent
TARGET = load_target("gfx950")


def written(
    clusters: int = 24, buffers: int = 8, phases: int = 1, *, head: tuple[str, ...] = (), k: str = "4096"
) -> str:
    """A correct schedule of 16 waves: every read and multiply in its own cluster, `clusters` of them empty."""
    ahead = f"[k+{buffers - 1}]" if buffers > 1 else ""
    lines = [f"    cluster load A{ahead} B{ahead}"]
    for t in (0, 1):
        lines += [f"    cluster read A({i}; {t})  wait lds 0" for i in range(4)]
        lines.append(f"    cluster read B(*; {t})  wait lds 0")
        lines += [f"    cluster priority high  multiply ({i}, *; {t})" for i in range(4)]
    lines += ["    cluster priority low  wait lds 0"] * clusters
    return _products(buffers, phases, lines, head=head, k=k)


def _products(
    buffers: int, phases: int, schedule: list[str], *, head: tuple[str, ...] = (), k: str = "4096", slices: str = ""
) -> str:  # fmt: skip
    """A product of 256 x 64 x 32 a block by 16 waves, with a schedule."""
    shifts = [f"  phase waves {4 * n}..{4 * n + 3} by {n} cluster{'s' * (n > 1)}" for n in range(1, phases)]
    return "\n".join(
        [
            "kernel large",
            f"  dims M = 4096, N = 4096, K = {k}",
            "  global A : bf16[M, K]",
            "  global B : bf16[N, K]",
            "  global C : f32[M, N]",
            "  target gfx950",
            "  block 256 x 64 step 32",
            *head,
            "  waves 4 x 4",
            f"  shared A, B buffers {buffers}",
            slices or "  registers A, B slice 16",
            "  accumulate C : f32 tile 16 x 16",
            "  store C",
            *shifts,
            "  schedule",
            *schedule,
            "",
        ]
    )


def slices() -> str:
    """Slices of A half as long as those of B."""
    lines = ["    cluster load A[k+7] B[k+7]"]
    for t in (0, 1):
        lines += [f"    cluster read A({i}; {t})  wait lds 0" for i in range(4)]
        lines += ["    cluster read B  wait lds 0"] * (t == 0)
        lines += [f"    cluster priority high  multiply ({i}, *; {t})" for i in range(4)]
    lines += ["    cluster priority low  wait lds 0"] * 24
    return _products(8, 4, lines, slices="  registers A slice 16\n  registers B slice 32")


def parts() -> str:
    """Tiles brought to LDS in halves, two K-steps ahead."""
    lines = [f"    cluster copy A[k+2]({half})" for half in ("0..1", "2..3")] + ["    cluster copy B[k+2]  wait vm 0"]
    for t in (0, 1):
        lines += [f"    cluster read A({i}; {t})  wait lds 0" for i in range(4)]
        lines.append(f"    cluster read B(*; {t})  wait lds 0")
        lines += [f"    cluster priority high  multiply ({i}, *; {t})" for i in range(4)]
    lines += ["    cluster priority low  wait lds 0"] * 20
    text = _products(3, 4, lines, slices="  registers A, B slice 32")
    text = text.replace("64 step 32", "128 step 64").replace("buffers 3", "buffers 3 via direct")
    return text.replace("tile 16 x 16", "tile 16 x 16 interleaved")


def accumulators() -> str:
    """Two products of one factor."""
    lines = ["    cluster load X[k+3] G[k+3] U[k+3]"]
    for t in (0, 1):
        lines += [f"    cluster read X({i}; {t})  wait lds 0" for i in range(2)]
        lines += [f"    cluster read {w}(*; {t})  wait lds 0" for w in "GU"]
        lines += [f"    cluster multiply {sum_} ({i}, *; {t})" for sum_ in "gu" for i in range(2)]
    lines += ["    cluster priority low  wait lds 0"] * 32
    return "\n".join(
        [
            "kernel gated",
            "  dims TOKENS = 4096, HIDDEN = 4096, D = 4096",
            "  global X : bf16[TOKENS, D]",
            "  global G : bf16[HIDDEN, D]",
            "  global U : bf16[HIDDEN, D]",
            "  global Y : bf16[TOKENS, HIDDEN]",
            "  target gfx950",
            "  over m in TOKENS by 128, n in HIDDEN by 64",
            "  waves 4 x 4",
            "  shared X, G, U buffers 4",
            "  registers X, G, U slice 16",
            "  accumulate g, u : f32 tile 16 x 16",
            "  each k in D by 32",
            "    g = g + X[m, k] @ G[n, k].T",
            "    u = u + X[m, k] @ U[n, k].T",
            "  Y[m, n] = silu(g) * u",
            "  phase waves 8..15 by 1 cluster",
            "  schedule",
            *lines,
            "",
        ]
    )


def roles() -> str:
    """Four waves that bring tiles, twelve that multiply."""
    lines = 66
    compute = [f"      cluster read A({i})  wait lds 0" for i in range(4)] + ["      cluster read B  wait lds 0"]
    compute += [f"      cluster priority high  multiply ({i}, *)" for i in range(4)]
    compute += ["      cluster priority low"] * (lines - len(compute))
    produce = ["      cluster copy A[k+3] B[k+3]  wait vm 0", *["      cluster priority low"] * (lines - 1)]
    return "\n".join(
        [
            "kernel specialised",
            "  dims M = 3840, N = 3840, K = 4096",
            "  global A : bf16[M, K]",
            "  global B : bf16[N, K]",
            "  global C : f32[M, N]",
            "  target gfx950",
            "  block 192 x 192 step 32",
            "  shared A, B buffers 4 via direct",
            "  registers A, B slice 32",
            "  role producer waves 0..3",
            "    load A, B",
            "    schedule",
            *produce,
            "  role consumer waves 4..15 as 3 x 4",
            "    accumulate C : f32 tile 16 x 16",
            "    store C",
            "    schedule",
            *compute,
            "",
        ]
    )


def divided() -> str:
    """A contraction divided among blocks (`each ... part`)."""
    lines = ["    cluster load X[k+3] W[k+3]"]
    for t in (0, 1):
        lines += [f"    cluster read X({i}; {t})  wait lds 0" for i in range(4)]
        lines.append(f"    cluster read W(*; {t})  wait lds 0")
        lines += [f"    cluster multiply ({i}, *; {t})" for i in range(4)]
    lines += ["    cluster priority low  wait lds 0"] * 28
    return "\n".join(
        [
            "kernel sums",
            "  dims TOKENS = 1024, OUT = 1024, IN = 8000, PARTS = 8",
            "  global X : bf16[TOKENS, IN]",
            "  global W : bf16[OUT, IN]",
            "  global S : f32[PARTS, TOKENS, OUT]",
            "  target gfx950",
            "  over p in PARTS, m in TOKENS by 256, n in OUT by 64",
            "  tail masked",
            "  waves 4 x 4",
            "  shared X, W buffers 4",
            "  registers X, W slice 16",
            "  accumulate s : f32 tile 16 x 16",
            "  each k in IN by 32 part p",
            "    s = s + X[m, k] @ W[n, k].T",
            "  S[p, m, n] = s",
            "  phase waves 8..15 by 1 cluster",
            "  schedule",
            *lines,
            "",
        ]
    )


def rows() -> str:
    """A chain of 200 equations over rows, with a reduction in every tenth."""
    equations = ["  x0 = X[t]"]
    for n in range(1, 200):
        last = f"x{n - 1}"
        equations.append(f"  x{n} = " + (f"{last} * rsqrt(rowmean({last} * {last}) + 1)" if n % 10 == 0 else
                                         f"max({last} * 0.5 + W, {last} - 1)"))  # fmt: skip
    return "\n".join(
        [
            "kernel long_rows",
            "  dims TOKENS = 4096, D = 1024",
            "  global X : bf16[TOKENS, D]",
            "  global W : bf16[D]",
            "  global Y : bf16[TOKENS, D]",
            "  over t in TOKENS by 16",
            "  waves 16",
            *equations,
            "  Y[t] = x199",
            "",
        ]
    )


def loop() -> str:
    """Attention whose scores go through 200 equations."""
    chain = [f"    s{n} = max(s{n - 1} * 0.5, s{n - 1} - 1)" for n in range(1, 193)]
    return "\n".join(
        [
            "kernel long_loop",
            "  dims HEADS = 16, LENGTH = 2048, D = 64",
            "  global Q : bf16[HEADS, LENGTH, D]",
            "  global K : bf16[HEADS, LENGTH, D]",
            "  global V : bf16[HEADS, LENGTH, D]",
            "  global O : bf16[HEADS, LENGTH, D]",
            "  over h in HEADS, q in LENGTH by 512",
            "  waves 16 along q",
            "  shared K, V buffers 2",
            "  registers Q",
            "  carry m : f32[q] = -inf, l : f32[q] = 0, o : f32[q, D] = 0",
            "  each j in LENGTH by 64",
            "    s0 = 0.18 * Q[h, q] @ K[h, j].T",
            *chain,
            "    n = max(m, rowmax(s192))",
            "    p = exp2(s192 - n)",
            "    r = exp2(m - n)",
            "    l = l * r + rowsum(p)",
            "    o = o * r + bf16(p) @ V[h, j]",
            "    m = n",
            "  O[h, q] = o / l",
            "",
        ]
    )


def sequence() -> str:
    """Eight kernels in a row: products of 16 waves, and formulas of rows."""
    lines = ["sequence chain", "dims TOKENS = 4096, D = 4096"]
    lines += [f"global X{n} : bf16[TOKENS, D]" for n in range(9)] + [f"global W{n} : bf16[D, D]" for n in range(4)]
    for n in range(4):
        lines += [
            f"kernel product{n}",
            "  over m in TOKENS by 256, n in D by 256",
            "  waves 4 x 4",
            f"  shared X{2 * n}, W{n} buffers 2",
            "  each k in D by 32",
            f"    s = s + X{2 * n}[m, k] @ W{n}[n, k].T",
            f"  X{2 * n + 1}[m, n] = gelu(s)",
            f"kernel formula{n}",
            "  over t in TOKENS by 16",
            "  waves 16",
            *[f"  y{i} = " + (f"y{i - 1} * 0.5 + 1" if i else f"X{2 * n + 1}[t]") for i in range(25)],
            f"  X{2 * n + 2}[t] = y24",
        ]
    return "\n".join([*lines, ""])


KINDS: dict[str, Callable[[], str]] = {
    "written schedule": written,
    "8 buffers, 4 phases": lambda: written(phases=4),
    "4 phases, persistent": lambda: written(phases=4, head=("  grid persistent(256)",)),
    "4 phases, dynamic K": lambda: written(buffers=4, phases=4, k="dynamic"),
    "waits placed": lambda: (
        written(phases=4).replace("  schedule\n", "  schedule waits auto\n").replace("  wait lds 0", "")
    ),
    "slices differ": slices,
    "parts of tiles": parts,
    "two sums": accumulators,
    "roles": roles,
    "each ... part": divided,
    "rows": rows,
    "loop": loop,
    "sequence of 8": sequence,
}


def kinds() -> Table:
    """A spec of each kind, and the time to its verdict and from there to C++, in milliseconds of CPU time."""
    result = Table(title="16 waves, 200 operations")
    for name in ("kind", "lines", "check, ms", "C++, ms", "warnings"):
        result.add_column(name, justify="left" if name == "kind" else "right")
    tkgen.load(written(0, 1)).check()  # what is computed once and kept is not counted
    for kind, text in KINDS.items():
        lines, start = text(), time.process_time()
        spec = tkgen.load(lines)
        found = spec.diagnostics
        checked = time.process_time()
        if any(d.severity is Severity.ERROR for d in found):
            raise ValueError(f"{kind}: {found[0].message}")
        assert spec.text
        times = (f"{1000 * (t - s):.0f}" for s, t in ((start, checked), (checked, time.process_time())))
        result.add_row(kind, str(lines.count("\n")), *times, str(len(found)))
    return result


def milliseconds(made: Plan) -> tuple[float, int, int]:
    """Time of a whole check (nothing kept from before), errors and warnings."""
    times, found = [], []
    for _ in range(3):
        fresh = made.with_bodies(made.bodies)
        start = time.perf_counter()
        found = check(fresh, TARGET)
        times.append(1000 * (time.perf_counter() - start))
    errors = sum(d.severity is Severity.ERROR for d in found)
    return statistics.median(times), errors, len(found) - errors


def growth() -> Table:
    """Time over the size of the schedule."""
    result = Table(title="tkgen check, 16 waves")
    for name in ("operations", "buffers", "phases", "plan, ms", "check, ms", "errors", "warnings"):
        result.add_column(name, justify="right")
    sizes = [(n, b, p) for n in (0, 8, 24) for b in (1, 8) for p in (1, 4)]
    for clusters, buffers, phases in sizes:
        program = resolve(parse(SourceFile("large.tk", written(clusters, buffers, phases))))
        start = time.perf_counter()
        made = plan(program, TARGET)
        planned = 1000 * (time.perf_counter() - start)
        spent, errors, warnings = milliseconds(made)
        (body,) = made.bodies.values()
        row = (len(body), buffers, phases, f"{planned:.0f}", f"{spent:.0f}", errors, warnings)
        result.add_row(*map(str, row))
    return result


def registers() -> Table:
    """The estimate beside the machine code, for every spec."""
    result = Table(title="registers per lane, allotted")
    for name in ("spec", "estimate", "compiled", "ratio"):
        result.add_column(name, justify="left" if name == "spec" else "right")
    for path in sorted((ROOT / "specs").glob("*.tk")):
        try:
            build = tkgen.load(path).build()
        except SpecError as error:
            result.add_row(path.stem, str(error), "", "")
            continue
        target = build.spec.target
        predicted = estimate(build.spec.plan, target).allotted
        real = target.allotted_registers(build.resources.vgpr, build.resources.agpr)
        result.add_row(path.stem, str(predicted), str(real), f"{predicted / real:.2f}")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--growth", action="store_true", help="grow a written schedule")
    parser.add_argument("--registers", action="store_true", help="compile all specs and compare the estimate")
    args = parser.parse_args()
    Console().print(registers() if args.registers else growth() if args.growth else kinds())


if __name__ == "__main__":
    main()
