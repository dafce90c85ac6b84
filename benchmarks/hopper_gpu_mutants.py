"""Mutants in the C++ on a Hopper GPU: wrong values, hangs, findings of compute-sanitizer. On such a GPU:

    python benchmarks/hopper_gpu_mutants.py --into FILE [--family products|turns|clusters|loops] [--every N]
    python benchmarks/hopper_gpu_mutants.py --from FILE --write        anywhere: puts the table into docs/emulator.md

Every mutant of the generated C++ (`mutating.hopper_sources`) is compiled and launched several times; what it stores is
compared byte by byte with what the kernel itself stores of the same inputs. A process of its own launches them one
after another: where one does not end, it is ended with it, and another process, which is ready by then, goes on after
it; a few such share the GPU. What does not end is launched again, beside fewer others. Mutants that end are
launched once more under each tool of compute-sanitizer, which finds nothing in the kernel itself.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
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
TOOLS = ("memcheck", "racecheck", "synccheck")
SANITIZER = ("compute-sanitizer", "--report-api-errors", "no", "--max-connections", "100", "--tool")
AGAIN = 8  # launches
AT_ONCE = 12  # processes that launch
FEW_AT_ONCE = 4  # those that launch once more what did not end: beside others that hang, a launch can be late
LIMIT = 4.0  # seconds of a mutant's launches
LIMIT_OF_TOOLS = 40.0  # the same, of one launch under a tool
START = 120.0  # seconds until a process is ready
SETTLES = 0.3  # seconds in which a tool has written what it found of a launch that ended


Ended = tuple[int, str, str, str]
"""The number of a mutant, a tool, what the launches under it came to, and what the tool named."""


@dataclass(frozen=True)
class Seen:
    """A mutant, what its launches came to (right, wrong, hang, error), and which tools named it in which words."""

    family: str
    number: int
    kind: str
    what: str
    end: str
    named: dict[str, str] = field(default_factory=dict)


# ---------------------------------------------------------------- in a child, on the GPU


def launched_by(family: str) -> tuple[Any, Callable[[Any], dict[str, Any]]]:
    """A subject's build, and what launches one like it once on tensors anew and returns what it stored."""
    import torch

    from tkgen.backends.hopper.launch import launcher
    from tkgen.execute.arguments import check_scalars
    from tkgen.execute.compare import Inputs, random_inputs
    from tkgen.execute.launch import memory
    from tkgen.ir.functions import HOPPER

    name, sizes = SUBJECTS[family]
    spec = load(ROOT / "specs" / "hopper" / f"{name}.tk", sizes)
    launch, scalars = spec.launch(), check_scalars(spec.program)
    inputs = {n: t.cuda() for n, t in random_inputs(launch, 1, Inputs.NORMAL, HOPPER).items()}
    outputs = [t.name for t in launch.written]

    def stored(build: Any) -> dict[str, Any]:
        tensors = memory(launch, inputs, poison=True)
        launcher(build, launch, tensors, scalars)()
        torch.cuda.synchronize()
        return {name: tensors[name].view(torch.uint8) for name in outputs}

    return spec.build(), stored


def child(family: str, folder: Path, again: int) -> None:
    """Launches the mutants that a line of the input names, one after another; a line when ready, and for each."""
    import torch

    build, stored = launched_by(family)
    wanted = stored(build)

    def right(one: Any, times: int) -> bool:
        found = (stored(one) for _ in range(times))
        return all(torch.equal(each[name], wanted[name]) for each in found for name in wanted)

    def say(line: dict[str, object]) -> None:
        if again == 1:
            time.sleep(SETTLES)
        print(json.dumps(line), flush=True)

    say({"ready": right(build, 1)})
    for number in json.loads(sys.stdin.readline() or "[]"):
        mutant = replace(build, cubin=(folder / f"{family}-{number}").read_bytes())
        try:
            say({"end": "right" if right(mutant, again) else "wrong"})
        except (RuntimeError, ToolchainError):
            say({"end": "error"})
            return  # nothing of this process runs any more


