"""The pages of the diagnostic codes: well formed, and for the syntax' own codes (E1xx) true."""

from pathlib import Path

import pytest

from tkgen.diagnostics import SpecError
from tkgen.diagnostics.explain import Example, UnknownCode, codes, explain_text, page, parse_page
from tkgen.syntax.parser import parse_path


@pytest.mark.parametrize("code", codes())
def test_every_page_is_complete(code: str) -> None:
    about = page(code)
    assert about.code == code and about.title and not about.title.endswith(".")
    assert len(about.prose) > 80
    assert about.fails and about.passes
    assert "Wrong:" in explain_text(code) and "```" not in explain_text(code)


@pytest.mark.parametrize("code", [code for code in codes() if code.startswith("E1")])
def test_syntax_examples_are_true(code: str, tmp_path: Path) -> None:
    spec = tmp_path / "a.tk"
    for example in page(code).fails:
        spec.write_bytes(example.data)
        with pytest.raises(SpecError) as caught:
            parse_path(spec)
        assert {d.code for d in caught.value.diagnostics} == {code}
    for example in page(code).passes:
        spec.write_bytes(example.data)
        parse_path(spec)


def test_syntax_codes_have_pages() -> None:
    assert [code for code in codes() if code.startswith("E1")] == [f"E1{n:02}" for n in range(11)]


def test_codes_are_found_in_any_case_and_suggested() -> None:
    assert page("e101") is page("e101") and page("e101").code == "E101"
    with pytest.raises(UnknownCode, match="did you mean E1"):
        page("E1011")
    with pytest.raises(UnknownCode, match=r"there is no diagnostic `\.\./\.\./x`"):
        page("../../x")


def test_the_format_of_a_page() -> None:
    about = parse_page(
        "E999",
        "# E999: a title\n\nProse\nhere.\n\n```tk fails target=gfx950 -D M=100\na\n```\n\n```tk passes\nb\n```\n\n"
        "More.\n\n```tk passes escaped\n\\xff\\x41\n```\n",
    )
    assert (about.title, about.prose) == ("a title", "Prose\nhere.")
    assert about.fails == (Example("a\n", ("target=gfx950", "-D", "M=100")),)
    assert [example.data for example in about.passes] == [b"b\n", b"\xffA\n"]
    with pytest.raises(ValueError, match="must start with"):
        parse_page("E999", "# E998: other\n")


def test_explanations_read_well_on_a_terminal() -> None:
    text = explain_text("E103")
    assert text.startswith("E103: an unknown statement\n\n")
    assert "\nWrong:\n    kernel one_wave\n      blok 64 x 64 step 32\n" in text
