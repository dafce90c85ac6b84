"""The prose linter: no file has more findings than its allowance, and each rule finds what english needs rewritten."""

from __future__ import annotations

from pathlib import Path

import prose
import pytest

# A sentence as it was written, the rule that names it, and the same said plainly.
SENTENCES = [
    ("headless subject", "What is loaded by a wave stays there.", "Tiles loaded by a wave stay there."),
    ("headless subject", "Who calls `dispatch` gives it.", "The caller of `dispatch` passes this buffer."),
    ("behind", "Scales are factors behind the sum.", "Scales multiply the sum."),
    ("stands", "The meaning which stands in the table.", "The meaning in the table."),
    ("as it stands", "The result is used as it stands.", "The result is used without a conversion."),
    ("but for", "No equation but for one.", "No equation except one."),
    ("of its own", "Each block stores to a place of its own.", "Each block stores to a different location."),
    ("of one's own", "Kernels of one's own.", "Your own kernels."),
    ("at the fewest", "Each line counts at the fewest instructions.", "Each line counts at least one instruction."),
    ("looked at", "The order is looked at.", "The order is checked."),
    ("known to run time", "Sizes that only run time knows.", "Sizes known only at run time."),
    ("nothing to", "There is nothing to wait for.", "No wait is needed."),
    ("so many", "It holds so many slices.", "It holds N slices."),
    ("for who", "A function for who would rather know.", "Call it to be told about invalid offsets."),
    ("whole numbers", "Offsets are whole numbers.", "Offsets are integers."),
    ("products of products", "A loop with products of products.", "A loop with fused matmuls."),
    ("others per MFMA", "1.25 others per MFMA", "1.25 non-MFMA instructions per MFMA"),
    ("carried out", "Equations are carried out row by row.", "Equations are computed row by row."),
    ("mend", "It mends the spec.", "It fixes the spec."),
    ("meeting", "All waves are at the meeting.", "All waves are at the barrier."),
    ("slips", "Slips in the C++ are found.", "Mutants of the C++ are found."),
    ("turned", "Operands are turned by reads.", "Operands are transposed by reads."),
    ("a pass", "The value of the next pass.", "The value of the next iteration."),
    ("at any rate", "Without latency, at any rate.", "With no latency and unlimited bandwidth."),
]


def rules(path: str, text: str) -> list[str]:
    of = prose.of_page if path.endswith(".md") else prose.of_code
    return [finding.rule for finding in of(path, text)]


def test_no_file_has_more_findings_than_its_allowance() -> None:
    assert not prose.excess(prose.findings(prose.files()), prose.allowances())


@pytest.mark.parametrize(("rule", "written", "plain"), SENTENCES)
def test_a_rule_finds_its_pattern_in_pages_docstrings_and_messages(rule: str, written: str, plain: str) -> None:
    assert rule in rules("page.md", written + "\n")
    assert rule in rules("module.py", f'"""Text.\n\n{written}\n"""\n')
    if len(written.split()) > prose.MIN_MESSAGE_WORDS:
        assert rule in rules("module.py", f'MESSAGE = "{written}"\n')
    assert not rules("page.md", plain + "\n") and not rules("module.py", f'MESSAGE = "{plain}"\n')


def test_every_rule_has_a_sentence() -> None:
    assert {rule.name for rule in prose.PHRASES} == {rule for rule, *_ in SENTENCES}


@pytest.mark.parametrize("word", ["What", "Whether", "Where", "Who", "Which", "How"])
def test_a_docstring_starts_with_a_noun_or_a_verb(word: str) -> None:
    assert rules("module.py", f'def f():\n    """{word} a wave loads."""\n') == ["headless docstring"]
    assert not rules("module.py", 'def f():\n    """Tiles that a wave loads."""\n')


def test_code_in_a_page_is_not_prose() -> None:
    assert not rules("page.md", "A line.\n\n```text\nbehind what stands\n```\n\nThe word `behind` is code.\n")


def test_pages_have_short_lines_and_paragraphs() -> None:
    assert rules("page.md", "word " * 30 + "\n") == ["long line"]
    assert not rules("page.md", "| " + "word " * 30 + "|\n")
    assert rules("page.md", "a line\n" * 7) == ["long paragraph"]
    assert not rules("page.md", "a line\n" * 6 + "\n- a line\n" * 3)


def test_code_may_move_with_its_findings() -> None:
    late = prose.Finding("tkgen/new.py", 1, "behind", "behind", "after")
    assert not prose.excess({"tkgen/new.py": [late]}, {"tkgen/old.py": 1})
    assert prose.excess({"tkgen/new.py": [late], "tkgen/old.py": [late]}, {"tkgen/old.py": 1})
    assert prose.excess({"docs/new.md": [late]}, {"docs/old.md": 1})


def test_an_allowance_only_shrinks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("It mends.\nIt is behind.\n", encoding="utf-8")
    found = prose.findings([page])
    name = page.as_posix()
    assert prose.excess(found, {name: 1}) and not prose.excess(found, {name: 2})
    assert prose.renewed(found, {"renamed.md": 3}) == {name: 2}
    with pytest.raises(ValueError, match="only shrinks"):
        prose.renewed(found, {name: 1})
