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
            "no wait for products", "no wait for stores", "bytes of another number", "no meeting of a warpgroup",
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
print(json.dumps({"ready": True}), flush=True)
for number in json.loads(sys.stdin.readline()):
    if number in (1, 2):
        time.sleep(60)
    end = {3: "wrong", 4: "error"}.get(number, "right")
    print("a line of something else", flush=True)
    print(json.dumps({"end": end}), flush=True)
    if end == "error":
        break
"""


def test_a_launch_that_hangs_ends_its_process_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "child.py"
    script.write_text(CHILD, encoding="utf-8")
    monkeypatch.setattr(benchmark, "LIMIT", 0.5)
    monkeypatch.setattr(benchmark, "AT_ONCE", 2)
    monkeypatch.setattr(benchmark, "command", lambda *_: [sys.executable, str(script)])
    expected = ["right", "hang", "hang", "wrong", "error", "right"]
    assert list(benchmark.ends("products", tmp_path, range(6))) == expected

    monkeypatch.setattr(benchmark, "prepared", lambda *_: {n: ("kind", str(n)) for n in range(6)})
    seen = sorted(benchmark.looked_at("products", 1), key=lambda s: s.what)
    assert [s.end for s in seen] == expected and {s.family for s in seen} == {"products"}


def test_a_process_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "command", lambda *_: [sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(SystemExit, match="ended with status 3"):
        list(benchmark.ends("products", tmp_path, range(2)))
    monkeypatch.setattr(benchmark, "prepared", lambda *_: {0: ("kind", "what")})
    with pytest.raises(SystemExit, match="ended with status 3"):
        list(benchmark.looked_at("products", 1))


def test_the_table_counts_ends_by_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [
        Seen("products", "no arrival", "arrive(x)", "hang"),
        Seen("products", "no arrival", "arrive(y)", "wrong"),
        Seen("turns", "the other phase", "wait(x, y)", "right"),
    ]
    table = benchmark.markdown(seen)
    assert "| no arrival | 2 | 1 | 1 | 0 | 0 |" in table and "| all | 3 | 1 | 1 | 0 | 1 |" in table
    kept = tmp_path / "seen"
    kept.write_text("".join(json.dumps(vars(s)) + "\n" for s in seen), encoding="utf-8")
    page = tmp_path / "emulator.md"
    page.write_text("a\n<!-- mutants on a GPU: begin -->\nold\n<!-- mutants on a GPU: end -->\nb\n", encoding="utf-8")
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["hopper_gpu_mutants.py", "--from", str(kept), "--write"])
    benchmark.main()
    assert page.read_text(encoding="utf-8").count(table) == 1 and "old" not in page.read_text(encoding="utf-8")
