"""No spec is accused, and no mutant of a sample of them gets away."""

from __future__ import annotations

from pathlib import Path

import pytest
import verify as benchmark
import verify_specs as every
from mutating.sources import SourceMutant

from tkgen.execute import given
from tkgen.verify import Verdict, verified_spec
from tkgen.verify.specs import chosen_cases

SPECS = Path(__file__).parents[2] / "specs"
SAMPLE: dict[str, dict[str, float | None]] = {
    "rows/rmsnorm": {"TOKENS": 5},
    "low_precision/mxfp4": {"M": 256, "N": 256, "K": 512},
    "quantise/mxfp6_rows": {"TOKENS": 2, "BLOCKS": 3},
    "split_k": {"M": 128, "N": 128, "K": 768},
}
MUTATED = {"one_wave": 3, "elementwise": 2}  # and how many of each


EVERY = sorted(p for p in SPECS.rglob("*.tk") if p.parent.name != "hopper")


def insist(verdicts: list[Verdict]) -> None:
    for verdict in verdicts:
        assert verdict.ok, (verdict.note, verdict.wrong, verdict.undecided, verdict.lost, verdict.cause)


@pytest.mark.slow
@pytest.mark.parametrize("path", EVERY, ids=[p.stem for p in EVERY])
def test_a_spec_is_as_meant(path: Path) -> None:
    insist(verified_spec(path, {}, None, ()))


@pytest.mark.parametrize("name", SAMPLE)
def test_a_spec_is_as_meant_at_a_small_size(name: str) -> None:
    insist(verified_spec(SPECS / f"{name}.tk", SAMPLE[name], None, ()))


@pytest.mark.parametrize("stem", ["elementwise", pytest.param("one_wave", marks=pytest.mark.slow)])
def test_mutants_are_caught_or_are_the_same(stem: str) -> None:
    (path,) = SPECS.rglob(f"{stem}.tk")
    tried = benchmark.trials(path, MUTATED[stem], 1, {}, apart=lambda work, _: work())
    rows = [row for row in tried if benchmark.sort(row) != "nothing"]
    assert len(rows) == MUTATED[stem]
    assert not [row for row in rows if benchmark.sort(row) == "other bits"]
    assert [row for row in rows if benchmark.sort(row) == "caught"]


def test_small_sizes_have_several_blocks_and_tails() -> None:
    (tail, _), *_ = chosen_cases(given.Asked(SPECS / "tail.tk"))
    assert tail["M"] == 129 and tail["N"] == 251 and tail["K"] == 509
    (packed, _), *_ = chosen_cases(given.Asked(SPECS / "low_precision" / "w4.tk"))
    assert (packed["M"], packed["N"]) == (256, 384), "rows of such weights have no tail"
    (whole, note), (loops, more) = chosen_cases(given.Asked(SPECS / "eight_wave.tk"))
    assert (whole["M"], whole["N"], note) == (256, 384, "small")
    assert (loops.get("K"), loops["M"], more) == (None, 128, "own loops")


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("attention/attention", {"BATCH": 2, "HEADS": 2, "LENGTH": 251}),
        ("attention/attention_causal", {"BATCH": 2, "HEADS": 8, "KV_HEADS": 2, "LENGTH": 251}),
        ("attention/attention_decode", {"KEYS": 91}),  # as many heads as share one are not fewer
        ("groups/moe", {"SLOTS": 257, "EXPERTS": 4, "HIDDEN": 509}),
        ("groups/moe_fp8", {"SLOTS": 257, "HIDDEN": 384}),  # such with a tail have seven times as many elements
        ("groups/grouped_fp8", {"TOKENS": 257, "EXPERTS": 4, "OUT": 251}),  # two rows of tiles of a group
        ("stream_k", {"M": 256, "N": 384, "K": None}),  # one tile, or few steps, are one step for each block
    ],
)
def test_small_sizes_of_loops_and_runs_have_several_of_all_and_ends(name: str, sizes: dict[str, int | None]) -> None:
    (small, _), *_ = chosen_cases(given.Asked(SPECS / f"{name}.tk"))
    assert {dim: small.get(dim) for dim in sizes} == sizes


@pytest.mark.parametrize("stem", ["elementwise", *(pytest.param(s, marks=pytest.mark.slow) for s in ("swiglu", "i8"))])
def test_all_of_them_are_one_run_that_may_be_stopped(
    stem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = SPECS.rglob(f"{stem}.tk")
    results, page = tmp_path / "results.jsonl", tmp_path / "page.md"
    page.write_text(f"before\n{every.BEGIN}\nold\n{every.END}\nafter\n", encoding="utf-8")

    def run(*words: str) -> str:
        monkeypatch.setattr("sys.argv", ["verify_specs.py", *words, "--results", str(results)])
        every.main()
        return capsys.readouterr().out

    first = run(str(path))
    assert f"{stem} (small): as meant" in first and "1 specs in " in first and ": 0 accused" in first
    again = run(str(path))
    assert "as meant" not in again and f"| `{stem}` |" in again, "what is there is not run again"
    run("--write", str(page))
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("after\n") and f"| `{stem}` |" in text and "old" not in text


def test_scalars_have_values_with_which_each_factor_tells() -> None:
    (small, _), (own, _) = chosen_cases(given.Asked(SPECS / "alpha_beta.tk"))
    assert (small["alpha"], small["beta"]) == (0.75, 0.625)
    assert (own["alpha"], own["beta"]) == (1.0, 0.0), "the second time the defaults: beta of zero has a way of its own"
    (attention, _), *_ = chosen_cases(given.Asked(SPECS / "attention" / "attention.tk"))
    assert attention["scale"] == 0.12751743


def test_what_a_block_stores_in_the_place_of_a_later_one_is_seen() -> None:
    path = SPECS / "attention" / "attention.tk"
    of = benchmark.original(given.Asked(path, {"BATCH": 1, "HEADS": 2, "LENGTH": 200}).chosen())
    ((_, source),) = benchmark.sources(of.build)
    lines = source.split("\n")
    at, line = next((n, line) for n, line in enumerate(lines, 1) if "store_rows<" in line)
    mutant = SourceMutant("place", source, at, line, line.replace("DIM_LENGTH - q_0", "DIM_LENGTH + q_0"))
    assert mutant.old != mutant.new
    build = benchmark.mutated(of.build, mutant)
    assert build is not None
    found = benchmark.judged(of, build)
    assert found["normal"] and not found["verify"], "the next head's block, which comes later, stores what is right"
