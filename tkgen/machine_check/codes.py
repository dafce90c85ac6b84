"""The codes of what is found in machine code."""

from typing import Final

RACE, NOT_WAITED, CONTROL, OUTSIDE = "E321", "E322", "E323", "E324"
CODES: Final = frozenset({RACE, NOT_WAITED, CONTROL, OUTSIDE})
