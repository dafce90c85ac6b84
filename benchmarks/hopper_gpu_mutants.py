"""What a Hopper GPU says of slips in the C++: wrong numbers, hangs, compute-sanitizer. On such a GPU:

    python benchmarks/hopper_gpu_mutants.py [--family products|turns|clusters|loops] [--every N] [--sanitizer]
                                            [--json FILE]
    python benchmarks/hopper_gpu_mutants.py --from FILE --write        puts the table into docs/emulator.md

Every mutant of the generated C++ (`mutating.hopper_sources`) is compiled and launched several times; what it stores is
compared byte by byte with what the kernel itself stores of the same inputs. A process of its own launches them one
after another: where one does not end, it is ended with it, and another process goes on behind it; a few such processes
share the GPU. compute-sanitizer -
memcheck, racecheck, synccheck - looks at those products that end.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from mutating.hopper_sources import mutants

from tkgen.api import load
from tkgen.backends.hopper.build import compiled
from tkgen.toolchain.compiler import ToolchainError

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "emulator.md"
MARKED = re.compile(r"(<!-- mutants on a GPU: begin -->\n).*?(<!-- mutants on a GPU: end -->)", re.DOTALL)
SUBJECTS: dict[str, tuple[str, dict[str, int]]] = {
    "products": ("h100_lcf", {"M": 4096, "N": 2560, "K": 1024}),
    "turns": ("h100_ping_pong", {"M": 4096, "N": 2560, "K": 1024}),
    "clusters": ("h100_cluster", {"M": 4096, "N": 2560, "K": 1024}),
    "loops": ("h100_attention", {"BATCH": 2, "HEADS": 16, "LENGTH": 2048}),
}
"""Specs, and sizes of several tiles for each block."""
SMALL = {"M": 512, "N": 1024, "K": 512}
"""Of products under compute-sanitizer, which is slow."""
AGAIN = 8  # launches
AT_ONCE = 4  # processes of a family
LIMIT = 4.0  # seconds of a mutant's launches
START = 60.0  # seconds until the first
TOOLS = ("memcheck", "racecheck", "synccheck")
TOOL_LIMIT = 60.0
ACCUSED = 77  # the status of compute-sanitizer where it says something

Named = tuple[str, str]


@dataclass(frozen=True)
class Seen:
    """A mutant, what its launches came to - right, wrong, hang, error - and which tools of the sanitizer named it."""

    family: str
    kind: str
    what: str
    end: str
    tools: tuple[str, ...] = ()


# ---------------------------------------------------------------- in a child, on the GPU


def launched_by(family: str, sizes: dict[str, int]) -> tuple[Any, Callable[[Any], dict[str, Any]]]:
    """A subject's build, and what launches one like it once on tensors anew and returns what it stored."""
    import torch

    from tkgen.backends.hopper.launch import launcher, loop_launcher
    from tkgen.execute import kernels
    from tkgen.execute.arguments import check_scalars
    from tkgen.execute.compare import Inputs
    from tkgen.ir.functions import HOPPER

    spec = load(ROOT / "specs" / "hopper" / f"{SUBJECTS[family][0]}.tk", sizes)
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


def child(family: str, folder: Path, first: int, last: int, sizes: dict[str, int], again: int) -> None:
    """Launches the mutants from `first` to before `last`; a line before and behind each."""
    import torch

    build, stored = launched_by(family, sizes)
    wanted = stored(build)
    for number in range(first, last):
        mutant = replace(build, cubin=(folder / f"{family}-{number}").read_bytes())
        print(json.dumps({"at": number}), flush=True)
        try:
            found = (stored(mutant) for _ in range(again))
            right = all(torch.equal(each[name], wanted[name]) for each in found for name in wanted)
        except (RuntimeError, ToolchainError) as error:
            print(json.dumps({"at": number, "end": "error", "said": str(error)[:200]}), flush=True)
            return  # nothing of this process runs any more
        print(json.dumps({"at": number, "end": "right" if right else "wrong"}), flush=True)


# ---------------------------------------------------------------- in the parent


def command(family: str, folder: Path, first: int, last: int, *more: str) -> list[str]:
    """What starts a child."""
    return [sys.executable, __file__, "--child", family, str(folder), str(first), str(last), *more]


def ends(family: str, folder: Path, first: int, last: int) -> Iterator[str]:
    """What the launches of each of a family's mutants from `first` to before `last` come to."""
    number = first
    while number < last:
        process = subprocess.Popen(command(family, folder, number, last), stdout=subprocess.PIPE, text=True,
                                   start_new_session=True)  # fmt: skip
        lines: Queue[dict[str, Any]] = Queue()
        reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
        reader.start()
        patience = START
        while number < last:
            try:
                line = lines.get(timeout=patience)
            except Empty:
                yield "hang"
                number += 1
                break
            patience = LIMIT
            if "end" in line:
                yield line["end"]
                number += 1
                if line["end"] == "error":
                    break
            elif "gone" in line:
                raise SystemExit(f"{family}: the process at mutant {number} ended with status {process.wait()}")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join()


