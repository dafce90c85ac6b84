"""Origins of generated lines: every clause that decides something is found again, included files by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lowering import SPECS, gemm
from planning import planned

from tkgen.api import load
from tkgen.backends.cdna.lower.origins import Performed
from tkgen.backends.cdna.lower.render import lower
from tkgen.tile.program import Part, Place

# Clauses of a spec that put nothing into the code: names, permissions, and what is resolved before anything is placed.
SILENT = re.compile(r"\s*(#|$|kernel\b|schedule\b|target\b|allow\b|param\b|tune\b)")


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.tk")), ids=lambda p: p.stem)
def test_every_clause_of_a_spec_is_found_again(path: Path) -> None:
    source = load(path).source
    seen = {origin.line for line in source.origins for origin in line}
    wanted = {i for i, line in enumerate(path.read_text().splitlines(), 1) if not SILENT.match(line)}
    assert wanted <= seen
    assert len(source.origins) == len(source.text.split("\n"))


@pytest.mark.parametrize("name", ["ping_pong", "producer_consumer_4p8c", "hk_12c4p_3", "split_k"])
def test_every_operation_of_the_schedule_has_its_lines(name: str) -> None:
    spec = load(SPECS / f"{name}.tk")
    lines = spec.source.text.split("\n")
    for wave in spec.plan.waves:
        for part in Part:
            for position, op in enumerate(wave.ops(part)):
                numbers = spec.source.operations[Performed(wave.name, Place(part, position))]
                text = "\n".join(lines[n - 1] for n in numbers)
                word = {"multiply": "mma_", "read": "load(", "store": "store", "zero": "zero(", "copy": "::load("}
                assert word.get(op.word, "") in text


def test_lines_of_included_files_name_them(tmp_path: Path) -> None:
    text = gemm()
    at = text.index("  global A")
    tensors = text[at : text.index("\n", text.index("  global C"))]
    (tmp_path / "my shapes, all").mkdir()
    shared = tmp_path / "my shapes, all" / "tensors.tk"
    shared.write_text("# shared\n" + tensors.replace("  global", "global") + "\n")
    main = tmp_path / "main.tk"
    main.write_text(text.replace(tensors, '  include "my shapes, all/tensors.tk"'))
    source = load(main).source
    number = next(i for i, line in enumerate(source.text.split("\n"), 1) if re.search(r"> A;", line))
    origin = source.origin(number)
    assert origin is not None
    assert (origin.file.name, origin.line) == (str(shared), 2)
    assert origin.file.line(origin.line).startswith("global A")
    assert "spec:my%20shapes%2C%20all/tensors.tk:2" in source.text
    assert str(tmp_path) not in source.text


def test_the_clause_that_matters_most_comes_first() -> None:
    text = gemm()
    source = lower(planned(text), "gfx942", "test.tk")
    number = next(i for i, line in enumerate(source.text.split("\n"), 1) if "group<" in line)
    origin = source.origin(number)
    assert origin is not None
    assert text.splitlines()[origin.line - 1].split()[0] == "shared"


@pytest.mark.parametrize("said", ["see spec:1", "as before, spec:6", "// x, spec:3"])
def test_words_of_a_comment_are_no_origins(said: str) -> None:
    plain, worded = planned(gemm(header="# A product.\n")), planned(gemm(header=f"# {said}\n"))
    before, after = lower(plain, "gfx942", "test.tk"), lower(worded, "gfx942", "test.tk")
    lines = [[[(o.name, o.line) for o in found] for found in source.origins] for source in (before, after)]
    assert lines[0] == lines[1] and after.operations == before.operations
    assert not any(after.origins[:5])
    assert after.text.split("\n")[1:] == before.text.split("\n")[1:]
