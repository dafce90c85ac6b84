"""What a Hopper GPU says of slips in the C++: wrong numbers, hangs. On such a GPU:

    python benchmarks/hopper_gpu_mutants.py [--family products|turns|clusters|loops] [--every N] [--into FILE]
    python benchmarks/hopper_gpu_mutants.py --from FILE --write        puts the table into docs/emulator.md

Every mutant of the generated C++ (`mutating.hopper_sources`) is compiled and launched several times; what it stores is
compared byte by byte with what the kernel itself stores of the same inputs. A process of its own launches them one
after another: where one does not end, it is ended with it, and another process, which is ready by then, goes on behind
it; a few such share the GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import pages
from mutating.hopper_sources import mutants

from tkgen.api import load
from tkgen.backends.hopper.build import compiled
from tkgen.toolchain.compiler import ToolchainError

ROOT = Path(__file__).parents[1]
SUBJECTS: dict[str, tuple[str, dict[str, int]]] = {
    "products": ("h100_lcf", {"M": 4096, "N": 2560, "K": 1024}),
    "turns": ("h100_ping_pong", {"M": 4096, "N": 2560, "K": 1024}),
    "clusters": ("h100_cluster", {"M": 4096, "N": 2560, "K": 1024}),
    "loops": ("h100_attention", {"BATCH": 2, "HEADS": 16, "LENGTH": 2048}),
}
"""Specs, and sizes of several tiles for each block."""
AGAIN = 8  # launches
AT_ONCE = 12  # processes that launch
LIMIT = 2.5  # seconds of a mutant's launches
START = 60.0  # seconds until a process is ready

Named = tuple[str, str]


@dataclass(frozen=True)
class Seen:
    """A mutant, and what its launches came to: right, wrong, hang, error."""

    family: str
    kind: str
    what: str
    end: str


# ---------------------------------------------------------------- in a child, on the GPU


def launched_by(family: str) -> tuple[Any, Callable[[Any], dict[str, Any]]]:
    """A subject's build, and what launches one like it once on tensors anew and returns what it stored."""
    import torch

    from tkgen.backends.hopper.launch import launcher, loop_launcher
    from tkgen.execute import kernels
    from tkgen.execute.arguments import check_scalars
    from tkgen.execute.compare import Inputs
    from tkgen.ir.functions import HOPPER

    name, sizes = SUBJECTS[family]
    spec = load(ROOT / "specs" / "hopper" / f"{name}.tk", sizes)
    launch, scalars = kernels.launch_of(spec), check_scalars(spec.program)
    inputs = {n: t.cuda() for n, t in kernels.random_inputs(launch, 1, Inputs.NORMAL, HOPPER).items()}
    outputs = [t.name for t in kernels.written(launch)]

    def stored(build: Any) -> dict[str, Any]:
        tensors = kernels.memory(launch, inputs, poison=True)
        start = loop_launcher if family == "loops" else launcher
        start(build, launch, tensors, scalars)()
        torch.cuda.synchronize()
        return {name: tensors[name].view(torch.uint8) for name in outputs}

    return spec.build(), stored


def child(family: str, folder: Path) -> None:
    """Launches the mutants that a line of the input names, one after another; a line when ready, and for each."""
    import torch

    build, stored = launched_by(family)
    wanted = stored(build)
    print(json.dumps({"ready": True}), flush=True)
    for number in json.loads(sys.stdin.readline() or "[]"):
        mutant = replace(build, cubin=(folder / f"{family}-{number}").read_bytes())
        try:
            found = (stored(mutant) for _ in range(AGAIN))
            right = all(torch.equal(each[name], wanted[name]) for each in found for name in wanted)
        except (RuntimeError, ToolchainError) as error:
            print(json.dumps({"end": "error", "said": str(error)[:200]}), flush=True)
            return  # nothing of this process runs any more
        print(json.dumps({"end": "right" if right else "wrong"}), flush=True)


# ---------------------------------------------------------------- in the parent


def command(family: str, folder: Path) -> list[str]:
    """What starts a child."""
    return [sys.executable, __file__, "--child", family, str(folder)]


