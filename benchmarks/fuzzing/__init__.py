"""Generator of `fuzz.py`, its verdicts, and its coverage of the language."""
