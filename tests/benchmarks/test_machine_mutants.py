"""Mutants of machine code: what is changed, what the judges find, and the second calculation beside them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path

import machine_mutants as benchmark
import pages
import pytest
from mutating.machine_arguments import LATER, NOT_NEEDED, Arguments
from mutating.machine_code import mutants, patched_elf
from mutating.machine_judges import JUDGES, Subject
from sampling import only

from tkgen.emulate import TraceRequest, load, patched
from tkgen.emulate import launch as emulate
from tkgen.sanitize import Launch, from_source, parse, sanitize

ROOT = Path(__file__).parents[2]
CASES = [("one_wave", "gfx942"), ("rows/layernorm", "gfx950"), ("eight_wave", "gfx90a"), ("hk_eight_wave", "gfx950")]


@cache
def subject(spec: str, target: str) -> Subject:
    return Subject.of(ROOT / "specs" / f"{spec}.tk", target, 2)


@pytest.mark.parametrize("case", only(CASES, CASES[:1]), ids="-".join)
def test_no_mutant_is_missed_and_the_second_calculation_agrees(case: tuple[str, str]) -> None:
    """Every judge accepts the code itself; the second calculation faults what the referee catches, and nothing else."""
    spec, target = case
    made = subject(spec, target)
    assert benchmark.sound(made) == ""
    ends = Counter[str]()
    for kernel, number in benchmark.chosen(made, spec, target, 3, 7):
        seen = benchmark.tried(made, spec, target, kernel, number, everyone=True)
        ends[seen.end] += 1
        assert seen.end != "missed", seen
        if seen.kind.startswith(("vmcnt", "lgkmcnt", "barrier")):
            found = made.units[kernel].arguments.of(made.units[kernel].mutants[number])
            assert bool(found.fault) == bool(seen.verdicts["referee"]), (seen, found)
        alone = benchmark.tried(made, spec, target, kernel, number)
        assert bool(alone.verdicts[JUDGES[0]]) == bool(seen.verdicts[JUDGES[0]]), (seen, alone)
        assert alone.end == seen.end, (seen, alone)
    assert ends["caught"] >= 5


def test_the_machine_check_reaches_the_last_iteration_of_small_groups() -> None:
    """Its groups used to end before any had a second tile of keys, so it missed a barrier of the loop."""
    made = subject("attention/attention_chunks", "gfx950")
    (unit,) = made.units
    barriers = [m for m in unit.mutants if m.kind == "barrier dropped"]
    caught = [bool(made.checked(0, m.words)) for m in barriers]
    assert made.checked(0, {}) == "" and caught == [bool(unit.arguments.of(m).fault) for m in barriers]
    assert sum(caught) >= 2


def test_each_mutant_changes_what_its_kind_says() -> None:
    """One dword differs, or a run of wait states has moved past an instruction."""
    (unit,) = subject("one_wave", "gfx942").units
    found = unit.mutants
    assert Counter(m.kind for m in found) == {
        "lgkmcnt dropped": 9, "lgkmcnt loosened by one": 9, "vmcnt dropped": 4, "vmcnt loosened by one": 4,
        "wait states dropped": 2, "wait states loosened by one": 2,
    }  # fmt: skip
    code = [int.from_bytes(unit.code.code[i : i + 4], "little") for i in range(0, len(unit.code.code), 4)]
    for m in found:
        old, new = [code[i] for i in m.words], list(m.words.values())
        assert old != new, m.what
        assert sorted(old) == sorted(new) if m.kind == "wait states dropped" else len(new) == 1, m.what


def test_the_second_calculation_argues_for_what_is_redundant_alone() -> None:
    """Two waits before others that complete the same; `settle` of tkgen.cuh where nothing needs it."""
    (unit,) = subject("one_wave", "gfx942").units
    reasons = Counter(unit.arguments.of(m).reason for m in unit.mutants)
    assert reasons == {"": 22, LATER: 4, NOT_NEEDED: 4}


def test_a_run_goes_on_from_its_file_and_its_tables_have_every_mutant(tmp_path: Path) -> None:
    """The second run tries nothing again; a sample by all judges adds their verdicts; the tables count all of them."""
    made, file = [(ROOT / "specs" / "one_wave.tk", "gfx942")], tmp_path / "seen.jsonl"
    benchmark.extend(file, made, 0, 1, float("inf"))
    lines = file.read_text().splitlines()
    benchmark.extend(file, made, 0, 1, float("inf"))
    assert file.read_text().splitlines() == lines
    benchmark.extend(file, made, 10, 1, float("inf"))
    totals, seen = benchmark.kept(file)
    assert len(totals) == 1 and sum(totals[0].mutants.values()) == len(seen) == 30
    judged = [s for s in seen if s.judged]
    assert len(judged) == 3
    rows = [line.strip("| ").split(" | ") for line in benchmark.page(totals, seen).splitlines() if "| all" in line]
    ends = Counter(s.end for s in seen)
    assert [row[1:] for row in rows[:2]] == [["30", str(ends["caught"]), "0", str(ends["redundant"]), "0"]] * 2
    caught = [str(sum(bool(s.verdicts[judge]) for s in judged)) for judge in JUDGES]
    assert rows[2][1:] == ["3", *caught, str(sum(not s.caught for s in judged))]
    missed = json.loads(lines[1]) | {"verdicts": dict.fromkeys(JUDGES, ""), "reason": ""}
    assert benchmark.Seen(**missed).end == "missed"


def test_two_verdicts_that_differ_are_refused(tmp_path: Path) -> None:
    """The machine check that stops at its first finding and the one of a build must agree."""
    file = tmp_path / "seen.jsonl"
    first = benchmark.Seen("s", "gfx942", 0, 0, "barrier dropped", "", {JUDGES[0]: "E321"}, "", "", 0.0)
    others = replace(first, verdicts=dict.fromkeys(JUDGES, ""), reason=NOT_NEEDED)
    file.write_text("".join(json.dumps(asdict(each)) + "\n" for each in (first, others)))
    with pytest.raises(ValueError, match="two verdicts of the machine check"):
        benchmark.kept(file)


FLAG = """
#include <hip/hip_runtime.h>
__global__ __launch_bounds__(64) void pass(float *data, int *flag, float *out) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x;
        if (threadIdx.x == 0) __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
    } else {
        while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) == 0) {}
        out[threadIdx.x] = data[threadIdx.x];
    }
}
"""


@pytest.mark.parametrize("target", only(["gfx90a", "gfx942", "gfx950"], ["gfx942"]))
def test_fences_scopes_and_waits_of_a_flag_are_found_wherever_they_are_executed(target: str, tmp_path: Path) -> None:
    """Our kernels have no flags: this one hands data from block to block, with a release and an acquire."""
    (tmp_path / "flag.cpp").write_text(FLAG)
    made = from_source(tmp_path / "flag.cpp", target)
    given = ["data:f32[64]=zeros", "flag:i32[16]=zeros", "out:f32[64]=nan:out"]
    launch = Launch((2, 1, 1), (64, 1, 1), parse(given))
    whole = emulate(made.code, args=launch.arguments.make(), grid=launch.grid, block=launch.block)
    kinds = set()
    for mutant in mutants(made.code, made.code.kernel()):
        changed = replace(made, bounded=None, code=load(patched_elf(made.code, mutant.words)))
        clean = sanitize(changed, launch, schedules=1, budget=20_000).clean
        assert clean != bool(whole.counts[mutant.index]), mutant.what
        kinds |= set() if clean else {mutant.kind.split()[0]}
    assert kinds == {"vmcnt", "lgkmcnt", "scope", "invalidate", *(() if target == "gfx90a" else ("write-back",))}


READS = """
#include <hip/hip_runtime.h>
__global__ __launch_bounds__(64) void reads(float *out) {
    __shared__ float lds[64];
    lds[threadIdx.x] = threadIdx.x;
    float first;
    asm volatile("s_waitcnt lgkmcnt(0)\\n" %s "s_waitcnt lgkmcnt(14)\\nv_mov_b32 %%0, v40\\ns_waitcnt lgkmcnt(0)"
                 : "=v"(first) : "v"((__attribute__((address_space(3))) float *)&lds[threadIdx.x]) : "memory", %s);
    out[threadIdx.x] = first;
}
"""


@pytest.mark.parametrize("count", [15, 16])
def test_the_second_calculation_knows_how_much_a_counter_holds(count: int, tmp_path: Path) -> None:
    """The 16th read of LDS waits for the first one, so `lgkmcnt(14)` may go after 16 reads, and not after 15."""
    registers = [f"v{40 + i}" for i in range(count)]
    lines = "".join(f'"ds_read_b32 {r}, %1\\n"' for r in registers)
    (tmp_path / "reads.cpp").write_text(READS % (lines, ", ".join(f'"{r}"' for r in registers)))
    code = from_source(tmp_path / "reads.cpp", "gfx942").code
    launch = Launch((1, 1, 1), (64, 1, 1), parse(["out:f32[64]=nan:out"]))
    run = partial(emulate, args=launch.arguments.make(), grid=launch.grid, block=launch.block)
    arguments = Arguments(code, code.kernel(), 1, lambda block: run(code, blocks=[block], trace=TraceRequest()))
    (dropped,) = (m for m in mutants(code, code.kernel()) if m.what.endswith("no lgkmcnt") and "lgkmcnt(14)" in m.what)
    found = arguments.of(dropped)
    assert (found.reason, bool(found.fault)) == ((LATER, False) if count == 16 else ("", True))
    changed = patched(code, {code.text[0] + 4 * i: word for i, word in dropped.words.items()})
    assert bool(run(changed, watch=True).findings) == bool(found.fault)


def test_the_page_has_no_missed_mutant() -> None:
    """The tables by kind and by target end with 0 in the column of missed mutants."""
    text = (pages.DOCS / "mutants.md").read_text(encoding="utf-8")
    table = text.split("<!-- mutants of machine code: begin -->")[1]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| all")]
    scores = [row for row in rows if len(row) == 6]
    assert len(scores) == 2 and all(row[-1] == "0" and int(row[1].replace(",", "")) >= 5000 for row in scores), rows
