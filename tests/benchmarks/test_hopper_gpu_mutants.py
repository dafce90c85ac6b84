"""Slips in the C++ of Hopper kernels, and what a GPU says of them, as far as that goes without one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import hopper_gpu_mutants as benchmark
import pages
import pytest
from hopper_gpu_mutants import Seen
from mutating.hopper_sources import calls, mutants

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "generated" / "sm_90a"


@pytest.mark.parametrize("family", benchmark.SUBJECTS)
def test_mutants_change_one_call_or_exchange_two_lines(family: str) -> None:
    source = (GENERATED / f"{benchmark.SUBJECTS[family][0]}.cu").read_text(encoding="utf-8")
    found = list(mutants(source))
    kinds = {kind for kind, *_ in found}
    assert {"arrivals +-1", "no wait for a phase", "the other phase", "no arrival", "another stage", "another tile",
            "no wait for products", "no wait for stores", "bytes of another number", "no barrier of a warpgroup",
            "two steps exchanged", "an operation left out"} <= kinds  # fmt: skip
    assert len({text for *_, text in found}) == len(found)
    lines = source.splitlines()
    for kind, what, text in found:
        changed = [n for n, (old, new) in enumerate(zip(lines, text.splitlines(), strict=True)) if old != new]
        assert len(changed) == (2 if kind == "two steps exchanged" else 1), (kind, what)
        assert text.count("(") == text.count(")") and text.count("{") == text.count("}")


def test_calls_are_read_with_their_brackets() -> None:
    source = """__global__ void kernel() {
        // wait(not, this);
        tma::load_async(s[stage][i], g.A, {0, f(a, b), k}, full[stage]);  // wait(nor, this)
        if (laneid() == 0) tma::store_async_read_wait<STORES - 1>();
        if (CONSUMERS > 1) two_groups::arrive(CONSUMERS + 1);
        __shfl_sync(mask, value, 1);
    }"""
    load, wait, arrive = calls(source)
    assert arrive.name == "two_groups::arrive" and arrive.arguments == ("CONSUMERS + 1",)
    assert load.plain == "load_async" and load.arguments == ("s[stage][i]", "g.A", "{0, f(a, b), k}", "full[stage]")
    assert wait.plain == "store_async_read_wait" and wait.arguments == () and source[wait.end] == ";"


CHILD = """
import json, sys, time
tool, first = sys.argv[1:]
print("========= COMPUTE-SANITIZER" if tool else "a line of something else")
print(first)
print(json.dumps({"ready": True}), flush=True)
for number in json.loads(sys.stdin.readline()):
    if number in (1, 2) and not tool:
        time.sleep(60)
    end = {3: "wrong", 4: "error"}.get(number, "right")
    if tool == "racecheck" and number == 5:
        print("========= Error: Race reported between Write access and Read access")
        print("=========     in block (0, 0, 0)")
        print("========= ")
        print("========= Warning: Race reported between others")
    print(json.dumps({"end": end}), flush=True)
    if end == "error":
        print("========= Target application terminated before it ended")
        break
print("========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)")
"""
RACE = {"racecheck": "Error: Race reported between Write access and Read access"}


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in place of the processes that launch; six mutants of a family."""
    path = tmp_path / "child.py"
    path.write_text(CHILD, encoding="utf-8")
    monkeypatch.setattr(benchmark, "LIMIT", 1.5)
    monkeypatch.setattr(benchmark, "AT_ONCE", 3)
    monkeypatch.setattr(benchmark, "command", lambda family, folder, tool: [sys.executable, str(path), tool, ""])
    monkeypatch.setattr(
        benchmark, "prepared", lambda family, numbers, *_: {n: Seen(family, n, "kind", str(n), "") for n in numbers}
    )
    return path


def test_a_launch_that_hangs_ends_its_process_alone(script: Path, tmp_path: Path) -> None:
    expected = ["right", "hang", "hang", "wrong", "error", "right"]
    assert [end for end, _ in benchmark.ends("products", tmp_path, range(6))] == expected
    seen = sorted(benchmark.looked_at("products", range(6)), key=lambda s: s.number)
    assert [s.end for s in seen] == expected and {s.family for s in seen} == {"products"}
    assert not any(s.named for s in seen)


def test_tools_are_asked_of_what_ends(script: Path) -> None:
    """A tool's lines before a mutant's line are of that mutant; its summary and its frames are of none."""
    seen = {s.number: s for s in benchmark.looked_at("products", range(6), benchmark.TOOLS)}
    assert [seen[n].end for n in range(6)] == ["right", "hang", "hang", "wrong", "error", "right"]
    assert {n: s.named for n, s in seen.items() if s.named} == {5: RACE}


def test_a_run_that_was_ended_goes_on(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "seen"
    command = ["hopper_gpu_mutants.py", "--no-tools", "--family", "products", "--into", str(kept)]
    monkeypatch.setattr(benchmark, "mutants", lambda _: iter(range(6)))
    monkeypatch.setattr(sys, "argv", command)
    benchmark.main()
    lines = kept.read_text(encoding="utf-8").splitlines()
    assert sorted(json.loads(line)["number"] for line in lines) == list(range(6))
    kept.write_text("\n".join(lines[:4]) + "\n", encoding="utf-8")
    benchmark.main()
    again = kept.read_text(encoding="utf-8").splitlines()
    assert again[:4] == lines[:4] and sorted(again) == sorted(lines)


def test_a_process_that_fails_is_told(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "command", lambda *_: [sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(SystemExit, match="ended with status 3"):
        list(benchmark.ends("products", tmp_path, range(2)))
    with pytest.raises(SystemExit, match="ended with status 3"):
        list(benchmark.looked_at("products", range(6)))


def test_a_tool_that_finds_something_in_the_kernel_itself_is_told(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "========= Invalid __shared__ read of size 16 bytes"
    monkeypatch.setattr(benchmark, "command", lambda *_: [sys.executable, str(script), "memcheck", said])
    with pytest.raises(SystemExit, match="the kernel itself: Invalid __shared__ read"):
        list(benchmark.ends("products", tmp_path, range(2), "memcheck"))


def test_the_table_counts_ends_by_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table can be made wherever the lines of a run are."""
    seen = [Seen("products", 1, "no arrival", "arrive(a)", "hang"),
            Seen("products", 2, "no arrival", "arrive(b)", "right", RACE),
            Seen("products", 3, "two steps exchanged", "init_semaphore(a, 0, 1)", "right")]  # fmt: skip
    kept = tmp_path / "seen"
    kept.write_text("".join(json.dumps(vars(s)) + "\n" for s in seen), encoding="utf-8")
    page = tmp_path / "emulator.md"
    page.write_text("a\n<!-- mutants on a GPU: begin -->\nold\n<!-- mutants on a GPU: end -->\nb\n", encoding="utf-8")
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["hopper_gpu_mutants.py", "--from", str(kept), "--write"])
    benchmark.main()
    text = page.read_text(encoding="utf-8")
    assert "| no arrival | 2 | 2 | 0 | 1 | 0 | 0 | 1 | 0 |" in text
    assert "| two steps exchanged | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 |" in text and "old" not in text

    for text in ("no line", '{"family": 1}', "[]"):
        kept.write_text(text, encoding="utf-8")
        with pytest.raises(SystemExit, match="no lines of a run before"):
            benchmark.main()
