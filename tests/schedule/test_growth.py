"""Planning and checking a written schedule take work that grows with its operations and no faster."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from tkgen.checks.families import check
from tkgen.ir.program import matrix_program as resolve
from tkgen.ir.types import Program
from tkgen.schedule.plan import plan
from tkgen.syntax.parser import parse_path
from tkgen.targets import load_target


def written(path: Path, columns: int) -> tuple[Program, int]:
    """A schedule that multiplies every fragment by its own operation, and how many operations that is."""
    lines = ["    cluster load A  load B"]
    for t in range(4):
        lines.append(
            "    cluster read A(*; 0)".replace("0", str(t)) + "".join(f"  read B({j}; {t})" for j in range(columns))
        )
        for i in range(4):
            lines.append("    cluster " + "  ".join(f"multiply ({i}, {j}; {t})" for j in range(columns)))
    path.write_text(
        f"kernel grown\n  dims M = 128, N = {32 * columns}, K = 256\n  global A : bf16[M, K]\n  global B : bf16[N, K]\n"
        f"  global C : f32[M, N]\n  block 128 x {32 * columns} step 64\n  waves 2 x 2\n  shared A, B\n"
        "  registers A, B slice 16\n  accumulate C : f32 tile 16 x 16 blocked\n  store C\n  schedule\n"
        + "\n".join(lines)
    )
    return resolve(parse_path(path)), sum(line.count(word) for line in lines for word in ("multiply", "read", "load"))


def calls(work: Callable[[], object]) -> int:
    """Function calls that `work` makes: its effort, without the noise of a clock."""
    count = 0

    def counted(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def test_twice_the_operations_are_about_twice_the_work(tmp_path: Path) -> None:
    target = load_target("gfx942")
    small, few = written(tmp_path / "small.tk", 4)
    large, many = written(tmp_path / "large.tk", 16)
    work_of: dict[str, Callable[[Program], object]] = {
        "plan": lambda p: plan(p, target),
        "check": lambda p: check(plan(p, target), target),
    }
    for name, work in work_of.items():
        work(small)  # what is computed once and kept is not counted
        growth = calls(lambda w=work: w(large)) / calls(lambda w=work: w(small))
        assert growth < 1.2 * many / few, name


PHASED = """kernel phased
  dims M = 4096, N = 4096, K = 4096
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 256 x 64 step 32
  waves 4 x 4
  shared A, B buffers 8
  registers A, B slice 16
  accumulate C : f32 tile 16 x 16
  store C
  phase waves 4..7 by 1 cluster
  phase waves 8..11 by 2 clusters
  phase waves 12..15 by 3 clusters
  schedule
    cluster load A[k+7] B[k+7]
"""


def test_phases_do_not_multiply_the_work(tmp_path: Path) -> None:
    """223 operations of 16 waves in four phases: each of some 20 proofs once walked along four programs that are alike,
    and each of 336 barriers was looked for in all operations. 28 million calls then."""
    lines: list[str] = []
    for t in (0, 1):
        lines += [f"    cluster read A({i}; {t})  wait lds 0" for i in range(4)]
        lines.append(f"    cluster read B(*; {t})  wait lds 0")
        lines += [f"    cluster multiply ({i}, *; {t})" for i in range(4)]
    path = tmp_path / "phased.tk"
    path.write_text(PHASED + "\n".join([*lines, *["    cluster priority low  wait lds 0"] * 24, ""]))
    program, target = resolve(parse_path(path)), load_target("gfx942")
    assert not plan(program, target).conflicts()
    assert calls(lambda: plan(program, target)) < 5_000_000
