"""From the text of a kernel of equations to its operations: what each spec beside this file becomes is written down."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tkgen.ir.equation_text import to_text
from tkgen.ir.typing import typed
from tkgen.source import SourceFile
from tkgen.syntax.format import format_source
from tkgen.syntax.parser import parse_path

SPECS = sorted(Path(__file__).parent.glob("*.tk"))


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_operations(spec: Path) -> None:
    program = typed(parse_path(spec))
    golden, text = spec.with_suffix(".txt"), to_text(program.kernel)
    if os.environ.get("TKGEN_BLESS"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert not program.unused


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_the_specs_are_formatted(spec: Path) -> None:
    text = spec.read_text(encoding="utf-8")
    assert format_source(SourceFile(spec.name, text)) == text
