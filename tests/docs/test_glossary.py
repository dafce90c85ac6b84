"""The glossary names what the code has, and classes and modules have the field's words.

`TKGEN_BLESS=1 pytest tests/docs/test_glossary.py` takes names that are gone out of `names_allowance.json`.
"""

from __future__ import annotations

import ast
import json
import os
import re
import tomllib
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from documentation import ROOT

PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \| (?:`([^`]+)`)? ?\|$", PAGE, re.MULTILINE)
ALLOWANCE = Path(__file__).with_name("names_allowance.json")
# Words that name no thing of the field, in the names of modules and classes.
FORBIDDEN = {
    *("meeting", "meet", "meets", "walk", "put", "get", "give", "late", "turned", "turns", "halves", "slips", "mends"),
    *("said", "given", "kept", "made", "found", "room", "whole", "far", "unlike", "work", "words", "texts", "places"),
    *("orders", "lines", "done"),
}


@cache
def vocabulary() -> set[str]:
    """The words of the language: those that editors explain, the remaps and the named schedules."""
    words = tomllib.loads((ROOT / "tkgen" / "lsp" / "words.toml").read_text(encoding="utf-8"))
    folders = ("remap/definitions", "ir/schedules/definitions")
    modules = {path.stem for folder in folders for path in (ROOT / "tkgen" / folder).glob("*.py")}
    return {word for group in words.values() for word in group} | modules


@cache
def classes() -> Counter[str]:
    """The number of definitions of each class name in the package."""
    trees = (ast.parse(p.read_text(encoding="utf-8")) for p in (ROOT / "tkgen").rglob("*.py"))
    return Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def parts(name: str) -> set[str]:
    """The words of a name, in lower case: `LateWait` and `late_wait` have two."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def names_now() -> dict[str, list[str]]:
    """Names that have a forbidden word, and classes that are defined more than once."""
    modules = {p.stem for p in (ROOT / "tkgen").rglob("*.py")}
    return {
        "modules": sorted(name for name in modules if parts(name) & FORBIDDEN),
        "classes": sorted(name for name in classes() if parts(name) & FORBIDDEN),
        "repeated": sorted(name for name, times in classes().items() if times > 1 and not name.startswith("_")),
    }


def test_the_glossary_has_rows() -> None:
    assert len(ROWS) > 50 and all(word.strip() and meaning.strip() for word, meaning, _ in ROWS)


@pytest.mark.parametrize("name", sorted({name for *_, name in ROWS if name}))
def test_a_name_of_the_glossary_is_there(name: str) -> None:
    if name.startswith("tkgen."):
        assert import_module(name).__doc__
    else:
        for word in name.split():
            assert word in vocabulary(), word


def test_no_word_is_explained_twice() -> None:
    assert not [word for word, times in Counter(word.strip().lower() for word, *_ in ROWS).items() if times > 1]


@pytest.mark.parametrize("kind", ["modules", "classes"])
def test_names_are_the_fields_words_beyond_the_allowance(kind: str) -> None:
    allowed, now = json.loads(ALLOWANCE.read_text(encoding="utf-8")), names_now()
    assert not set(now[kind]) - set(allowed[kind]), "say it with the field's word: see docs/glossary.md"
    if os.environ.get("TKGEN_BLESS"):
        fewer = {key: [name for name in allowed[key] if name in now[key]] for key in ("modules", "classes")}
        fewer["repeated"] = min(allowed["repeated"], len(now["repeated"]))
        ALLOWANCE.write_text(json.dumps(fewer, indent=1) + "\n", encoding="utf-8")


def test_no_more_classes_share_a_name_than_the_allowance() -> None:
    """One name, one thing: the number only shrinks."""
    repeated = names_now()["repeated"]
    assert len(repeated) <= json.loads(ALLOWANCE.read_text(encoding="utf-8"))["repeated"], repeated


def test_forbidden_words_are_found_in_names() -> None:
    assert parts("LateWait") & FORBIDDEN and parts("kept_tiles") & FORBIDDEN
    assert not parts("Template") & FORBIDDEN and not parts("budget") & FORBIDDEN
