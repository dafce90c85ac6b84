"""`tkgen verify` of every spec at a small size and at its own loop counts, and how much longer it takes than to run it.

    python benchmarks/verify_specs.py [SPEC...] [--results FILE] [--draws N] [--table] [--write PAGE]

Results are appended to FILE, a line each, and what is there is not run again: the run may be stopped at any time. Times
are processor time of launches on the emulator, without compiling, drawing and working out what is meant: in seconds a
draw, and over those of the same launch without payloads, without the referee, in the same order of waves. A launch
before them, which is not counted, decodes the program and reads its debug information. `--table` shows what is there,
`--write` puts it into a page between its marks.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from tkgen.backends.protocol import Build
from tkgen.emulate import Interleaving, interleavings
from tkgen.execute import given
from tkgen.execute.given import Chosen
from tkgen.execute.launch import emulate_all
from tkgen.verify.run import Drawn, Stored, verified
from tkgen.verify.specs import case_of, chosen_cases, in_turn, some_blocks

SPECS = Path(__file__).parent.parent / "specs"
BEGIN, END = "<!-- every spec: python benchmarks/verify_specs.py --write -->", "<!-- end -->"
OF_ALL = 2  # draws, each with a schedule of its own


@dataclass(frozen=True)
class Row:
    """A spec at sizes. `seconds` are those of a draw, `plain` those of the same launch without payloads."""

    spec: str
    note: str
    sizes: str
    ok: bool
    elements: int
    draws: int
    instructions: int
    seconds: float
    plain: float
    said: str = ""  # what is wrong

    @property
    def ratio(self) -> float:
        """Seconds over plain ones."""
        return self.seconds / self.plain


def measured(path: Path, defines: Mapping[str, float | None], note: str, draws: int) -> Row:
    """One case of a spec."""
    chosen = given.Asked(path, defines).chosen()
    build = chosen.spec.build(machine_check=False)
    blocks = some_blocks(chosen.launch) if note == "own loops" else None
    case = case_of(build, chosen.extents, chosen.scalars, blocks, note)
    seconds = []

    def machine(drawn: Drawn, order: Interleaving) -> Stored:
        start = time.process_time()
        stored = case.machine(drawn, order)
        seconds.append(time.process_time() - start)
        return stored

    orders = list(interleavings(draws))
    case.machine(case.draw(0), orders[0])  # its program is decoded, and its lines are read
    plain = [_plain(build, chosen, case.draw(seed), order, blocks) for seed, order in enumerate(orders)]
    verdict = verified(replace(case, machine=machine), draws, draws, 0)
    said = [f"{wrong.output}: {wrong}" for wrong in verdict.wrong] + [*map(str, (*verdict.lost, *verdict.findings))]
    if verdict.undecided:
        said.append(f"undecided: {dict(verdict.undecided)}")
    last = verdict.trials[-1]
    sizes = " ".join(f"{name}={size}" for name, size in case.sizes.items())
    return Row(
        path.stem, note, sizes, verdict.ok, last.elements, len(verdict.trials), last.instructions,
        sum(seconds) / len(seconds), sum(plain) / len(plain), "; ".join(said)[:300],
    )  # fmt: skip


def _plain(build: Build, chosen: Chosen, drawn: Drawn, order: Interleaving, blocks: Sequence[int] | None) -> float:
    """Seconds of the launch without payloads."""
    launch, start = in_turn(chosen.launch, order), time.process_time()
    emulate_all(build, launch, drawn.memory, chosen.scalars, order=order, watch=False, blocks=blocks)
    return time.process_time() - start


def rows(paths: Sequence[Path], draws: int, done: set[tuple[str, str]]) -> Iterator[Row]:
    """Rows that are not done yet, spec by spec."""
    for path in paths:
        for defines, note in chosen_cases(given.Asked(path)):
            if (path.stem, note) not in done:
                yield measured(path, defines, note, draws)


def table(found: Sequence[Row]) -> str:
    """Markdown, and a line that sums it up."""
    lines = [
        "| spec | sizes | elements | draws | instructions | seconds a draw | times a plain launch |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for r in sorted(found, key=lambda r: (r.spec, r.note != "small")):
        verdict = "" if r.ok else f" **{r.said}**"
        lines.append(
            f"| `{r.spec}` | {r.sizes} ({r.note}){verdict} | {r.elements} | {r.draws} | {r.instructions} "
            f"| {r.seconds:.1f} | {r.ratio:.1f} |"
        )
    total, plain = sum(r.seconds for r in found), sum(r.plain for r in found)
    ratios = sorted(r.ratio for r in found)
    wrong = sum(not r.ok for r in found)
    lines += [
        "",
        f"{len({r.spec for r in found})} specs in {len(found)} cases: {wrong} accused. All launches together take "
        f"{total / plain:.1f} times as long as plain ones, half of them less than {ratios[len(ratios) // 2]:.1f}, "
        f"the slowest {ratios[-1]:.1f}.",
    ]
    return "\n".join(lines)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("specs", nargs="*", type=Path)
    parser.add_argument("--results", type=Path, default=Path("verify_specs.jsonl"))
    parser.add_argument("--draws", type=int, default=OF_ALL)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = options.results.read_text().splitlines() if options.results.exists() else []
    found = [Row(**json.loads(line)) for line in lines]
    if not options.table and not options.write:
        paths = options.specs or sorted(p for p in SPECS.rglob("*.tk") if p.parent.name != "hopper")
        for row in rows(paths, options.draws, {(r.spec, r.note) for r in found}):
            found.append(row)
            with options.results.open("a") as file:
                file.write(json.dumps(asdict(row)) + "\n")
            verdict = "as meant" if row.ok else f"WRONG {row.said}"
            print(f"{row.spec} ({row.note}): {verdict}, {row.ratio:.1f} times a plain launch", flush=True)
    if options.write:
        text = options.write.read_text(encoding="utf-8")
        head, tail = text[: text.index(BEGIN)], text[text.index(END) :]
        options.write.write_text(f"{head}{BEGIN}\n\n{table(found)}\n\n{tail}", encoding="utf-8")
    else:
        print(table(found))


if __name__ == "__main__":
    main()
