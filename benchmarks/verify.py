"""How strong `tkgen verify` is: mutants of the generated C++ of all specs, what it says, what comparing numbers says.

    python benchmarks/verify.py [SPEC...] [--each N] [--seed N] [--results FILE] [--table] [--list]

Of each spec N mutants are drawn (`mutating.sources`), compiled, where it is of products at the size of its own loops,
run, and judged by `tkgen verify`; and by comparisons of numbers with the reference in f64: within the bound of
`tkgen run`, on normal and on exact inputs, and within 1 % of the largest number, as is customary. One that verify
accepts and whose output is that of the original bit by bit, on three inputs, is equivalent. One that it accepts with
other bits is to be read (`--list`): either it computes the same in another way, such as a softmax with another shift,
or it escaped. Results are appended to FILE, a line each, and what is there is not run again; `--table` shows them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import torch
from mutating.sources import SourceMutant, mutants
from rich.console import Console
from rich.table import Table

from tkgen.backends.cdna import kittens as headers
from tkgen.backends.cdna.spec import Spec
from tkgen.build.model import Compiled
from tkgen.emulate import Interleaving
from tkgen.execute import kernels
from tkgen.execute.compare import Inputs, compare
from tkgen.sequence.spec import SequenceSpec
from tkgen.toolchain.cache import default_cache
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.compiler import ToolchainError
from tkgen.toolchain.metadata import read_resources
from tkgen.verify.run import Case, verified
from tkgen.verify.specs import case_of, chosen_cases, some_blocks

SPECS = Path(__file__).parent.parent / "specs"
SECONDS = 240  # for one mutant
DRAWS = 2
SAME = 3  # inputs on which an equivalent has the bits of the original
Result: TypeAlias = dict[str, object] | None
Apart: TypeAlias = Callable[[Callable[[], Result]], Result]
VERDICTS = ("caught", "equivalent", "other bits")


@dataclass(frozen=True)
class Original:
    """A spec's build, with what comes of it on the inputs that all its mutants get."""

    build: Compiled
    case: Case
    blocks: tuple[int, ...] | None
    chosen: kernels.Chosen


def original(path: Path) -> Original:
    """The build of a spec of products at its own loop counts, else at a small size; its meaning is worked out once."""
    (defines, note), *more = chosen_cases(path, None, ())
    chosen = kernels.chosen(path, defines, None, ())
    if more and isinstance(chosen.spec, Spec):
        defines, note = more[0]
        chosen = kernels.chosen(path, defines, None, ())
    if isinstance(chosen.spec, SequenceSpec):
        raise ValueError("a sequence")
    build = chosen.spec.build(machine_check=False)
    blocks = some_blocks(chosen.launch) if note == "own loops" else None
    case = case_of(build, chosen.extents, chosen.scalars, blocks)
    draw = cache(case.draw)
    by_draw: dict[int, Any] = {}

    def meaning(drawn: Any) -> Any:
        if id(drawn) not in by_draw:
            by_draw[id(drawn)] = case.meaning(drawn)
        return by_draw[id(drawn)]

    remembered = replace(case, draw=draw, meaning=meaning)
    if not verified(
        remembered, DRAWS, DRAWS, 0
    ).ok:  # in this process, where what is drawn stays: mutants have their own
        raise ValueError("it is not as meant itself")
    return Original(build, remembered, blocks, chosen)


def mutated(of: Original, mutant: SourceMutant) -> Compiled:
    """The build with the change. Raises ToolchainError where that is no program."""
    spec = of.build.spec
    result = compile_device(
        mutant.text(spec.source.text), spec.target, of.build.compiler, include_dirs=[headers.include_dir()],
        source_name=f"{spec.name}.cpp", cache=default_cache(),
    )  # fmt: skip
    assert result.asm is not None and result.hsaco is not None
    (kernel,) = read_resources(result.hsaco).values()
    return replace(of.build, asm=result.asm, hsaco=result.hsaco, resources=kernel)


