"""The tables of a report, as both its page of HTML and its page of Markdown show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tkgen.hardware.contestants import BARS
from tkgen.hardware.context import CLOSE, FAILED, MEASURED, RIGHT, SKIPPED, WRONG
from tkgen.hardware.probes.judge import NOTES
from tkgen.hardware.times import best
from tkgen.hardware.undecided import EMULATOR, OTHER

Results = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Table:
    """A table: a title, a sentence about it, headings, rows of texts. `marks` has a verdict for each row."""

    title: str
    text: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    marks: Sequence[str]


def tables(report: Mapping[str, Any]) -> list[Table]:
    """The tables of all sections that ran."""
    by_section: dict[str, list[Mapping[str, Any]]] = {}
    for result in report["results"]:
        by_section.setdefault(result["section"], []).append(result)
    made = {"specs": _specs, "instructions": _instructions, "machine": _machine, "times": _times}
    return [table for name in made if name in by_section for table in made[name](by_section[name])]


def _specs(results: Results) -> list[Table]:
    ran = [r for r in results if r["verdict"] != SKIPPED]
    cases = sum(len(r.get("cases", ())) for r in ran)
    right = sum(r["verdict"] == RIGHT for r in ran)
    text = (
        f"{right} of {len(ran)} specs are right, in {cases} cases; {len(results) - len(ran)} are not for this target."
    )
    rows = [(r["item"], r["verdict"], r["said"]) for r in ran]
    return [Table("Specs beside torch", text, ("spec", "verdict", ""), rows, [r["verdict"] for r in ran])]


def _instructions(results: Results) -> list[Table]:
    asked = [a for r in results for a in r.get("undecided", ())]
    results = [r for r in results if "undecided" not in r]
    names = {n for r in results for n in r.get("instructions", ())}
    probes, values = (sum(r.get(key, 0) for r in results) for key in ("probes", "values"))
    unequal = [u for r in results for u in r.get("unequal", ())]
    apart = {u["name"] for u in unequal}
    text = (
        f"{probes} probes of {len(names)} instructions, {values:,} values: {len(names - apart)} instructions give the "
        "same bits on the GPU and on the emulator."
    )
    rows = [
        (
            u["instruction"], u["verdict"], f"{u['differing']:,} of {u['values']:,}", _units(u["ulps"]),
            _example(u["examples"][0]) if u["examples"] else "",
        )
        for u in sorted(unequal, key=lambda u: (u["verdict"] != WRONG, u["name"]))
    ]  # fmt: skip
    headings = ("instruction", "verdict", "values that differ", "units in the last place", "first of them")
    found = [Table("Instructions", text, headings, rows, [r[1] for r in rows])]
    ended = [r for r in results if r["verdict"] == FAILED or "probes" not in r]
    if ended:
        lines = [(r["item"], r["said"]) for r in ended]
        found.append(Table("Kernels of probes that failed", "", ("kernel", ""), lines, [FAILED] * len(lines)))
    noted = [(n, "differs" if n in apart else "the same", NOTES[n]) for n in NOTES if n in names]
    if noted:
        about = "Public texts differ about these instructions; this is what the hardware does beside the emulator."
        found.append(
            Table("Instructions about which texts differ", about, ("instruction", "here", ""), noted, [""] * len(noted))
        )
    if asked:
        found.append(_undecided(asked))
    return found


def _undecided(asked: Results) -> Table:
    text = (
        "AMD's documents leave these open, or contradict the emulator. The results of this GPU decide; where it has "
        "the other reading, the emulator is to follow (tkgen/emulate/undecided.toml). Of pairs of instructions with "
        "fewer wait states than LLVM keeps (tkgen/emulate/wait_states.toml), either answer is right: a new result says "
        "that E714 asks for more than this GPU needs here, an old one that it does not."
    )
    rows = [
        (a["question"], a["instruction"], a["emulator"], a["other"], a["answer"], ", ".join(a["GPU"])) for a in asked
    ]
    headings = ("question", "instruction", "the emulator", "the other reading", "this GPU has", "its results")
    marks = [{EMULATOR: RIGHT, OTHER: RIGHT if a["missing"] else CLOSE}.get(a["answer"], WRONG) for a in asked]
    return Table("Open questions about instructions", text, headings, rows, marks)


def _example(found: Mapping[str, str]) -> str:
    return f"{found['inputs']}: GPU {found['GPU']}, emulator {found['emulator']} ({found['where']})"


def _units(ulps: float | None) -> str:
    return "not so near" if ulps is None else f"{ulps:g}"


def _machine(results: Results) -> list[Table]:
    rows = [
        (
            r["item"], _number(r.get("measured")), _number(r.get("assumed")), _number(r.get("ratio")),
            r.get("unit", r["said"]), r.get("source", ""),
        )
        for r in results
    ]  # fmt: skip
    far = sum(bool(r.get("far")) for r in results)
    text = f"{far} of {len(results)} values are further than a quarter from the assumed ones."
    headings = ("", "measured", "assumed", "measured / assumed", "unit", "entry of targets/*.toml")
    marks = [r["verdict"] if r["verdict"] != MEASURED else "far" if r.get("far") else "" for r in results]
    return [Table("The machine", text, headings, rows, marks)]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _times(results: Results) -> list[Table]:
    order = {bar.spec: n for n, bar in enumerate(BARS)}
    ran = sorted(
        (r for r in results if r["verdict"] != SKIPPED), key=lambda r: order.get(str(r["item"]).split()[0], len(order))
    )
    rows = []
    for r in ran:
        times = r.get("times", {})
        mine = times.get("tkgen", {})
        ratios = ", ".join(f"{ratio:.3f} of {who}" for who, ratio in best(r.get("ratios", {})).items())
        failed = ", ".join(f"{who}: {row['failed']}" for who, row in times.items() if "failed" in row)
        rate = f"{mine['rate']:.4g} {r['unit']} ± {100 * mine['spread']:.1f} %" if mine.get("rate") else r["said"]
        micro = f"{mine['seconds'] * 1e6:.4g}" if mine.get("seconds") else "-"
        rows.append((r["item"], rate, micro, ratios or "-", failed or "-"))
    text = (
        "The speed of tkgen's kernel, and its ratio to others and to the prediction; products of torch's libraries "
        "write bf16. Times of sets of tensors beyond the caches, contestants by turns, medians of rounds."
    )
    headings = ("kernel", "tkgen", "us", "tkgen / others", "did not run")
    return [Table("Times", text, headings, rows, [r["verdict"] if r["verdict"] != MEASURED else "" for r in ran])]
