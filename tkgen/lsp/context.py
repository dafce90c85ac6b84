"""The kind of a NAME, from the tokens before it: a tensor, a size, a data type, the name of a remap, ..."""

from __future__ import annotations

from collections.abc import Sequence

from tkgen.lsp.outline import Piece

# What the NAME right behind a keyword is. `dims`, `param`, ... introduce a new name.
_AFTER = {
    "VIA": "via", "TAIL": "tail", "ALLOW": "allow", "TARGET": "target", "GRID": "grid", "REMAP": "remap",
    "EPILOGUE": "epilogue", "BARRIERS": "automatic", "WAITS": "automatic", "WAIT": "counter", "PRIORITY": "level",
    "SCHEDULE": "preset", "SHARED": "tensor", "REGISTERS": "tensor", "LOAD": "tensor", "STORE": "tensor",
    "STREAM": "tensor", "ACCUMULATE": "sum", "FETCH": "tensor", "WRITE": "tensor", "COPY": "tensor", "READ": "tensor",
    "TUNE": "size", "OVER": "new", "EACH": "new", "CARRY": "new", "TO": "axis", "PART": "axis", "ALONG": "axis",
    "WITHIN": "tensor",
    "DIMS": "new", "PARAM": "new", "GLOBAL": "new", "SCALAR": "new", "KERNEL": "new", "SEQUENCE": "new", "ROLE": "new",
}  # fmt: skip
_LISTS = {"TARGET", "ALLOW", "STREAM", "SHARED", "REGISTERS", "LOAD"}
_PIPES = {"REMAP": "remap", "EPILOGUE": "epilogue"}
_MOVES = {"FETCH", "WRITE", "LOAD", "COPY", "READ"}
_OPERATIONS = _MOVES | {"MULTIPLY", "COMPUTE", "WAIT", "BARRIER", "PRIORITY", "MIX"}
_ENDS_MOVE = {"NAME", "RSQB", "RPAR"}


def stands_for(before: Sequence[Piece]) -> str:
    """The role of a NAME after these tokens of its statement.

    A key of `words.CHOICES`, or `tensor`, `dimension`, `size`, `argument` (of a call), `sum`, `axis`, `index`, `value`
    (of an equation), `body` (of a function), `new` (a name being declared); empty where a keyword or nothing stands.
    """
    if not before:
        return ""
    first, last = before[0].type, before[-1].type
    if last == "FAST":
        return "fast"
    if first == "FUNCTION":
        ends = ("NAME", "INT", "FLOAT", "RPAR", "RSQB", "TRANSPOSED")
        return "new" if all(p.type != "EQUAL" for p in before) else "" if last in ends else "body"
    bracket = _open_bracket(before)
    if bracket is not None:
        return _in_bracket(before, bracket)
    if first in ("OVER", "EACH") and last in ("IN", "COMMA"):
        return "dimension" if last == "IN" else "new"
    if first in ("NAME", "CARRY") and last != "COLON":
        return _in_formula(before)
    if first in ("CLUSTER", "GROUP", "PROLOGUE", "DRAIN"):
        return _in_schedule(before)
    if last in _AFTER:
        return _AFTER[last]
    if last == "VBAR":
        return _PIPES.get(first, "")
    if last == "COLON":
        return "dtype"
    if last == "COMMA":
        if first in _LISTS or first == "ACCUMULATE":
            return _AFTER[first]
        return "size" if first == "TUNE" else "new" if first in ("DIMS", "PARAM") else ""
    if first == "ACCUMULATE":
        return _in_accumulate(before)
    if last in ("NAME", "INT", "FLOAT", "RPAR", "RSQB", "STRING", "SIMD", "WAVES", "WAVE", "PER") and not (
        last == "WAVES" and first in ("ROLE", "PHASE", "WAVES")
    ):
        return ""
    return "size"


def _in_formula(before: Sequence[Piece]) -> str:
    """After `=`, and after operators after it, a value; in `carry`, names come first and after each comma."""
    first, last = before[0].type, before[-1].type
    if first == "CARRY" and last in ("CARRY", "COMMA"):
        return "new"
    ends = ("NAME", "INT", "FLOAT", "RPAR", "RSQB", "TRANSPOSED")
    return "value" if last not in ends and any(p.type == "EQUAL" for p in before) else ""


def _open_bracket(before: Sequence[Piece]) -> int | None:
    """The index of the innermost bracket still open."""
    opened: list[int] = []
    for i, piece in enumerate(before):
        if piece.type in ("LPAR", "LSQB"):
            opened.append(i)
        elif piece.type in ("RPAR", "RSQB"):
            del opened[-1:]
    return opened[-1] if opened else None


def _in_bracket(before: Sequence[Piece], at: int) -> str:
    first, last = before[0].type, before[-1].type
    if last in ("NAME", "INT", "FLOAT", "RPAR"):
        return ""
    if first in ("NAME", "CARRY"):
        return "index" if before[at].type == "LSQB" else "value"
    if first in ("OVER", "EACH") and before[at].type == "LSQB":
        return "axis"  # of `within OFFSETS[g]`
    if first == "REFERENCE":
        return "argument"
    if before[at].type == "LSQB":
        return "dimension" if first == "GLOBAL" else "step" if at == len(before) - 1 else ""
    if first in ("CLUSTER", "GROUP", "PROLOGUE", "DRAIN"):
        return ""  # fragments and slices are plain numbers
    called = before[at - 1].type == "NAME"
    if called and last in ("LPAR", "COMMA") and first in ("REMAP", "EPILOGUE", "GRID"):
        return "argument"
    return "size"


def _in_schedule(before: Sequence[Piece]) -> str:
    last = before[-1].type
    if last in ("WAIT", "PRIORITY") or last in _MOVES:
        return _AFTER[last]
    if last in _ENDS_MOVE:
        operation = next((p.type for p in reversed(before) if p.type in _OPERATIONS), "")
        return "tensor" if operation in _MOVES else ""
    return ""


def _in_accumulate(before: Sequence[Piece]) -> str:
    last = before[-1].type
    types = [p.type for p in before]
    if "COLON" not in types:
        return "tensor" if last in ("EQUAL", "TIMES") else ""
    if last in ("TILE", "X", "MFMA"):
        return "size"
    complete = "X" in types and last in ("INT", "NAME", "RPAR") and "MFMA" not in types
    return "arrangement" if complete else "" if last in ("INT", "NAME", "RPAR") else "size"
