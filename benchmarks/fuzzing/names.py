"""Names that generated code has for something, given to what a drawn spec declares."""

from __future__ import annotations

import random
import re

# Names that the C++ of fused matmuls has for something, alone or with the endings that it gives to names of a spec.
NAMES = (
    "V_f", "K_f", "K_s", "V_r", "K_r", "K_at", "Q_at", "TILE_j", "TILE_q", "o_r", "o_next", "s_next", "x", "n", "c",
    "e", "i", "k", "g", "r", "t", "h", "all", "part", "wave", "step", "steps", "tile", "columns", "q_0", "j_0",
    "s_e", "l_d", "d_d", "v12", "v9", "v15", "first_row", "first_column", "first_step", "left", "right", "factor",
    "held_s", "held", "pair", "each", "put", "at", "asks_0", "votes_0", "given_0", "turned_0", "direct", "settle",
    "turn", "arrived", "fetch", "write", "K_reg", "out_s", "row", "col", "element", "across", "divisor", "quiet",
    "keep", "take", "vote", "memory", "consumer", "left_phase", "passes", "first_pass", "kernel", "globals", "int8",
    "lane", "warp", "size", "L_size", "D_size", "min", "float2", "half", "_x", "x_", "s_", "v_11", "s_3_p", "q_i",
    "l_c", "m_c_n", "tma", "group", "zero", "copy", "load",
)  # fmt: skip
RESERVED = {"min", "group", "copy", "load", "fetch", "write", "half"}  # words of the language


def renamed(seed: int, text: str) -> str:
    """A spec, or, one of four, the same with such names for some of its tensors, scalars and values."""
    rng = random.Random(f"names {seed}")
    if rng.random() < 0.75:
        return text
    own = {
        *re.findall(r"^ +(?:global|scalar) (\w+)", text, re.MULTILINE),
        *re.findall(r"^ {4}(\w+) [+]?= ", text, re.MULTILINE),
    }
    own.discard("T")  # `.T` transposes
    words = {*re.findall(r"\w+", text)}
    left = [name for name in NAMES if name not in RESERVED and name not in words]
    others = dict(zip(sorted(own), rng.sample(left, min(len(own), len(left))), strict=False))
    others = {name: other for name, other in others.items() if rng.random() < 0.6}
    return re.sub(r"\w+", lambda word: others.get(word[0], word[0]), text)
