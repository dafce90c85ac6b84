"""Strength of `tkgen verify`: mutants of the generated C++ of all specs, its verdict, that of comparing values.

    python benchmarks/verify.py [SPEC...] [--each N] [--seed N] [--results FILE] [--table | --write] [--list]

Of each spec N mutants are drawn (`mutating.sources`), of each kind as many as of another, and of some products four
more, that lose an iteration of the loop or a product in one, at the spec's own loop counts. Each is compiled, run at
the small size that `tkgen verify` takes, and judged by it; and by comparisons of numbers with the reference in f64:
within the bound of `tkgen run`, on normal and on exact inputs, and within 1 % of the largest number, as is customary.
One that has the instructions of the original is not counted. One that verify accepts and whose output is that of the
original bit by bit, on three inputs, is equivalent. One that it accepts with other bits is to be read (`--list`):
either it computes the same in another way, such as a softmax with another shift, or it escaped. One that does not end
is stopped. Results are appended to FILE, a line each, and what is there is not run again; `--table` shows them,
`--write` puts them into docs/verify.md.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import torch
from elftools.elf.elffile import ELFFile
from mutating.sources import SourceMutant, mutants
from rich.console import Console
from rich.table import Table

from tkgen.backends.cdna import kittens as headers
from tkgen.emulate import Interleaving
from tkgen.execute import given
from tkgen.execute.compare import Inputs, Reference, compare, random_inputs, references
from tkgen.execute.launch import computed
from tkgen.ir.rounding import numbers
from tkgen.sequence.build import SequenceBuild
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.compiler import ToolchainError
from tkgen.toolchain.metadata import read_resources
from tkgen.verify import Verdict
from tkgen.verify.ring import Ring
from tkgen.verify.run import Case, Drawn, Stored, verified
from tkgen.verify.specs import case_of, chosen_cases

if TYPE_CHECKING:
    from tkgen.backends.protocol import Build as AnyBuild

SPECS = Path(__file__).parent.parent / "specs"
PAGE = Path(__file__).parent.parent / "docs" / "verify.md"
DRAWS = 2
LOOPED = (
    "deep_pipeline", "double_buffer", "eight_wave", "fp8", "hk_eight_wave", "i8", "mxfp8", "one_wave", "ping_pong",
    "producer_consumer_4p4c", "register_double_buffer", "split_k", "w4",
)  # fmt: skip
OWN = 4  # mutants of each of these
COUNTED = ("iteration lost", "product dropped in one iteration")  # what is tried at own loop counts
Tensors: TypeAlias = Mapping[str, torch.Tensor]
References: TypeAlias = Mapping[str, Reference]
Result: TypeAlias = dict[str, object] | None
Done: TypeAlias = Mapping[tuple[object, ...], bool]  # what was tried, and whether it counts
Apart: TypeAlias = Callable[[Callable[[], Result], float], Result]
VERDICTS = ("caught", "equivalent", "other bits", "stopped")
HEADINGS = ("kind", "mutants", *VERDICTS, "missed by the bound", "on exact inputs", "by 1 %")
BEGIN, END = "<!-- mutants: begin -->", "<!-- mutants: end -->"


@dataclass(frozen=True)
class Original:
    """A spec's build, with what comes of it on the inputs that all its mutants get.

    `stored` has what each draw leaves, `exact` what exact inputs do; `references` have what must come of the first draw
    and of exact inputs. `seconds` of CPU are what verifying takes.
    """

    build: AnyBuild
    chosen: given.Chosen
    case: Case
    stored: tuple[Stored, ...]
    exact: Tensors
    references: tuple[References, References]
    seconds: float


def originals(path: Path) -> Iterator[Original]:
    """The build of a spec at a small size and, of some, one at its own loop counts."""
    for defines, note in chosen_cases(given.Asked(path)):
        chosen = given.Asked(path, defines).chosen()
        if note == "small" or path.stem in LOOPED:
            yield original(chosen)


def original(chosen: given.Chosen) -> Original:
    """Its build, verified; what is drawn and meant is worked out once. Raises ValueError where it is not as meant."""
    build = chosen.spec.build(machine_check=False)
    case = case_of(build, chosen.extents, chosen.scalars)
    draw = cache(case.draw)
    by_draw: dict[int, Mapping[str, Ring]] = {}

    def meaning(drawn: Drawn) -> Mapping[str, Ring]:
        if id(drawn) not in by_draw:
            by_draw[id(drawn)] = case.meaning(drawn)
        return by_draw[id(drawn)]

    remembered = replace(case, draw=draw, meaning=meaning)
    start = time.process_time()
    verdict, stored = kept(remembered)  # draws and meanings stay in this process: mutants have their own
    seconds = time.process_time() - start
    if not verdict.ok:
        raise ValueError("it is not as meant itself")
    inputs = draw(0).memory, random_inputs(chosen.launch, 7, Inputs.EXACT)
    normal, exact = (computed(build, chosen.launch, i, chosen.scalars) for i in inputs)
    if not same(normal, stored[0].memory):
        raise ValueError("with payloads it stores other bits than without")
    normals, exacts = (references(chosen.launch, i, chosen.scalars) for i in inputs)
    if not (near(case, normal, normal, normals) and near(case, exact, exact, exacts)):
        raise ValueError("its numbers are not those of the reference")
    return Original(build, chosen, remembered, stored, exact, (normals, exacts), seconds)


def kept(case: Case) -> tuple[Verdict, tuple[Stored, ...]]:
    """The verdict on a case, and what each of its launches stored."""
    found: list[Stored] = []

    def machine(drawn: Drawn, order: Interleaving) -> Stored:
        found.append(case.machine(drawn, order))
        return found[-1]

    return verified(replace(case, machine=machine), DRAWS, DRAWS, 0), tuple(found)


def mutated(of: AnyBuild, mutant: SourceMutant) -> AnyBuild | None:
    """The build with the change; None where its instructions are the same. Raises ToolchainError for no program."""
    if isinstance(of, SequenceBuild):
        number, here = next((i, k) for i, k in enumerate(of.kernels) if k.spec.source.text == mutant.source)
        changed = mutated(here, mutant)
        if changed is None:
            return None
        assert not isinstance(changed, SequenceBuild)
        return replace(of, kernels=(*of.kernels[:number], changed, *of.kernels[number + 1 :]))
    result = compile_device(
        mutant.text, of.spec.target, of.compiler, include_dirs=[headers.include_dir()], debug_lines=False
    )
    assert result.asm is not None and result.hsaco is not None
    if instructions(result.hsaco) == instructions(of.hsaco):
        return None
    (kernel,) = read_resources(result.hsaco).values()
    return replace(of, asm=result.asm, hsaco=result.hsaco, resources=kernel)


def instructions(hsaco: bytes) -> bytes:
    """Code and constants, without debug information."""
    sections = ELFFile(io.BytesIO(hsaco)).iter_sections()
    return b"".join(s.data() for s in sections if s.name in (".text", ".rodata", ".data"))


def sources(build: AnyBuild) -> Iterator[tuple[str, str]]:
    """The kernels of a build: the name of each, empty where there is but one, and its C++."""
    for kernel in build.kernels if isinstance(build, SequenceBuild) else (build,):
        yield kernel.spec.name if isinstance(build, SequenceBuild) else "", kernel.spec.source.text


def judged(of: Original, build: AnyBuild) -> dict[str, object]:
    """The verdicts of verify and of comparisons of values on a mutant."""
    launch, scalars = of.chosen.launch, of.chosen.scalars
    machine = case_of(build, of.chosen.extents, scalars).machine
    verdict, stored = kept(replace(of.case, machine=machine))
    exact = computed(build, launch, random_inputs(launch, 7, Inputs.EXACT), scalars)
    normal, exacts = of.references
    found: dict[str, object] = {
        "verify": verdict.ok,
        "undecided": bool(verdict.undecided and not verdict.wrong),
        "normal": near(of.case, of.stored[0].memory, stored[0].memory, normal),
        "exact": near(of.case, of.exact, exact, exacts),
        "percent": near(of.case, of.stored[0].memory, stored[0].memory, normal, percent=True),
    }
    if verdict.ok:
        pairs = zip(of.stored[:DRAWS], stored[:DRAWS], strict=True)
        found["same"] = same(of.exact, exact) and all(same(a.memory, b.memory) for a, b in pairs)
    return found


def near(of: Case, before: Tensors, found: Tensors, wanted: References, percent: bool = False) -> bool:
    """Return True if the values that a mutant stores are near enough to those of the reference."""
    right = True
    for t in of.outputs:
        value, bound = wanted[t.name]
        one, other = (numbers(memory[t.name], t).double() for memory in (before, found))
        mine = ~(one.isnan() & other.isnan())  # stored by neither: not compared
        if percent:
            mine &= value.isfinite()
            right &= bool(((other - value)[mine].abs() <= 0.01 * value[mine].abs().max()).all())
        elif t.dtype.packed:
            right &= compare(found[t.name], value, bound.expand(value.shape), t.dtype).right
        else:
            right &= compare(found[t.name][mine], value[mine], bound.expand(value.shape)[mine]).right
    return right


def same(one: Tensors, other: Tensors) -> bool:
    """Return True if all bits are equal."""
    return all(torch.equal(one[n].flatten().view(torch.uint8), other[n].flatten().view(torch.uint8)) for n in one)


# ---------------------------------------------------------------- runs


def trials(path: Path, each: int, seed: int, done: Done, apart: Apart | None = None) -> Iterator[dict[str, object]]:
    """So many mutants of a spec, drawn: of each kind as many as of another, where there are enough.

    Each is tried in its own process, unless `apart` says how else: a process with threads cannot be forked.
    """
    before = (counts for (spec, *_), counts in done.items() if str(spec).split()[0] == path.stem)
    if sum(before) >= each + OWN * (path.stem in LOOPED):
        return
    try:
        small, *own = originals(path)
    except (ValueError, ToolchainError) as error:
        print(f"{path.stem}: {error}", file=sys.stderr)
        return
    yield from drawn(path.stem, small, each, seed, done, apart or alone)
    for of in own:
        yield from drawn(f"{path.stem} {of.case.sizes['K']}", of, OWN, seed, done, apart or alone, COUNTED)


def drawn(
    name: str, of: Original, each: int, seed: int, done: Done, apart: Apart,
    only: Sequence[str] = (),
) -> Iterator[dict[str, object]]:  # fmt: skip
    """So many mutants of a build, of these kinds."""
    chooser, kinds = random.Random(f"{name} {seed}"), dict[str, list[tuple[str, SourceMutant]]]()
    for kernel, source in sources(of.build):
        for m in mutants(source):
            if not only or m.kind in only:
                kinds.setdefault(m.kind, []).append((f"{name} {kernel}".strip(), m))
    for found in kinds.values():
        chooser.shuffle(found)
    turns = [entry for turn in zip_longest(*kinds.values()) for entry in turn if entry]
    count = 0
    for where, m in turns:
        if count == each:
            return
        row: dict[str, object] = {"spec": where, "kind": m.kind, "line": m.line, "new": m.new.strip()}
        if tuple(row.values()) in done:
            count += done[tuple(row.values())]
            continue
        result = apart(partial(tried, of, m), 10 + 10 * of.seconds)
        count += result is not None
        yield row | {"old": m.old.strip()} | (result or {"nothing": True})


def tried(of: Original, m: SourceMutant) -> Result:
    """The verdict on a mutant; None if it does not compile, or is the same program."""
    try:
        build = mutated(of.build, m)
    except ToolchainError:
        return None
    return None if build is None else judged(of, build)


def alone(work: Callable[[], Result], seconds: float) -> Result:
    """`work` in its own process, which may end in any way, or be ended after so many seconds of CPU."""
    reader, writer = os.pipe()
    if child := os.fork():
        os.close(writer)
        with os.fdopen(reader) as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        found: Result = json.loads(text) if text else {"stopped": True}
        return found
    os.close(reader)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        with os.fdopen(writer, "w") as pipe:
            pipe.write(json.dumps(work()))
    finally:
        os._exit(0)
    return None


def sort(row: Mapping[str, object]) -> str:
    """`caught`, `equivalent`, `other bits` where it is accepted with these; `stopped` where it does not end, `nothing`
    where it is no program, or the same one."""
    if row.get("nothing"):
        return "nothing"
    if row.get("stopped"):
        return "stopped"
    if not row["verify"]:
        return "caught"
    return "equivalent" if row["same"] else "other bits"


def counted(rows: Sequence[Mapping[str, object]]) -> list[list[str]]:
    """Mutants by kind: what verify makes of them, and how many of those caught each comparison accepts."""
    lines = []
    for kind in (*sorted({str(r["kind"]) for r in rows}), ""):
        own = [r for r in rows if not kind or r["kind"] == kind]
        sorts = Counter(map(sort, own))
        wrong = [r for r in own if sort(r) == "caught"]
        missed = [sum(bool(r[how]) for r in wrong) for how in ("normal", "exact", "percent")]
        lines.append([kind or "all", *map(str, (len(own), *(sorts[s] for s in VERDICTS), *missed))])
    return lines


def table(rows: Sequence[Mapping[str, object]]) -> Table:
    """The same, for a terminal."""
    shown = Table(box=None, pad_edge=False)
    for number, heading in enumerate(HEADINGS):
        shown.add_column(heading, justify="right" if number else "left")
    for line in counted(rows):
        shown.add_row(*line)
    return shown


def markdown(rows: Sequence[Mapping[str, object]]) -> str:
    """The same, for the page, and of what it is."""
    specs = {str(r["spec"]).split()[0] for r in rows}
    own = sum(str(r["spec"]).split()[-1].isdigit() for r in rows)
    found = f"{len(rows):,} mutants of {len(specs)} specs, {own} of them at the specs' own loop counts:\n\n"
    rule = ["---", *(["---:"] * (len(HEADINGS) - 1))]
    return found + "\n".join(f"| {' | '.join(line)} |" for line in (HEADINGS, rule, *counted(rows)))


def in_docs(page: str, shown: str) -> str:
    """The page with this table in the place of the one it has."""
    before, _, rest = page.partition(f"{BEGIN}\n")
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{shown}\n{END}{after}"


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("specs", nargs="*", type=Path)
    parser.add_argument("--each", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=Path("verify_mutants.jsonl"))
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--write", action="store_true", help="the table into docs/verify.md")
    parser.add_argument("--list", action="store_true", help="name those that are accepted")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [json.loads(x) for x in options.results.read_text().splitlines()] if options.results.exists() else []
    done = {tuple(r[name] for name in ("spec", "kind", "line", "new")): sort(r) != "nothing" for r in rows}
    paths = options.specs or sorted(p for p in SPECS.rglob("*.tk") if p.parent.name != "hopper")
    random.Random(options.seed).shuffle(paths)  # where it is cut short, some of every kind were tried
    for path in () if options.table or options.write else paths:
        for row in trials(path, options.each, options.seed, done):
            rows.append(row)
            with options.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{row['spec']}:{row['line']} {row['kind']}: {sort(row)}", flush=True)
    rows = [row for row in rows if sort(row) != "nothing"]
    Console(width=160).print(table(rows))
    if options.write:
        PAGE.write_text(in_docs(PAGE.read_text("utf-8"), markdown(rows)), "utf-8")
    for row in rows if options.list else ():
        if sort(row) not in ("caught", "stopped"):
            print(f"{sort(row)}: {row['spec']}:{row['line']} {row['kind']}\n  - {row['old']}\n  + {row['new']}")


if __name__ == "__main__":
    main()