class Child:
    """A process that launches mutants of a family; preparing it takes seconds and is not waited for."""

    def __init__(self, family: str, folder: Path) -> None:
        self.process = subprocess.Popen(command(family, folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, start_new_session=True)  # fmt: skip
        self.lines: Queue[dict[str, Any]] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith("{"):
                self.lines.put(json.loads(line))
        self.lines.put({"gone": self.process.wait()})

    def line(self, patience: float) -> dict[str, Any]:
        """The next that it says. Raises Empty where that takes longer, SystemExit where it has ended."""
        found = self.lines.get(timeout=patience)
        if "gone" in found:
            raise SystemExit(f"a process that launches mutants ended with status {found['gone']}")
        return found

    def begin(self, numbers: Sequence[int]) -> None:
        """Has it launch these, once it is ready."""
        assert self.process.stdin
        self.line(START)
        self.process.stdin.write(json.dumps(list(numbers)) + "\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Ends it, whatever it is at."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def ends(family: str, folder: Path, numbers: Sequence[int]) -> Iterator[str]:
    """What the launches of these mutants of a family come to."""
    left, standby = list(numbers), Child(family, folder)
    try:
        while left:
            current, standby = standby, Child(family, folder)
            try:
                current.begin(left)
                while left:
                    said = current.line(LIMIT)["end"]
                    left.pop(0)
                    yield said
                    if said == "error":
                        break
            except Empty:
                left.pop(0)
                yield "hang"
            finally:
                current.end()
    finally:
        standby.end()


def prepared(family: str, every: int, folder: Path, pool: ThreadPoolExecutor) -> dict[int, Named]:
    """(kind, what) of a family's mutants, their machine code in `folder`; those that do not compile are left out."""
    name, sizes = SUBJECTS[family]
    spec = load(ROOT / "specs" / "hopper" / f"{name}.tk", sizes)
    chosen = dict(enumerate(mutants(spec.text)))
    chosen = {n: chosen[n] for n in range(0, len(chosen), every)}

    def compiles(number: int) -> bool:
        try:
            cubin = compiled(chosen[number][2], spec.name, spec.target, None)[1]
        except ToolchainError:
            return False
        (folder / f"{family}-{number}").write_bytes(cubin)
        return True

    spec.build()
    done = [number for number, well in zip(chosen, pool.map(compiles, chosen), strict=True) if well]
    print(f"{family}: {len(done)} of {len(chosen)} compile", file=sys.stderr, flush=True)
    return {number: chosen[number][:2] for number in done}


def looked_at(family: str, every: int) -> Iterator[Seen]:
    """A family's mutants, in the order in which their launches end."""
    with tempfile.TemporaryDirectory() as name:
        with ThreadPoolExecutor(16) as pool:
            named = prepared(family, every, Path(name), pool)
        found: Queue[Seen | None] = Queue()

        def share(numbers: Sequence[int]) -> None:
            try:
                for number, end in zip(numbers, ends(family, Path(name), numbers), strict=True):
                    found.put(Seen(family, *named[number], end))
            finally:
                found.put(None)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            shares = [pool.submit(share, list(named)[n::AT_ONCE]) for n in range(min(AT_ONCE, len(named)))]
            for _ in shares:
                yield from iter(found.get, None)
            for each in shares:
                each.result()


def markdown(seen: Sequence[Seen]) -> str:
    """A row for each kind, most mutants first; the whole last."""
    heads = ["mutant of the C++", "tried", "wrong numbers", "hangs", "ends with an error", "the bits of the kernel"]
    rows = []
    for kind, group in pages.by_kind(seen):
        counts = [len(group), *(sum(s.end == end for s in group) for end in ("wrong", "hang", "error", "right"))]
        rows.append([kind, *map(str, counts)])
    return pages.markdown(heads, rows)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], Path(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--family", choices=SUBJECTS, action="append")
    parser.add_argument("--every", type=int, default=1, help="try every N-th mutant")
    parser.add_argument("--into", type=Path, help="add a line there for each mutant, as its launches end")
    parser.add_argument("--from", type=Path, dest="source", help="such lines of a run before, in place of one")
    parser.add_argument("--write", action="store_true", help="put the table into docs/emulator.md")
    args = parser.parse_args()
    if args.source:
        lines = args.source.read_text(encoding="utf-8").splitlines()
        seen = [Seen(**json.loads(line)) for line in lines]
    else:
        seen = []
        for each in chain.from_iterable(looked_at(family, args.every) for family in args.family or SUBJECTS):
            seen.append(each)
            if args.into:
                with args.into.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(each)) + "\n")
    table = markdown(seen)
    sys.stdout.write(table)
    if args.write:
        pages.put("emulator.md", "mutants on a GPU", table)


if __name__ == "__main__":
    main()