def judged(of: Original, build: Compiled) -> dict[str, object]:
    """What verify and what comparisons of numbers say of a mutant."""
    machine = case_of(build, of.chosen.extents, of.chosen.scalars, of.blocks).machine
    verdict = verified(replace(of.case, machine=machine), DRAWS, DRAWS, 0)
    found: dict[str, object] = {"verify": verdict.ok, "undecided": bool(verdict.undecided and not verdict.wrong)}
    found |= {name: numeric(of, build, kind) for name, kind in (("normal", Inputs.NORMAL), ("exact", Inputs.EXACT))}
    found["percent"] = numeric(of, build, Inputs.NORMAL, percent=True)
    if verdict.ok:
        found["same"] = all(same(of, machine, seed) for seed in range(SAME))
    return found


def numeric(of: Original, build: Compiled, kind: Inputs, percent: bool = False) -> bool:
    """Whether the numbers that a mutant stores are near enough to those of the reference."""
    wanted = _reference(of, kind)
    inputs, _ = wanted
    found, _ = kernels.emulate(build, of.chosen.launch, inputs, of.chosen.scalars, watch=False, blocks=of.blocks)  # type: ignore[arg-type]
    first = _emulated(of, kind)
    right = True
    for name, (value, bound) in wanted[1].items():
        mine = ~(first[name].double().isnan() & found[name].double().isnan())  # stored by neither: not compared
        if percent:
            off = (found[name].double() - value).abs()
            right &= bool((off[mine] <= 0.01 * value[mine].abs().max()).all())
        else:
            c = compare(found[name][mine], value[mine], bound.expand(value.shape)[mine])
            right &= c.right
    return right


_REFERENCES: dict[tuple[str, Inputs], Any] = {}
_FIRST: dict[tuple[str, Inputs], Any] = {}


def _reference(of: Original, kind: Inputs) -> tuple[Mapping[str, torch.Tensor], Mapping[str, Any]]:
    key = of.case.name, kind
    if key not in _REFERENCES:
        inputs = kernels.random_inputs(of.chosen.launch, 7, kind)
        _REFERENCES[key] = inputs, kernels.references(of.chosen.launch, inputs, of.chosen.scalars)
    found: tuple[Mapping[str, torch.Tensor], Mapping[str, Any]] = _REFERENCES[key]
    return found


def _emulated(of: Original, kind: Inputs) -> Mapping[str, torch.Tensor]:
    """What the original stores."""
    key = of.case.name, kind
    if key not in _FIRST:
        inputs, _ = _reference(of, kind)
        found = kernels.emulate(
            of.build,
            of.chosen.launch,
            inputs,
            of.chosen.scalars,
            watch=False,
            blocks=of.blocks,  # type: ignore[arg-type]
        )
        _FIRST[key] = found[0]
    result: Mapping[str, torch.Tensor] = _FIRST[key]
    return result


def same(of: Original, machine: Callable[..., Any], seed: int) -> bool:
    """Whether a mutant stores the bits of the original."""
    drawn = of.case.draw(seed)
    one, other = (m(drawn, Interleaving()).memory for m in (of.case.machine, machine))
    return all(torch.equal(one[n].flatten().view(torch.uint8), other[n].flatten().view(torch.uint8)) for n in one)


# ---------------------------------------------------------------- runs