def shared(family: str, folder: Path, count: int) -> list[str]:
    """What the launches of all of a family's mutants come to, in a few processes at a time."""
    cuts = [count * n // AT_ONCE for n in range(AT_ONCE + 1)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        parts = pool.map(lambda first, last: list(ends(family, folder, first, last)), cuts, cuts[1:])
        return [end for part in parts for end in part]


def _read(process: subprocess.Popen[str], lines: Queue[dict[str, Any]]) -> None:
    assert process.stdout
    for line in process.stdout:
        if line.startswith("{"):
            lines.put(json.loads(line))
    lines.put({"gone": True})


def says(tool: str, folder: Path, number: int) -> bool:
    """Whether a tool of compute-sanitizer says something of one launch of a small product."""
    options = ["compute-sanitizer", "--tool", tool, "--error-exitcode", str(ACCUSED)]
    whole = [*options, *command("products", folder, number, number + 1, "--small")]
    process = subprocess.Popen(whole, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        return process.wait(TOOL_LIMIT) == ACCUSED
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return False


def prepared(family: str, sizes: Mapping[str, int], every: int, folder: Path, pool: ThreadPoolExecutor) -> list[Named]:
    """A family's mutants compiled into `folder`, those that do not compile left out; the kernel itself behind them."""
    spec = load(ROOT / "specs" / "hopper" / f"{SUBJECTS[family][0]}.tk", sizes)
    changed = [*list(mutants(spec.text))[::every], ("", "", spec.text)]

    def machine_code(text: str) -> bytes | None:
        try:
            return compiled(text, spec.name, spec.target, None)[1]
        except ToolchainError:
            return None

    found = []
    for (kind, what, _), cubin in zip(changed, pool.map(machine_code, (m[2] for m in changed)), strict=True):
        if cubin:
            (folder / f"{family}-{len(found)}").write_bytes(cubin)
            found.append((kind, what))
    print(f"{family}: {len(found)} of {len(changed)} compile", file=sys.stderr, flush=True)
    return found


def looked_at(families: Sequence[str], every: int) -> list[Seen]:
    """All mutants of these families. Raises SystemExit where a kernel itself does not give the same bits each time."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(16) as pool, ThreadPoolExecutor() as outer:
        folder = Path(name)
        named = list(outer.map(lambda f: prepared(f, SUBJECTS[f][1], every, folder, pool), families))
        found = list(outer.map(lambda f, m: shared(f, folder, len(m)), families, named))
    for family, each in zip(families, found, strict=True):
        if each[-1] != "right":
            raise SystemExit(f"{SUBJECTS[family][0]} itself: {each[-1]}")
    return [
        Seen(family, kind, what, end)
        for family, names, each in zip(families, named, found, strict=True)
        for (kind, what), end in zip(names[:-1], each, strict=False)
    ]


def sanitized(seen: Sequence[Seen], every: int) -> list[Seen]:
    """The same, with what compute-sanitizer says of products that end. Raises SystemExit where it is not here."""
    if not shutil.which("compute-sanitizer"):
        raise SystemExit("compute-sanitizer is not on the PATH")
    products = [s for s in seen if s.family == "products"]
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(12) as pool:
        folder = Path(name)
        names = prepared("products", SMALL, every, folder, pool)
        assert names[:-1] == [(s.kind, s.what) for s in products]
        jobs = [n for n, s in enumerate(products) if s.end != "hang"]
        tools = [tool for tool in TOOLS if not says(tool, folder, len(products))]
        print(f"the kernel itself is accused by {sorted(set(TOOLS) - set(tools))}", file=sys.stderr, flush=True)
        by = pool.map(lambda n: tuple(tool for tool in tools if says(tool, folder, n)), jobs)
        said = {id(products[n]): found for n, found in zip(jobs, by, strict=True)}
    return [replace(s, tools=said.get(id(s), ())) for s in seen]


def markdown(seen: Sequence[Seen]) -> str:
    """A row for each kind, most mutants first; the whole last."""
    tools = any(s.tools for s in seen)
    heads = ["mutant of the C++", "tried", "wrong numbers", "hangs", "ends with an error", "the bits of the kernel"]
    heads += ["of products: named by compute-sanitizer alone"] if tools else []
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    kinds = sorted({s.kind for s in seen}, key=lambda kind: (-sum(s.kind == kind for s in seen), kind))
    for kind in [*kinds, "all"]:
        group = [s for s in seen if kind in (s.kind, "all")]
        counts = [len(group), *(sum(s.end == end for s in group) for end in ("wrong", "hang", "error", "right"))]
        counts += [sum(s.end == "right" and bool(s.tools) for s in group)] if tools else []
        lines.append(f"| {kind} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        family, folder, first, last, *small = sys.argv[2:]
        sizes = SMALL if small else SUBJECTS[family][1]
        child(family, Path(folder), int(first), int(last), sizes, 1 if small else AGAIN)
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--family", choices=SUBJECTS, action="append")
    parser.add_argument("--every", type=int, default=1, help="try every N-th mutant")
    parser.add_argument("--sanitizer", action="store_true", help="products under compute-sanitizer, too")
    parser.add_argument("--json", type=Path, help="write what was seen there")
    parser.add_argument("--from", type=Path, dest="source", help="what was seen before, in place of a run")
    parser.add_argument("--write", action="store_true", help="put the table into docs/emulator.md")
    args = parser.parse_args()
    if args.source:
        seen = [Seen(**each) for each in json.loads(args.source.read_text(encoding="utf-8"))]
    else:
        seen = looked_at(args.family or list(SUBJECTS), args.every)
        seen = sanitized(seen, args.every) if args.sanitizer else seen
    if args.json:
        args.json.write_text(json.dumps([asdict(s) for s in seen], indent=1) + "\n", encoding="utf-8")
    table = markdown(seen)
    sys.stdout.write(table)
    if args.write:
        text = DOCS.read_text(encoding="utf-8")
        assert MARKED.search(text), "docs/emulator.md has no place for the table"
        DOCS.write_text(MARKED.sub(lambda m: m[1] + table + m[2], text), encoding="utf-8")


if __name__ == "__main__":
    main()
