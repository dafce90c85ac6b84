"""Lines other than equations as Python, Triton and CUDA write them, rewritten as clauses, declarations and loops."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

_NAME = r"[A-Za-z_]\w*"
_STATEMENT = {
    "warps": "waves", "num_warps": "waves", "lds": "shared", "smem": "shared", "for": "each", "parallel": "over",
    "dim": "dims",
}  # fmt: skip


def loop(text: str) -> str:
    """`for k in range(0, K, 64):` as `each k in K by 64`."""
    text = re.sub(rf"^for \(\s*(?:\w+ )?({_NAME}) = 0; \1 < (\w+); \1 \+= (\w+)\)\s*{{?$", r"each \1 in \2 by \3", text)
    text = re.sub(r"^for\b", "each", text).rstrip(": {")
    if not re.match(r"(each|over)\b", text):
        return text
    text = re.sub(r"\bin range\((?:(?:tl\.|triton\.)?cdiv\((\w+), *(\w+)\)|(\w+) *//? *(\w+))\)", _tiles, text)
    text = re.sub(r"\bin (\w+) *// *(\w+)", r"in \1 by \2", text)
    one = re.fullmatch(rf"over ({_NAME}), ({_NAME}) in (\w+), (\w+) by (\w+)", text)
    if one is not None:
        return "over {0} in {2} by {4}, {1} in {3} by {4}".format(*one.groups())
    if text.startswith("over"):
        text = re.sub(r"\bin range\((\w+)\)", r"in \1", text)
        text = re.sub(r"(by \w+) and (?=\w+ in\b)", r"\1, ", text)
        text = re.sub(r"\b([A-Z]\w*) (by \w+)(?=,|$)", lambda m: _named(m, text), text)
    text = re.sub(r"\b(by \w+) (?:until|up to) (?=\w)", r"\1 to ", text)
    masked = rf"^each ({_NAME}) in (\w+) by (\w+) if (?:\1 <=? (\w+)|(\w+) >=? \1)$"
    text = re.sub(masked, r"each \1 in \2 by \3 to \4\5", text)
    text = re.sub(rf"^(each {_NAME} in {_NAME})$", r"\1 by 64", text)
    several = re.fullmatch(rf"over ({_NAME}), ({_NAME}) in (\w+), (\w+) by (\w+), (\w+)", text)
    if several is not None:
        return "over {0} in {2} by {4}, {1} in {3} by {5}".format(*several.groups())
    text = re.sub(r"^(over|each) ([A-Z])(\w*) by\b", lambda m: f"{m[1]} {m[2].lower()} in {m[2]}{m[3]} by", text)
    found = re.fullmatch(rf"(each|over) ({_NAME}) in range\((?:0,\s*)?(\w+)(?:,\s*(\w+))?\)", text)
    if found is not None:
        return f"{found[1]} {found[2]} in {found[3]} by {found[4] or 64}"
    if not re.match(r"(each|over)\b", text):
        return text
    text = re.sub(r"\b(?:0\.\.)(?=\w)", "", text)
    text = re.sub(r",\s*by\b", " by", text)
    text = re.sub(rf"^(over|each) ({_NAME}) (?:=|of) ", r"\1 \2 in ", text)
    text = re.sub(r"^over \((.*)\)$", r"over \1", text)
    text = re.sub(rf"\b(\w+)\s+(?:step|tile)\s+(?={_NAME}|\d)", r"\1 by ", text)
    return re.sub(rf"(\bby \w+)\s+(?={_NAME} in\b)", r"\1, ", text)


def _tiles(found: re.Match[str]) -> str:
    """`in K by 64` for a range over the number of tiles."""
    return f"in {found[1] or found[3]} by {found[2] or found[4]}"


def _named(found: re.Match[str], text: str) -> str:
    """`m in M by 128` for `M by 128`, where the line does not name the axis itself."""
    if text[: found.start()].rstrip().endswith(" in"):
        return found[0]
    return f"{found[1].lower()} in {found[1]} {found[2]}"


def kernel(text: str) -> str:
    """`def rows(x):` and `__global__ void rows(...)` as `kernel rows`."""
    text = re.sub(r"^(?:import|from)\b.*|^@.*", "", text)
    text = re.sub(rf"^(?:def|(?:__global__\s+)?void)\s+({_NAME})\s*\(.*$", r"kernel \1", text)
    text = re.sub(r"^(?:using|#include)\b.*", "", text)
    text = re.sub(r"^[})]+;?$", "", text)  # the end of a body, which its indentation shows
    text = re.sub(rf"^(?:fn|func|function|proc)\s+({_NAME})\s*(?:\([^()=]*\))?\s*[:{{]?$", r"kernel \1", text)
    text = re.sub(r"^kernel ([A-Za-z_][\w-]*)$", lambda m: "kernel " + m[1].replace("-", "_"), text)
    return re.sub(rf"^(kernel {_NAME})\s*(?:\(.*\))?\s*[:{{]?$", r"\1", text)


def tensor(text: str) -> str:
    """`global bf16 X[M, K]`, `X : bf16(M, K)`, `X : bf16[M][K]` as `X : bf16[M, K]`."""
    text = re.sub(rf"^(?:tensor|input|output|in|out|arg)\s+(?={_NAME}\s*[:\[])", "global ", text)
    text = re.sub(rf"^({_NAME}\s*:\s*{_NAME}\[[^\[\]]*\])$", r"global \1", text)
    if not text.startswith("global"):
        return text
    text = re.sub(rf"^global ({_NAME})\s*(\[[^\]]*\])\s*:\s*({_NAME})$", r"global \1 : \3\2", text)
    text = re.sub(rf"^global ({_NAME})\s*:\s*(\[[^\]]*\])\s*({_NAME})$", r"global \1 : \3\2", text)
    text = re.sub(rf"^global ({_NAME})\s*:\s*[Tt]ensor\[({_NAME}),\s*", r"global \1 : \2[", text)
    text = re.sub(r"(?<=[\[ ])(\w+) ?[x*×] ?(?=\w+[,\] ])", r"\1, ", text)
    text = re.sub(rf"^global ([a-z]\w*)\s*\*?\s+({_NAME})(?=\[)", r"global \2 : \1", text)
    text = re.sub(rf"^(global {_NAME})\s*(?:=|\s)\s*(?=[a-z])", r"\1 : ", text)
    text = re.sub(rf"^(global {_NAME} ?: ?\w+)\s*\(([^()]*)\)", r"\1[\2]", text)
    return text.replace("][", ", ")


def sizes(text: str) -> str:
    """`dims M = N = 256`, `dims M, N = 256, 512`, `dims M=256 N=512` as `dims M = 256, N = 512`."""
    text = re.sub(r"^(?=[A-Z]\w*, [A-Z].*=)", "dims ", text)
    if re.match(r"(dims|param)\b", text):
        chain = re.fullmatch(r"(dims|param) ((?:\w+ = )+)(\w+)", text)
        if chain is not None:
            return f"{chain[1]} " + ", ".join(f"{name} = {chain[3]}" for name in chain[2].split(" = ")[:-1])
        several = re.fullmatch(r"(dims|param) \(?([\w, ]+)\)? = \(?([\w, ]+)\)?", text)
        if several is not None and several[2].count(",") == several[3].count(",") > 0:
            pairs = zip(several[2].split(","), several[3].split(","), strict=True)
            return f"{several[1]} " + ", ".join(f"{name.strip()} = {size.strip()}" for name, size in pairs)
        text = re.sub(r"= (?:\?|-1|None|\*)(?=,|$)", "= dynamic", text)
        text = re.sub(rf"({_NAME})\s*(?::\s*|\s)(?=\d)", r"\1 = ", text).replace(";", ",")
        return re.sub(rf"(=\s*\w+)\s+(?={_NAME}\s*=)", r"\1, ", text)
    return text


def listed(text: str) -> str:
    """Commas between names, where they lack or are too many."""
    if re.match(r"(shared|registers|load|stream|target|allow)\b", text):
        text = re.sub(r"^shared (?:memory|mem)\b:? ?", "shared ", text)
        text = re.sub(r",? double[ -]buffered$", " buffers 2", text)
        text = re.sub(r"(?<=\w) (\d+) (?:buffers|stages)$", r" buffers \1", text)
        text = re.sub(r"(?:via )?(?:async|cp\.async|tma)$", "via direct", text)
        text = re.sub(r"\b(?:num_)?stages\b", "buffers", text)
        text = re.sub(r"\b(buffers|via|slice)\s*=\s*", r"\1 ", text)
        head = re.match(r"(?:(?!\b(?:buffers|via|slice|by)\b).)*", text)
        named = re.sub(r"(?<=\w)[ ,]+(?=\w)", ", ", head[0].rstrip(" ,")) if head else ""
        return named.replace(", ", " ", 1) + (" " + text[head.end() :] if head and head.end() < len(text) else "")
    return text


def statement(text: str) -> str:
    """First words that are called otherwise: `warps 4`, `waves = 4`, `store C[m, n] = c`."""
    found = re.match(rf"({_NAME})\b", text)
    if found is None:
        return text
    text = re.sub(rf"^const (?={_NAME} = \w+(?:,|$))", "dims ", text)
    text = _STATEMENT.get(found[1], found[1]) + text[found.end() :] if found[1] in _STATEMENT else text
    text = re.sub(r"^(waves|unroll|clusters|tail|grid|block|target)\s*[=:]\s*", r"\1 ", text)
    text = re.sub(r"^(?:tl\.)?store\((\w+(?:\[[^\]]*\])?),\s*(.+)\)$", r"\1 = \2", text)
    return re.sub(r"^store\s+(?=\w+\[.*=)", "", text)


# What is said of the rewrites of a kind of line, its first word, and the rewrites: patterns and what takes their place.
_CLAUSES: tuple[tuple[str, str, tuple[tuple[str, Any], ...]], ...] = (
    ("a block is `block 128 x 128 step 64`: rows, columns, and elements of K per step", "block|tile", (
        (r"^tile\b", "block"),
        (r"^block\s*[=:]\s*", "block "),
        (r"^block (\d+)x(\d+)x(\d+)$", r"block \1 x \2 step \3"),
        (r"(?<=\d)[X*](?=\d)", " x "),
        (r"^(block) \(?(\w+) ?[,*] ?(\w+)\)?", r"\1 \2 x \3"),
        (r"^(block \w+ x \w+)(?: x |, ?)(\w+)\)?$", r"\1 step \2"),
        (r"^(block \w+ x \w+)$", r"\1 step 64"),
    )),
    ("waves are counted `waves 8`, or arranged `waves 4 x 2`", "waves|warps|num_warps|warpgroups", (
        (r"^(?:warps|num_warps)\b", "waves"),
        (r"^warpgroups (\d+)$", lambda found: f"waves {4 * int(found[1])}"),
        (r"^waves\s*[=:]\s*", "waves "),
        (r"(?<=\d)[X*](?=\d)", " x "),
        (r"^(waves) \(?(\w+), ?(\w+)\)?$", r"\1 \2 x \3"),
        (r"^(waves \w+) (?:over|in|across) (?=\w+$)", r"\1 along "),
    )),
    ("a sum is declared `accumulate C : f32 tile 32 x 32`", "accumulate", (
        (r"^(accumulate \w+ : \w+) (?=\d)", r"\1 tile "),
        (r"^(accumulate \w+) \+?= (\w+) @ (\w+)$", r"\1 = \2 * \3 : f32"),
    )),
    ("the steps of an epilogue are joined by `|`: `epilogue bias(b) | relu`", "epilogue", (
        (r"\s*(?:\+|,|\|>|->)\s*(?=[a-z_]+(?:\(|$|\s))", " | "),
    )),
    ("`store C` stores the sum in the type of its tensor", "store", (
        (r"^(store \w+)(?:\[[^\]]*\]| as \w+| : \w+)$", r"\1"),
    )),
    ("a scalar has a type: `scalar alpha : f32 = 1.0`", "scalar", (
        (r"^scalar (\w+) = ", r"scalar \1 : f32 = "),
        (r"^scalar (?:f32|float) (\w+)", r"scalar \1 : f32"),
    )),
    ("a grid is `grid persistent(304)`, `grid split_k(4)` or `grid stream_k(304)`", "grid|split_?k|stream_?k", (
        (r"^(?:grid )?split_?k\s*[=(]?\s*(\d+)\)?$", r"grid split_k(\1)"),
        (r"^(?:grid )?stream_?k\s*[=(]?\s*(\d+)\)?$", r"grid stream_k(\1)"),
        (r"^(grid \w+) (\d+)$", r"\1(\2)"),
    )),
    ("an occupancy is `occupancy 2 waves per simd`", "occupancy", (
        (r"^occupancy (\d+)$", r"occupancy \1 waves per simd"),
    )),
    ("the arguments of a remap are in parentheses: `remap xcd(8)`", "remap", (
        (r"^(remap \w+) (\d+)$", r"\1(\2)"),
    )),
    ("a value that a loop carries is declared `carry m : f32[q] = -inf`", r"init|var|let|[a-z]\w*", (
        (r"^(?:init|var|let) (?=\w+ : f32\[)", "carry "),
        (r"^(\w+ : f32\[[^\]]*\] = )", r"carry \1"),
    )),
    ("`unroll 2` computes two K-steps in each iteration", "unroll", (
        (r"^unroll$", "unroll 2"),
    )),
)  # fmt: skip


def _rewritten(kind: str, rules: Sequence[tuple[str, Any]]) -> Callable[[str], str]:
    """The rewrite of the lines whose first word is of a kind."""

    def rewrite(text: str) -> str:
        if re.match(rf"(?:{kind})\b", text):
            for pattern, new in rules:
                text = re.sub(pattern, new, text)
        return text

    return rewrite


CLAUSES: tuple[tuple[str, Callable[[str], str]], ...] = tuple(
    (about, _rewritten(kind, rules)) for about, kind, rules in _CLAUSES
)
"""Rewrites of clauses, each with a sentence about how a clause is written."""
