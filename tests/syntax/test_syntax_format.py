"""The formatter: canonical spacing, nothing lost, the meaning unchanged."""

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tkgen.diagnostics import SpecError
from tkgen.source import SourceFile
from tkgen.syntax.dump import dump
from tkgen.syntax.format import format_source
from tkgen.syntax.parser import parse

CORPUS = [path.read_text() for path in sorted((Path(__file__).parent / "corpus").glob("*.tk"))]


def formatted(text: str) -> str:
    return format_source(SourceFile("spec.tk", text))


def comments(text: str) -> Counter[str]:
    return Counter(line.partition("#")[2].rstrip() for line in text.splitlines() if "#" in line)


def check(text: str) -> None:
    """Same tree, same comments, and nothing to do the second time."""
    out = formatted(text)
    before, after = parse(SourceFile("a.tk", text)), parse(SourceFile("a.tk", out))
    assert dump(before).splitlines()[1:] == dump(after).splitlines()[1:]
    assert comments(text) == comments(out)
    assert formatted(out) == out
    assert not re.search(r"[ \t]$|\t|\n\n\n|^\n", out, re.MULTILINE) or "\n\n\n" not in out
    assert out.endswith("\n") and not out.endswith("\n\n") and not out.startswith("\n")


@pytest.mark.parametrize("text", CORPUS, ids=lambda text: text.split("kernel ")[1].split()[0])
def test_corpus(text: str) -> None:
    check(text)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("dims   M=8192 ,N =dynamic", "dims M = 8192, N = dynamic"),
        ("global A:bf16[ M+1,K ]", "global A : bf16[M+1, K]"),
        ("param P=-2*( M-1 )/ -3", "param P = -2 * (M - 1) / -3"),
        ("remap xcd( 8,chunk=16 )|group( rows =4 )", "remap xcd(8, chunk = 16) | group(rows = 4)"),
        ("block (M/2) x(N/2)step 64", "block (M / 2) x (N / 2) step 64"),
        ("phase  waves 4 .. 7 by  1 cluster", "phase waves 4..7 by 1 cluster"),
        ('include   "a  b.tk"', 'include "a  b.tk"'),
        ("waves 2#x", "waves 2  #x"),
        (
            "schedule\n     cluster fetch A [ k + 1 ]B[k]read A [k+1] ( * ; 0 ) wait vm 4",
            "schedule\n    cluster fetch A[k+1] B[k]  read A[k+1](*; 0)  wait vm 4",
        ),
        ("Y[t]=X[ t-1 ]+X[2*t+ 1]", "Y[t] = X[t - 1] + X[2 * t + 1]"),
        ("schedule\n   group multiply( 0 .. 1,* ;2 )barrier", "schedule\n    group multiply (0..1, *; 2)  barrier"),
    ],
)
def test_spacing(line: str, expected: str) -> None:
    assert formatted(f"kernel a\n  {line}\n") == f"kernel a\n  {expected}\n"


def test_every_line_of_an_equation_has_the_same_spaces() -> None:
    text = "kernel k\n  dims N = 4\n  Y[t] = (X[t-1]\n    + X[t+1])\n"
    assert formatted(text) == "kernel k\n  dims N = 4\n  Y[t] = (X[t - 1]\n    + X[t + 1])\n"


def test_comments_find_their_place() -> None:
    text = """\


# header


kernel a # first
      # of the body
      role p waves 0
              # of the role
              load A   # behind
              load B, C # too

              # last of the role
      # after the role
      epilogue scale(x) # one


         # inside
         | gelu # two
      # last of the body
# of the file


"""
    assert (
        formatted(text)
        == """\
# header

kernel a  # first
  # of the body
  role p waves 0
    # of the role
    load A     # behind
    load B, C  # too

    # last of the role
  # after the role
  epilogue scale(x)  # one

    # inside
    | gelu  # two
  # last of the body
# of the file
"""
    )


def test_fragments_and_empty_files() -> None:
    assert formatted("waves   2\nrole p waves 0\n load A") == "waves 2\nrole p waves 0\n  load A\n"
    assert formatted("") == formatted("\n \n") == ""
    assert formatted("\n# only\n\n\n # this") == "# only\n\n# this\n"


def test_line_ends_become_newlines() -> None:
    assert (
        formatted("kernel a\r\n  waves   2  # x\r\n\r\n\r\n  store C\r\n") == "kernel a\n  waves 2  # x\n\n  store C\n"
    )


def test_wrong_specs_are_not_formatted() -> None:
    with pytest.raises(SpecError):
        formatted("kernel a\n  wavs 2\n")


@settings(derandomize=True, deadline=None, max_examples=60, database=None)
@given(st.sampled_from(CORPUS), st.data())
def test_any_layout_is_formatted(text: str, data: st.DataObject) -> None:
    """Lines get blank lines, comments, extra spaces and breaks at random; still nothing is lost."""
    out: list[str] = []
    for line in text.splitlines():
        extra = data.draw(st.sampled_from(["", "", "", "\n", "\n\n\n", "# new", "     # deep", "# a\n\n  # b"]))
        out += [extra] if extra else []
        code, mark, comment = line.partition("#")
        if mark == "" and code.strip() and data.draw(st.booleans()):
            code = re.sub(
                r"(?<=\S)([ ,|=])(?=\S)", lambda m: m[1] if m[1] == "=" else f"  {m[1]} ".rstrip() + " ", code
            )
            comment = data.draw(st.sampled_from(["", "# end", "#"]))
        out.append(code + mark + comment)
    check("\n".join(out))
