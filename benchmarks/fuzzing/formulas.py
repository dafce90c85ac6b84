"""Random formulas of equations, drawn with the axes that they have.

A value is of rows and columns, of rows, of columns, or one number. What divides or takes a root is kept away from zero,
so that results can be judged.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

DTYPES = ("bf16", "f16", "f32")
WRAPPED = (
    "abs({})", "-{}", "relu({})", "silu({})", "tanh({})", "gelu({})", "exp2(clamp({}, -3, 3))", "sqrt(abs({}))",
    "rsqrt(abs({}) + 0.5)", "rcp(abs({}) + 1)", "bf16({})", "f16({})", "sigmoid({})", "clamp({}, -1, 1.5)",
    "log(abs({}) + 1)", "sin({})", "log1p(abs({}))", "expm1(clamp({}, -3, 3))", "floor({})", "round(4 * {})",
)  # fmt: skip
JOINED = (
    "{} + {}", "{} - {}", "{} * {}", "max({}, {})", "min({}, {})", "{} / (abs({}) + 1)", "{} % (abs({}) + 1)",
    "pow(abs({}) + 0.5, clamp({}, -2, 2))", "where({} > 0, {}, 0.5)",
    "where({} < 1 and not {} >= 0.25, 0.5, 2)", "where({} != 0 or {} <= -1, -1, 1.5)",
)  # fmt: skip
BOTH, ROW, COL, ONE = "both", "row", "col", "one"
WIDER = {BOTH: (BOTH, ROW, COL, ONE), ROW: (ROW, ONE), COL: (COL, ONE), ONE: (ONE,)}


@dataclass
class Formulas:
    """Draws formulas; `leaves` are what is known by its axes, `reductions` what leads from both axes to fewer."""

    rng: random.Random
    leaves: dict[str, list[str]]
    reductions: dict[str, Sequence[str]]
    lines: list[str] = field(default_factory=list)
    features: set[str] = field(default_factory=set)

    def formula(self, axes: str, depth: int = 2) -> str:
        """One with these axes, or fewer."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.15:
            known = [leaf for kind in WIDER[axes] for leaf in self.leaves[kind]]
            own = self.leaves[axes]
            return rng.choice(own if own and rng.random() < 0.7 else known or ["0.75"])
        if rng.random() < 0.5:
            return rng.choice(WRAPPED).format(f"({self.formula(axes, depth - 1)})")
        return f"({rng.choice(JOINED).format(self.formula(axes, depth - 1), self.formula(axes, depth - 1))})"

    def define(self, axes: str, formula: str) -> str:
        """A name for a formula."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {formula}")
        self.leaves[axes].append(name)
        return name

    def draw(self, count: int) -> None:
        """So many definitions, some of them reductions of the tile."""
        for _ in range(count):
            choices = [axes for axes, words in self.reductions.items() if words]
            if choices and self.rng.random() < 0.5:
                axes = self.rng.choice(choices)
                word = self.rng.choice(self.reductions[axes])
                self.features.add(f"{word[:3]} reduction")
                self.define(axes, f"{word}({self.leaves[BOTH][0]} + 0 * ({self.formula(BOTH)}))"
                            if self.rng.random() < 0.2 else f"{word}({self.formula_of_both()})")  # fmt: skip
            else:
                self.define(BOTH, self.formula_of_both())

    def formula_of_both(self) -> str:
        """One that has both axes for certain."""
        return f"{self.rng.choice(self.leaves[BOTH])} * 0.5 + {self.formula(BOTH)}"