# ---------------------------------------------------------------- in the parent


def command(family: str, folder: Path, tool: str) -> list[str]:
    """The command of a child, under a tool if one is named."""
    bare = [sys.executable, __file__, "--child", family, str(folder), "1" if tool else str(AGAIN)]
    return [*SANITIZER, tool, *bare] if tool else bare


def is_finding(line: str) -> bool:
    """Return True if a line of compute-sanitizer is the first of a finding."""
    text = line.removeprefix("========= ")
    rest = ("COMPUTE-SANITIZER", "Target application", "Error: process", "Error: Target", "Internal", "Error: No")
    return line.startswith("========= ") and not text.startswith((" ", *rest)) and "SUMMARY" not in text and bool(text)


class Child:
    """A process that launches mutants of a family; preparing it takes seconds and is not waited for."""

    def __init__(self, family: str, folder: Path, tool: str = "") -> None:
        self.process = subprocess.Popen(command(family, folder, tool), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, start_new_session=True)  # fmt: skip
        self.lines: Queue[dict[str, Any]] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        found = ""
        for line in self.process.stdout:
            if line.startswith("{"):
                self.lines.put(json.loads(line) | {"named": found})
                found = ""
            elif not found and is_finding(line):
                found = line.removeprefix("========= ").strip()
        self.lines.put({"gone": self.process.wait()})

    def line(self, patience: float) -> dict[str, Any]:
        """The next that it says. Raises Empty where that takes longer, SystemExit where it has ended."""
        found = self.lines.get(timeout=patience)
        if "gone" in found:
            raise SystemExit(f"a process that launches mutants ended with status {found['gone']}")
        return found

    def begin(self, numbers: Sequence[int]) -> None:
        """Has it launch these, once it is ready. Raises SystemExit where the kernel itself is not in order."""
        assert self.process.stdin
        ready = self.line(START)
        if not ready["ready"] or ready["named"]:
            raise SystemExit(f"the kernel itself: {ready['named'] or 'two launches store other bytes'}")
        self.process.stdin.write(json.dumps(list(numbers)) + "\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Ends it, whatever it is at."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def ends(family: str, folder: Path, numbers: Sequence[int], tool: str = "") -> Iterator[tuple[str, str]]:
    """Outcomes of the launches of these mutants of a family, and the tool's findings."""
    left, standby = list(numbers), Child(family, folder, tool)
    try:
        while left:
            current, standby = standby, Child(family, folder, tool)
            try:
                current.begin(left)
                while left:
                    said = current.line(LIMIT_OF_TOOLS if tool else LIMIT)
                    left.pop(0)
                    yield said["end"], said["named"]
                    if said["end"] == "error":
                        break
            except Empty:
                left.pop(0)
                yield "hang", ""
            finally:
                current.end()
    finally:
        standby.end()


def prepared(family: str, numbers: Sequence[int], folder: Path, pool: ThreadPoolExecutor) -> dict[int, Seen]:
    """These mutants, not yet seen, their machine code in `folder`; those that do not compile are left out."""
    spec = subject(family)
    chosen = {n: mutant for n, mutant in enumerate(mutants(spec.text)) if n in numbers}

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
    return {number: Seen(family, number, *chosen[number][:2], "") for number in done}


def subject(family: str) -> Any:
    """The spec whose C++ is changed, at its sizes."""
    name, sizes = SUBJECTS[family]
    return load(ROOT / "specs" / "hopper" / f"{name}.tk", sizes)


def shared(
    family: str, folder: Path, numbers: Sequence[int], tools: Sequence[str] = ("",), at_once: int | None = None
) -> Iterator[Ended]:
    """These mutants under each of these tools, "" for none, in the order of their ends."""
    found: Queue[Ended | None] = Queue()
    parts = (at_once or AT_ONCE) // len(tools)
    shares = [(tool, part) for tool in tools for n in range(parts) if (part := numbers[n::parts])]

    def share(tool: str, numbers: Sequence[int]) -> None:
        try:
            for number, said in zip(numbers, ends(family, folder, numbers, tool), strict=True):
                found.put((number, tool, *said))
        finally:
            found.put(None)

    with ThreadPoolExecutor(len(shares) or 1) as pool:
        running = [pool.submit(share, *each) for each in shares]
        for _ in running:
            yield from iter(found.get, None)
        for each in running:
            each.result()


def looked_at(family: str, numbers: Sequence[int], tools: Sequence[str] = ()) -> Iterator[Seen]:
    """These mutants of a family, as soon as all that is asked of each is known."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with ThreadPoolExecutor(16) as pool:
            left = prepared(family, numbers, folder, pool)
        hangs = []
        for number, _, end, _ in shared(family, folder, list(left)):
            left[number] = replace(left[number], end=end)
            if end == "hang":
                hangs.append(number)
        for number, _, end, _ in shared(family, folder, hangs, at_once=FEW_AT_ONCE):
            left[number] = replace(left[number], end=end)
        for number in [n for n in left if not tools or left[n].end == "hang"]:
            yield left.pop(number)
        asked = dict.fromkeys(left, 0)
        for number, tool, _, said in shared(family, folder, list(left), tools) if tools else ():
            asked[number] += 1
            if said:
                left[number] = replace(left[number], named=left[number].named | {tool: said})
            if asked[number] == len(tools):
                yield left.pop(number)


# ---------------------------------------------------------------- the table


def markdown(seen: Sequence[Seen]) -> str:
    """A row for each kind, most mutants first; the whole last."""
    heads = [
        "mutant of the C++",
        "tried",
        "found by what follows",
        "wrong numbers",
        "hangs",
        "ends with an error",
        *TOOLS,
    ]
    rows = []
    for kind, group in pages.by_kind(seen):
        counts = [len(group), sum(s.end != "right" or bool(s.named) for s in group),
                  *(sum(s.end == end for s in group) for end in ("wrong", "hang", "error")),
                  *(sum(tool in s.named for s in group) for tool in TOOLS)]  # fmt: skip
        rows.append([kind, *map(str, counts)])
    return pages.markdown(heads, rows)


def kept(file: Path) -> list[Seen]:
    """The results in a file of an earlier run. Raises SystemExit if it is something else."""
    try:
        return [Seen(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError, TypeError) as error:
        raise SystemExit(f"{file} has no lines of a run before: {error}") from None


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    runs = parser.add_mutually_exclusive_group(required=True)
    runs.add_argument(
        "--into", type=Path, help="run on this GPU; add a line there for each mutant, as soon as it is known"
    )
    runs.add_argument("--from", type=Path, dest="source", help="make the table of such lines; needs no GPU")
    parser.add_argument("--family", choices=SUBJECTS, action="append")
    parser.add_argument("--every", type=int, default=1, help="run every N-th mutant")
    parser.add_argument("--no-tools", action="store_true", help="run them without compute-sanitizer")
    parser.add_argument("--write", action="store_true", help="put the table into docs/emulator.md")
    args = parser.parse_args()
    if args.into:
        tools = () if args.no_tools else TOOLS
        if tools and not shutil.which(SANITIZER[0]):
            raise SystemExit(f"{SANITIZER[0]} is not on the PATH; --no-tools goes without it")
        known = {(seen.family, seen.number) for seen in kept(args.into)} if args.into.exists() else set()
        for family in args.family or SUBJECTS:
            numbers = range(0, len(list(mutants(subject(family).text))), args.every)
            for each in looked_at(family, [n for n in numbers if (family, n) not in known], tools):
                with args.into.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(each)) + "\n")
        return
    table = markdown(kept(args.source))
    sys.stdout.write(table)
    if args.write:
        pages.put("emulator.md", "mutants on a GPU", table)


if __name__ == "__main__":
    main()
