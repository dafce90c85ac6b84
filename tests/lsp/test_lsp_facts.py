"""Derived values against the program they are derived from, and robustness on mutilated specs."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from lsp_editor import SPEC
from sampling import sample

from tkgen.api import load
from tkgen.checks.shared_memory import lds_bytes
from tkgen.ir.reductions import BYTES, exchanged
from tkgen.lsp import facts
from tkgen.lsp.analysis import Analysis, Request, analyze
from tkgen.lsp.completion import complete
from tkgen.lsp.edits import formatting
from tkgen.lsp.hover import hover
from tkgen.lsp.names import occurrences, references
from tkgen.lsp.outline import outline
from tkgen.lsp.project import Project
from tkgen.lsp.symbols import colours, hints, symbols
from tkgen.source import SourceFile

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "specs").glob("*.tk"))


def known(path: Path) -> Analysis:
    return analyze(Request(SourceFile(str(path), path.read_text())))


@pytest.mark.parametrize("path", sample(SPECS, 4), ids=lambda p: p.stem)
def test_the_analysis_is_that_of_the_library(path: Path) -> None:
    found, spec = known(path), load(path)
    assert found.program == spec.program
    assert found.diagnostics == spec.diagnostics
    assert found.plan is not None and found.plan.to_text() == spec.plan.to_text()


@pytest.mark.parametrize("path", sample(SPECS, 4), ids=lambda p: p.stem)
def test_coordinates_of_fragments_cover_the_block(path: Path) -> None:
    found = known(path)
    p = found.program
    assert p is not None and p.compute.shape is not None
    (line,) = [f for f in facts.of_name(p.accumulator.tensor.name, found) if f.startswith("fragment (i, j)")]
    expressions = re.search(r"\[(.*), (.*)\]$", line)
    assert expressions is not None
    for axis, (expression, wave, index) in enumerate(zip(expressions.groups(), "rc", "ij", strict=True)):
        code = re.sub(r"(\d+) ([rcij])\b", r"\1 * \2", expression).replace("tile.row", "0").replace("tile.col", "0")
        for w in range(p.compute.shape[axis]):
            for f in range(p.accumulator.fragments[axis]):
                start = eval(code, {"__builtins__": {}}, {wave: w, index: f})
                assert start == p.accumulator.tile_index(axis, w, f, p.compute.shape[axis]) * p.accumulator.tile[axis]


@pytest.mark.parametrize("path", sample(SPECS, 4), ids=lambda p: p.stem)
def test_the_hints_of_lds_add_up(path: Path) -> None:
    found = known(path)
    assert found.plan is not None
    lines = [h.text for h in hints(outline(found.file), found) if h.text.endswith(" B LDS")]
    texts = [text.removesuffix(" B LDS") for text in lines if " of " not in text]  # the header's has all
    together = BYTES * exchanged(found.plan.program)  # what waves reduce together belongs to no line of tiles
    assert sum(int(text.replace(",", "")) for text in texts) + together == lds_bytes(found.plan.program)


def test_roles_hints_and_traffic() -> None:
    path = ROOT / "specs" / "producer_consumer_4p8c.tk"
    found = known(path)
    producer, consumer = facts.of_name("producer", found), facts.of_name("consumer", found)
    assert "A per K-step: 4,096 B by 256 threads, 16 B each" in producer
    assert any(f.startswith("about 0 registers") for f in producer) is False
    assert "2 x 4 over the output: wave w has row (w - 4) / 4 and column (w - 4) % 4" in consumer
    assert any("16 accumulators" in f for f in consumer)
    texts = {h.text for h in hints(outline(SourceFile(str(path), path.read_text())), found)}
    assert {"4 waves, 256 threads", "8 waves, 512 threads", "256 K-steps", "24,576 B LDS"} <= texts


def test_dynamic_sizes_and_persistent_grids() -> None:
    text = SPEC.replace("K = 1024", "K = dynamic").replace("waves 2", "grid persistent(304)\n  waves 2")
    found = analyze(Request(SourceFile("/a.tk", text)))
    assert found.program is not None
    assert "K = dynamic" in facts.of_name("K", found)
    lines = [f for s in outline(found.file).statements for f in facts.of_statement(s.node, found)]
    assert "32 x 16 = 512 output tiles, 304 blocks of 256 threads, 1.7 tiles each" in lines
    assert any("as many iterations as K needs" in line for line in lines)


def test_blocks_that_share_a_tile() -> None:
    found = analyze(Request(SourceFile("/a.tk", SPEC.replace("waves 2", "grid split_k(4)\n  waves 2"))))
    lines = [f for s in outline(found.file).statements for f in facts.of_statement(s.node, found)]
    assert any("4 blocks of 256 threads each = 2,048 blocks, their sums added in memory" in line for line in lines)


def test_a_broken_spec_has_words_but_no_values() -> None:
    text = SPEC.replace("store C", "stroe C")
    found = analyze(Request(SourceFile("/a.tk", text)))
    assert found.program is None and hints(outline(found.file), found) == []
    shown = hover(Project({}), found.file, text.index("waves"), found)
    assert shown is not None and "Arranges the waves" in shown.markdown
    shown = hover(Project({}), found.file, text.index("A :"), found)
    assert shown is not None and "global A : bf16[M, K]" in shown.markdown


def test_sizes_stay_while_a_schedule_is_wrong() -> None:
    text = SPEC + "  schedule\n    cluster load A B\n    cluster read A(7) B multiply\n"
    found = analyze(Request(SourceFile("/a.tk", text)))
    assert [d.code for d in found.diagnostics] == ["E217"] and found.plan is None
    assert [h.text for h in hints(outline(found.file), found)] == [
        h.text for h in hints(outline(SourceFile("/a.tk", SPEC)), analyze(Request(SourceFile("/a.tk", SPEC))))
        if "per K-step" not in h.text
    ]  # fmt: skip


def test_hover_text_is_text() -> None:
    text = SPEC.replace("sample", "a_b_").replace("global A", "global A_x_").replace(" A, B", " A_x_, B")
    found = analyze(Request(SourceFile("/a.tk", text)))
    shown = hover(Project({}), found.file, text.index("A_x_"), found)
    assert shown is not None and "A\\_x\\_ in LDS" in shown.markdown


@pytest.mark.parametrize("seed", range(6))
def test_mutilated_specs_never_raise(seed: int) -> None:
    rng = random.Random(seed)
    text = rng.choice(SPECS).read_text()
    for _ in range(12):
        start = rng.randrange(len(text) + 1)
        inserted = rng.choice(["", "\n", " ", "(", "]", "..", '"', "#", "kernel", "\U0001f600", "1e9", "\t"])
        text = text[:start] + inserted + text[start + rng.choice([0, 0, 1, 3, 20]) :]
        file = SourceFile("/fuzz.tk", text)
        here = outline(file)
        empty, project = Analysis(file), Project({})
        for offset in (0, len(text), *(rng.randrange(len(text) + 1) for _ in range(10))):
            complete(project, file, offset)
            hover(project, file, offset, empty)
            references(project, file, offset)
        symbols(here), colours(here), formatting(file), occurrences(here)
        for statement in here.statements:
            assert 0 <= statement.start <= statement.code_end <= statement.end <= len(text)
            assert all(text[p.start : p.end] == p.text for p in statement.pieces)
