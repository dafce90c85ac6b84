"""Mutants in the C++ of Hopper kernels that the host run finds, beside the model and a GPU.

    python benchmarks/hopper_host_mutants.py --into FILE [--family products|turns|clusters|loops] [--every N]
    python benchmarks/hopper_host_mutants.py --from FILE --write

Every mutant of the generated C++ (`mutating.hopper_sources`) is compiled for the CPU and executed in several orders, at
small sizes at which each block has several tiles. It is found where it ends with a finding (a hang names who waits), or
where it stores other bytes than the kernel itself. The model of the schedule never reads the C++. What a GPU found is
the sum of its own table in docs/emulator.md, of the same mutants at larger sizes.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pages
import torch
from mutating.hopper_sources import mutants

from tkgen.api import load
from tkgen.backends.hopper.host.executor import HostExecutor
from tkgen.backends.hopper.host.run import run
from tkgen.execute.arguments import check_scalars
from tkgen.execute.compare import Inputs, random_inputs
from tkgen.ir.functions import HOPPER
from tkgen.toolchain.compiler import ToolchainError

ROOT = Path(__file__).parents[1]
SUBJECTS: dict[str, tuple[str, dict[str, int], int]] = {
    "products": ("h100_lcf", {"M": 256, "N": 512, "K": 448}, 1),
    "turns": ("h100_ping_pong", {"M": 512, "N": 512, "K": 448}, 1),
    "clusters": ("h100_cluster", {"M": 512, "N": 512, "K": 448}, 2),
    "loops": ("h100_attention", {"BATCH": 1, "HEADS": 1, "KV_HEADS": 1, "LENGTH": 512}, 1),
}
"""Specs, sizes, and blocks of the launch: several tiles for each, more steps than stages."""
ORDERS = 12
FEW = (1, 4, ORDERS)  # orders after which the table counts
LIMIT = 30.0  # seconds of a launch


@dataclass(frozen=True)
class Seen:
    """A mutant, the first order that finds it (0: none), and how."""

    family: str
    number: int
    kind: str
    what: str
    order: int
    end: str


@cache
def subject(family: str) -> Any:
    """The spec whose C++ is changed, at its sizes."""
    name, sizes, blocks = SUBJECTS[family]
    text = (ROOT / "specs" / "hopper" / f"{name}.tk").read_text(encoding="utf-8")
    assert "persistent(132)" in text
    return load(text.replace("persistent(132)", f"persistent({blocks})"), sizes)


@cache
def given(family: str) -> tuple[Any, dict[str, Any], dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """A subject's launch, scalars and inputs, and what the kernel itself stores. Raises SystemExit: it is not right."""
    spec = subject(family)
    launch, scalars = spec.launch(), check_scalars(spec.program)
    inputs = random_inputs(launch, 1, Inputs.NORMAL, HOPPER)
    made = [run(spec, launch, inputs, scalars, order) for order in HostExecutor().orders(2)]
    for each in made:
        if each.findings or any(not torch.equal(t, made[0].outputs[name]) for name, t in each.outputs.items()):
            raise SystemExit(f"{family}, the kernel itself: {each.findings or 'two orders store other bytes'}")
    return launch, scalars, inputs, dict(made[0].outputs)


def tried(family: str, number: int) -> Seen | None:
    """A mutant in one order after another until one finds it; None where it does not compile."""
    spec = subject(family)
    kind, what, text = list(mutants(spec.text))[number]
    launch, scalars, inputs, wanted = given(family)
    for at, order in enumerate(HostExecutor().orders(ORDERS), 1):
        try:
            made = run(spec, launch, inputs, scalars, order, text=text, limit=LIMIT)
        except ToolchainError:
            return None
        if made.findings:
            end = "hang" if any("waits for ever" in f or "did not end" in f for f in made.findings) else "finding"
            return Seen(family, number, kind, what, at, end)
        if any(not torch.equal(t.view(torch.uint8), wanted[n].view(torch.uint8)) for n, t in made.outputs.items()):
            return Seen(family, number, kind, what, at, "wrong")
    return Seen(family, number, kind, what, 0, "right")


# ---------------------------------------------------------------- the table


def on_a_gpu() -> dict[str, list[int]]:
    """Of each kind, how many mutants were tried on a GPU, and how many its launches and its tools found."""
    text = (ROOT / "docs" / "emulator.md").read_text(encoding="utf-8")
    table = text.split("<!-- mutants on a GPU: begin -->")[1].split("<!-- mutants on a GPU: end -->")[0]
    rows = (re.findall(r"[^|]+", line) for line in table.splitlines() if line.startswith("| "))
    return {r[0].strip(): [int(r[1]), int(r[2])] for r in rows if r[1].strip().isdigit()}


def markdown(seen: Sequence[Seen]) -> str:
    """A row for each kind, most mutants first; the whole last."""
    heads = ["mutant of the C++", "tried", "the model"]
    heads += [f"host run, {n} order{'s' if n > 1 else ''}" for n in FEW]
    heads += ["wrong numbers", "hangs", "other findings", "an H100 and its tools"]
    gpu, rows = on_a_gpu(), []
    for kind, group in pages.by_kind(seen):
        counts = [len(group), 0, *(sum(0 < s.order <= n for s in group) for n in FEW),
                  *(sum(s.end == end for s in group) for end in ("wrong", "hang", "finding"))]  # fmt: skip
        found = "{1} of {0}".format(*gpu[kind]) if kind in gpu else "not tried"
        rows.append([kind, *map(str, counts), found])
    return pages.markdown(heads, rows)


def kept(file: Path) -> list[Seen]:
    """The results in a file of an earlier run."""
    return [Seen(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    runs = parser.add_mutually_exclusive_group(required=True)
    runs.add_argument("--into", type=Path, help="run; add a line there for each mutant, as soon as it is known")
    runs.add_argument("--from", type=Path, dest="source", help="make the table of such lines")
    parser.add_argument("--family", choices=SUBJECTS, action="append")
    parser.add_argument("--every", type=int, default=1, help="run every N-th mutant")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--write", action="store_true", help="put the table into docs/emulator.md")
    args = parser.parse_args()
    if args.into:
        known = {(s.family, s.number) for s in kept(args.into)} if args.into.exists() else set()
        with ProcessPoolExecutor(args.jobs) as pool, args.into.open("a", encoding="utf-8") as file:
            for family in args.family or SUBJECTS:
                numbers = range(0, len(list(mutants(subject(family).text))), args.every)
                for seen in pool.map(partial(tried, family), [n for n in numbers if (family, n) not in known]):
                    if seen is not None:
                        file.write(json.dumps(asdict(seen)) + "\n")
                        file.flush()
        return
    table = markdown(kept(args.source))
    sys.stdout.write(table)
    if args.write:
        pages.put("emulator.md", "mutants on the host", table)


if __name__ == "__main__":
    main()
