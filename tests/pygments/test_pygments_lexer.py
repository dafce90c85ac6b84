from __future__ import annotations

from pathlib import Path

import pytest
from lark.lexer import PatternStr
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.token import Comment, Error, Keyword, Name, Number, String

from tkgen.pygments import TkLexer
from tkgen.syntax.grammar import parser

ROOT = Path(__file__).parents[2]
SPECS = [*sorted((ROOT / "specs").glob("*.tk")), *sorted((ROOT / "tests/syntax/corpus").glob("*.tk"))]


def tokens(text: str) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {}
    for _, kind, piece in TkLexer().get_tokens_unprocessed(text):
        found.setdefault(piece, []).append(kind)
    return found


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_specs_are_covered_without_an_error(path: Path) -> None:
    text = path.read_text()
    found = list(TkLexer().get_tokens_unprocessed(text))
    assert "".join(piece for _, _, piece in found) == text
    assert [start for start, _, _ in found] == [sum(len(p) for _, _, p in found[:i]) for i in range(len(found))]
    assert all(kind is not Error for _, kind, _ in found)


def test_every_keyword_of_the_grammar_is_one() -> None:
    keywords = {t.pattern.value for t in parser().terminals if isinstance(t.pattern, PatternStr)}
    statements = (ROOT / "tests/pygments/every_keyword.tk").read_text()
    found = tokens(statements)
    for keyword in sorted(k for k in keywords if k.isalpha()):
        assert any(kind in Keyword for kind in found[keyword]), keyword


def test_colours_follow_meaning() -> None:
    text = 'kernel a  # note\n  global step : bf16[K]\n  shared step buffers 2\n  remap xcd(8)\n  include "b.tk"\n'
    found = tokens(text)
    assert found["step"] == [Name, Name] and found["buffers"] == [Keyword]
    assert found["global"] == [Keyword.Declaration] and found["bf16"] == [Keyword.Type]
    assert found["a"] == [Name.Function] and found["xcd"] == [Name.Builtin]
    assert found["# note"] == [Comment.Single] and found["2"] == [Number] and found['"b.tk"'] == [String]


def test_what_does_not_parse_stays_text() -> None:
    text = "block 128 x ? 64\nwaves 2 x 2\n\u00e9"
    assert "".join(p for _, _, p in TkLexer().get_tokens_unprocessed(text)) == text
    found = tokens(text)
    assert found["?"] == [Error] and found["waves"] == [Keyword]


def test_markup_in_a_spec_is_harmless() -> None:
    html = highlight("kernel a  # <script>alert(1)</script>\n", TkLexer(), HtmlFormatter())
    assert "<script>" not in html