def trials(
    path: Path, each: int, seed: int, done: set[tuple[object, ...]], apart: Apart | None = None
) -> Iterator[dict[str, object]]:
    """So many mutants of a spec, drawn: of each kind as many as of another, where there are enough.

    Each is tried in a process of its own, unless `apart` says how else: a process with threads cannot be forked.
    """
    tried = apart or _alone
    try:
        of = original(path)
    except (ValueError, ToolchainError) as error:
        print(f"{path.stem}: {error}", file=sys.stderr)
        return
    for kind in ("normal", "exact"):
        _emulated(of, Inputs(kind))
    chooser, kinds = random.Random(f"{path.stem} {seed}"), dict[str, list[SourceMutant]]()
    for m in mutants(of.build.spec.source.text):
        kinds.setdefault(m.kind, []).append(m)
    for found in kinds.values():
        chooser.shuffle(found)
    count = 0
    while count < each and any(kinds.values()):
        for kind in list(kinds):
            if not kinds[kind] or count >= each:
                continue
            m = kinds[kind].pop()
            row: dict[str, object] = {"spec": path.stem, "kind": m.kind, "line": m.line, "new": m.new.strip()}
            if tuple(row.values()) in done:
                count += 1
                continue
            result = tried(partial(_tried, of, m))
            if result is not None:
                count += 1
                yield row | {"old": m.old.strip()} | result


def _tried(of: Original, m: SourceMutant) -> dict[str, object] | None:
    try:
        build = mutated(of, m)
    except ToolchainError:
        return None
    if build.hsaco == of.build.hsaco:
        return None  # the same program
    return judged(of, build)


def _alone(work: Callable[[], dict[str, object] | None]) -> dict[str, object] | None:
    """`work` in a process of its own, which may end in any way."""
    reader, writer = os.pipe()
    if child := os.fork():
        os.close(writer)
        with os.fdopen(reader) as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        found: dict[str, object] | None = json.loads(text) if text else {"stopped": True}
        return found
    os.close(reader)
    signal.alarm(SECONDS)
    try:
        with os.fdopen(writer, "w") as pipe:
            pipe.write(json.dumps(work()))
    finally:
        os._exit(0)
    return None


def sort(row: Mapping[str, object]) -> str:
    """`caught`, `equivalent`, `other bits` where it is accepted with these, or `stopped` where nothing came of it."""
    if row.get("stopped"):
        return "stopped"
    if not row["verify"]:
        return "caught"
    return "equivalent" if row["same"] else "other bits"


def table(rows: list[dict[str, object]]) -> Table:
    """Mutants by kind: what verify makes of them, and how many of those caught each comparison accepts."""
    shown = Table(box=None, pad_edge=False)
    shown.add_column("kind")
    for heading in ("mutants", *VERDICTS, "stopped", "missed by bound", "by exact inputs", "by 1 %"):
        shown.add_column(heading, justify="right")
    kinds = [*sorted({str(r["kind"]) for r in rows}), ""]
    for kind in kinds:
        own = [r for r in rows if not kind or r["kind"] == kind]
        sorts = Counter(map(sort, own))
        wrong = [r for r in own if sort(r) == "caught"]
        missed = [sum(bool(r[how]) for r in wrong) for how in ("normal", "exact", "percent")]
        counts = (len(own), *(sorts[s] for s in (*VERDICTS, "stopped")), *missed)
        shown.add_row(kind or "all", *map(str, counts))
    return shown


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("specs", nargs="*", type=Path)
    parser.add_argument("--each", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=Path("verify_mutants.jsonl"))
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--list", action="store_true", help="name those that are accepted")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [json.loads(x) for x in options.results.read_text().splitlines()] if options.results.exists() else []
    done = {tuple(r[name] for name in ("spec", "kind", "line", "new")) for r in rows}
    paths = options.specs or sorted(p for p in SPECS.rglob("*.tk") if p.parent.name != "hopper")
    for path in () if options.table else paths:
        for row in trials(path, options.each, options.seed, done):
            rows.append(row)
            with options.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{row['spec']}:{row['line']} {row['kind']}: {sort(row)}", flush=True)
    Console(width=160).print(table(rows))
    for row in rows if options.list else ():
        if sort(row) not in ("caught", "stopped"):
            print(f"{sort(row)}: {row['spec']}:{row['line']} {row['kind']}\n  - {row['old']}\n  + {row['new']}")


if __name__ == "__main__":
    main()
