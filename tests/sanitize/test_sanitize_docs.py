"""docs/sanitizer.md says what the command does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tkgen.cli import app
from tkgen.diagnostics.explain import codes
from tkgen.sanitize import parse

TEXT = (Path(__file__).parents[2] / "docs" / "sanitizer.md").read_text(encoding="utf-8")


def test_every_code_is_listed() -> None:
    assert re.findall(r"^\| ([EW]7\d\d) \|", TEXT, re.MULTILINE) == [c for c in codes() if c[1] == "7"]


def test_every_option_exists() -> None:
    help_text = CliRunner().invoke(app, ["sanitize", "--help"], env={"COLUMNS": "200"}).output
    for option in set(re.findall(r"`(--[a-z-]+)", TEXT)):
        assert option in help_text, option


BLOCK = TEXT.split("## Arguments\n")[1].split("```text\n")[1].split("```")[0]


@pytest.mark.parametrize("line", BLOCK.splitlines(), ids=lambda line: line.split("  ")[0])
def test_every_argument_shown_can_be_read(line: str) -> None:
    parse([re.split(r"\s{2,}", line)[0]])
