"""Count the mistakes in kernels written by hand of which `tkgen verify` names the cause.

    python benchmarks/verify_hand_written.py [NUMBER ...]

Prints a line for each mutant of `mutating/hand_written.py`: whether it is caught, and whether the cause that is named
is the mistake, and a count of each. Exits with 1 if a right kernel is accused or a wrong one accepted.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

from mutating.hand_written import LAUNCHES, MUTANTS

from tkgen.sanitize import Request as KernelRequest
from tkgen.verify import Verdict
from tkgen.verify.foreign import Request, verified_file

FOLDER = Path(__file__).parent / "mutating"
SOURCE = FOLDER / "hand_written.hip"


def kernel_text(kernel: str) -> str:
    """The text of one kernel, with the include above it: each mutant compiles this alone."""
    text = SOURCE.read_text("utf-8")
    begin = text.index(f" void {kernel}(")
    begin = text.rindex('extern "C"', 0, begin)
    end = text.index("\n}\n", begin) + 3
    return f"#include <hip/hip_runtime.h>\n{text[begin:end]}"


def verdict_on(kernel: str, text: str, draws: int = 1) -> Verdict:
    """The verdict on a kernel of that name with this text, beside its meaning."""
    launch = LAUNCHES[kernel]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.hip"
        path.write_text(text, "utf-8")
        request = KernelRequest(
            path, launch.grid, launch.block, kernel=kernel, arguments=launch.arguments, target="gfx942"
        )
        reference = f"{FOLDER / 'hand_written.py'}:{kernel}"
        return verified_file(Request(request, None, reference), draws, 1)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("numbers", nargs="*", type=int, help="mutants, counted from 0; else all, and the right kernels")
    chosen = parser.parse_args().numbers
    bad = caught = named = 0
    for kernel in LAUNCHES if not chosen else ():
        right = verdict_on(kernel, kernel_text(kernel))
        bad += not right.ok or bool(right.cause)
        print(f"{kernel}: {'as meant' if right.ok else 'ACCUSED'} {'; '.join(map(str, right.cause))}", flush=True)
    for number in chosen or range(len(MUTANTS)):
        m = MUTANTS[number]
        text = kernel_text(m.kernel)
        assert text.count(m.old) == 1, m
        found = verdict_on(m.kernel, text.replace(m.old, m.new))
        said = "; ".join(map(str, found.cause))
        fits = bool(re.search(m.cause, said))
        false = bool(said) and not fits and not said.rpartition(" ")[0].startswith("depends")
        caught, named, bad = caught + (not found.ok), named + fits, bad + found.ok
        word = "accepted" if found.ok else "named" if fits else "OTHER" if false else "no cause"
        print(f"{number} {m.kernel}: {word}: {m.old!r} -> {m.new!r}\n    {said}", flush=True)
    print(f"{len(chosen or MUTANTS)} mutants: {caught} caught, the cause of {named} named")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
