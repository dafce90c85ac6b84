"""Every command in the documentation prints what stands below it; `TKGEN_BLESS=1 pytest tests/docs` writes it anew."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest
import typer
from pages import PAGES, ROOT, blocks, commands, elided, matches, run

from tkgen.cli import app


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the specs, in which output is 100 columns wide and without colour."""
    shutil.copytree(ROOT / "specs", tmp_path / "specs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


RUN = [page for page in PAGES if any(block.runs for block in blocks(page.read_text(encoding="utf-8")))]


@pytest.mark.parametrize("page", RUN, ids=[page.stem for page in RUN])
def test_what_a_page_shows_is_what_happens(page: Path, workplace: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if os.environ.get("TKGEN_BLESS"):
        text, _ = run(page, text, exact=True)
        page.write_text(text, encoding="utf-8")
    else:
        _, wrong = run(page, text)
        assert not wrong, "\n\n".join(wrong)
