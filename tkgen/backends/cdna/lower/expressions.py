"""Small C++ expressions: loops over indices, conditions on waves, literals."""

from __future__ import annotations

from tkgen.backends.cdna.lower.statements import Loop


def loops_over(*axes: tuple[str, tuple[int, ...]]) -> tuple[tuple[Loop, ...], tuple[str, ...]]:
    """Loops over index ranges and the index expressions: a single index is written as its number."""
    loops, names = [], []
    for variable, values in axes:
        if len(values) == 1:
            names.append(str(values[0]))
        else:
            loops.append(Loop(variable, len(values), values[0]))
            names.append(variable)
    return tuple(loops), tuple(names)


def wave_condition(waves: tuple[int, ...]) -> str:
    """The C++ condition that a wave is one of these."""
    runs: list[list[int]] = []
    for wave in waves:
        if runs and runs[-1][-1] == wave - 1:
            runs[-1].append(wave)
        else:
            runs.append([wave])
    return " || ".join(f"wave == {r[0]}" if len(r) == 1 else f"(wave >= {r[0]} && wave <= {r[-1]})" for r in runs)
