import re

from hypothesis import given
from hypothesis import strategies as st

from tkgen.lsp.protocol import Positions

TEXTS = st.text(st.sampled_from("ab \n\r\t\u00e9\u2028\u000b\U0001f600"), max_size=40)
WIDTH = {"utf-8": lambda c: len(c.encode()), "utf-16": lambda c: len(c.encode("utf-16-le")) // 2, "utf-32": len}


@given(TEXTS, st.sampled_from(sorted(WIDTH)))
def test_positions_count_code_units_of_each_line(text: str, encoding: str) -> None:
    positions = Positions(text, encoding)
    for offset in range(len(text) + 1):
        if text[offset - 1 : offset + 1] == "\r\n":
            continue  # between the two characters of one line end
        lines = re.split("\r\n|\n|\r", text[:offset])
        expected = (len(lines) - 1, sum(WIDTH[encoding](c) for c in lines[-1]))
        assert positions.at(offset) == expected
        assert positions.offset(*expected) == offset


def test_positions_outside_the_text() -> None:
    positions = Positions("ab\r\n\U0001f600c")
    assert positions.offset(0, 99) == 2  # not beyond its line
    assert positions.offset(9, 0) == 6
    assert positions.offset(1, 1) == 4  # inside a character: its beginning
    assert positions.at(-1) == (0, 0) and positions.at(99) == (1, 3)
