"""Statements as Python, torch, Triton, CUDA and C++ write them, rewritten until they are statements of a spec.

`RULES` are rewrites of a statement's text, each with a sentence about what it changes. They are tried where the grammar
refuses a statement; what they make of it is offered only if the grammar takes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tkgen.syntax import foreign_clauses
from tkgen.syntax.habits import FUNCTIONS, POWER, SCANS, SORTED, TYPES, written_out

Rewrite = Callable[[str], str]

_NAME = r"[A-Za-z_]\w*"
_OPEN, _CLOSE = "([", ")]"
_MODULES = (
    r"torch\.nn\.functional|torch\.special|torch|nn\.functional|triton\.language|tl\.math|tl|np|numpy|math|jnp|"
    r"jax\.nn|jax\.numpy|libdevice|std|F"
)
_NO_CALL = frozenset({"and", "or", "not", "if", "else", "in", "is"})
_KEYWORDS = frozenset({
    "dim", "axis", "keepdim", "keepdims", "dtype", "approximate", "inplace", "out", "min", "max", "k", "largest",
    "sorted", "stable", "descending", "return_indices", "tie_break_left",
})  # fmt: skip
_CASTS = {"float": "f32", "half": "f16", "bfloat16": "bf16", "int": "i32"}
_DROPPED = frozenset({
    "contiguous", "clone", "detach", "cuda", "item", "unsqueeze", "squeeze", "expand", "view", "reshape", "expand_as",
    "broadcast_to",
})  # fmt: skip
_REDUCED = {"sum": "sum", "mean": "mean", "amax": "max", "amin": "min", "max": "max", "min": "min"}


@dataclass(frozen=True)
class Rule:
    """A rewrite of what specs write otherwise; `about` says in a sentence how."""

    about: str
    rewrite: Rewrite


@dataclass(frozen=True)
class Translation:
    """A statement that the grammar takes, in place of one that it does not, and a sentence for each habit in it."""

    text: str
    about: tuple[str, ...]


def translated(text: str, parses: Callable[[str], bool]) -> Translation | None:
    """The statement as specs write it; None where the rules do not make one that `parses`.

    One rule is enough where it can be.
    """
    if "#" in text:
        return None
    for rule in RULES:
        new = rule.rewrite(text)
        if new != text and parses(new):
            return Translation(_named(new), (rule.about,))
    about: list[str] = []
    for rule in (*RULES, *RULES):  # what one rule makes another may take
        new = rule.rewrite(text)
        if new != text:
            text = new
            about += [rule.about]
            if parses(text):
                return Translation(_named(text), tuple(dict.fromkeys(about)))
    return None


def _named(text: str) -> str:
    """The functions and types of a statement by their names here."""
    text = re.sub(rf"\b({_NAME})(?=\()", lambda m: FUNCTIONS.get(m[1], m[1]), text)
    for found in re.finditer(rf"\b({_NAME})\(", text):
        end = _closing(text, found.end() - 1)
        made = written_out(found[1], _split(text[found.end() : end])) if end > 0 else None
        if made is not None:
            alone = text[: found.start()].endswith("= ") and end == len(text) - 1 and made[0] == "("
            return _named(text[: found.start()] + (made[1:-1] if alone else made) + text[end + 1 :])
    return re.sub(rf"(?<=:)(\s*)({_NAME})(?=\[)", lambda m: m[1] + TYPES.get(m[2], m[2]), text)


# ---------------------------------------------------------------- helpers


def _sub(pattern: str, new: str | Callable[[re.Match[str]], str], flags: int = 0) -> Rewrite:
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.sub(new, text)


def _closing(text: str, start: int) -> int:
    """The offset of the bracket that closes the one at `start`; -1 where none does."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in _OPEN) - (text[at] in _CLOSE)
        if depth == 0:
            return at
    return -1


def _atom_start(text: str, end: int) -> int:
    """The start of the operand that ends at `end`: a name, with indices or arguments, or a term in parentheses."""
    at = end
    while at and text[at - 1] in _CLOSE:
        depth, at = 1, at - 1
        while at and depth:
            at -= 1
            depth += (text[at] in _CLOSE) - (text[at] in _OPEN)
    while at and (text[at - 1].isalnum() or text[at - 1] in "_."):
        at -= 1
    return at


def _segment(text: str, at: int) -> tuple[int, int]:
    """The expression around `at`: up to the commas and brackets around it, or to the `=` of the statement."""
    depth, start = 0, at
    while start:
        before = text[start - 1]
        depth += (before in _CLOSE) - (before in _OPEN)
        lone = before == "=" and text[start - 2 : start - 1] not in ("=", "<", ">", "!") and text[start] != "="
        if depth < 0 or (depth == 0 and (before == "," or lone)):
            break
        start -= 1
    depth, end = 0, at
    while end < len(text):
        depth += (text[end] in _OPEN) - (text[end] in _CLOSE)
        if depth < 0 or (depth == 0 and text[end] == ","):
            break
        end += 1
    while start < end and text[start].isspace():
        start += 1
    return start, end


def _split(text: str) -> list[str]:
    """The arguments in a text, separated by commas."""
    parts, depth, last = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in _OPEN) - (character in _CLOSE)
        if character == "," and depth == 0:
            parts.append(text[last:at].strip())
            last = at + 1
    return [*parts, text[last:].strip()] if text.strip() else []


# ---------------------------------------------------------------- rewrites


def _comment(text: str) -> str:
    """`x = y  // load it`: a comment, where it does not look like a division."""
    found = re.search(r"(?:^|\s)//\s*\S+(?:\s+\S+)+\s*$|\s{2,}//.*$|^//.*$|/\*.*\*/\s*$", text)
    if found is None:
        return text
    at = found.start() + (len(found[0]) - len(found[0].lstrip()))
    return text[:at] + "# " + re.sub(r"^(//|/\*)\s*|\s*\*/\s*$", "", text[at:])


def _methods(text: str) -> str:
    """All methods of a chain: `x.pow(2).mean(-1)`."""
    for _ in range(8):
        text, before = _method(text), text
        if text == before:
            break
    return text


def _method(text: str) -> str:
    """`x.sum(-1)` as `sum(x, -1)`; `x.to(bf16)` as `bf16(x)`; what a method does that specs do by axes is left out."""
    found = re.search(rf"(?<=[\w\])])(?<!\b(?:tl|np))(?<!\btorch)(?<!\bF)\.({_NAME})\(", text)
    if found is None or (end := _closing(text, found.end() - 1)) < 0:
        return text
    start, arguments, word = _atom_start(text, found.start()), text[found.end() : end], found[1]
    operand = text[start : found.start()]
    if word in ("t", "transpose", "permute", "swapaxes"):
        made = f"{operand}.T"
    elif word in _DROPPED:
        made = operand
    elif word in ("to", "type", "astype", "type_as") and ".dtype" in arguments:
        stored = re.match(rf"({_NAME})\[[^\]]*\] *= *", text)
        whole = stored is not None and (stored.end(), end) == (start, len(text) - 1)
        if not (whole and arguments.strip() == f"{stored[1]}.dtype"):  # type: ignore[index]
            return text  # a type of its own: which one, its tensor says
        made = operand
    elif word in ("to", "type", "astype", "type_as"):
        made = f"{FUNCTIONS.get(arguments.strip(), arguments.strip())}({operand})"
    elif word in _CASTS and not arguments:
        made = f"{_CASTS[word]}({operand})"
    else:
        made = f"{word}({', '.join([operand, *_split(arguments)])})"
        if word in SORTED and "=" not in arguments:
            made = _in_order(word, [operand, *_split(arguments)], {})
        if word in _REDUCED and (word not in ("max", "min") or "," not in made or "=" in made or "-1" in made):
            made = _reduced(word, [operand, *_split(arguments)])
    return text[:start] + made + text[end + 1 :]


def _reduced(word: str, arguments: list[str]) -> str:
    """`sum(x, dim=-1)` as `rowsum(x)`, and as `colsum(x)` along dimension 0."""
    rest = [a.replace(" ", "") for a in arguments[1:]]
    along = "col" if any(a in ("0", "dim=0", "axis=0", "-2", "dim=-2", "axis=-2") for a in rest) else "row"
    return f"{along}{_REDUCED[word]}({arguments[0]})"


def _prefix(text: str) -> str:
    """`tl.exp(x)` as `exp(x)`, `torch.max(s, 1)` as `rowmax(s)`."""
    for found in re.finditer(r"\b(?:torch|tl)\.(max|min|sum|mean|amax|amin)\(", text):
        end = _closing(text, found.end() - 1)
        arguments = _split(text[found.end() : end]) if end > 0 else []
        if len(arguments) == 1 or (len(arguments) == 2 and re.fullmatch(r"-?\d", arguments[1])):
            text = text[: found.start()] + _reduced(found[1], arguments) + text[end + 1 :]
            return _prefix(text)
    return re.sub(rf"\b(?:{_MODULES})(?:\.|::)(?!T\b)(?=[A-Za-z_])", "", text)


def _cast(text: str) -> str:
    """`(float)c`, `static_cast<float>(c)` and `c as f32` as `f32(c)`."""
    kinds = "|".join([*_CASTS, *TYPES, *TYPES.values(), "__nv_bfloat16", "__half"])
    text = re.sub(rf"\b(?:static|reinterpret)_cast<\s*({kinds})\s*>\(", lambda m: f"{_type(m[1])}(", text)
    text = re.sub(
        rf"\(({kinds})\)\s*({_NAME}(?:\[[^\]]*\])?|\([^()]*\))",
        lambda m: f"{_type(m[1])}({m[2].strip('()')})", text,
    )  # fmt: skip
    return re.sub(
        rf"({_NAME}(?:\[[^\]]*\])?|\([^()]*\))\s+as\s+({kinds})\b",
        lambda m: f"{_type(m[2])}({m[1].strip('()')})", text,
    )  # fmt: skip


def _type(word: str) -> str:
    return TYPES.get(word, word)


def _absolute(text: str) -> str:
    """`|x|` as `abs(x)`."""
    return re.sub(r"(?<=[=(*+,/-])(\s*)\|([^|]+)\|", r"\1abs(\2)", text)


def _keywords(text: str) -> str:
    """Arguments by keyword: the dimension of a reduction, the ends of `clamp`; others are left out."""
    for found in re.finditer(rf"\b({_NAME})\(", text):
        end = _closing(text, found.end() - 1)
        arguments = _split(text[found.end() : end]) if end > 0 else []
        named = {m[1]: m[2] for a in arguments if (m := re.fullmatch(rf"({_NAME})\s*=(?!=)\s*(.+)", a))}
        plain = [a for a in arguments if not re.match(rf"{_NAME}\s*=(?!=)", a)]
        word = found[1]
        numbered = word in ("sum", "mean", "amax", "amin") and len(plain) == 2 and re.fullmatch(r"-?\d", plain[1])
        if not plain or not (named or numbered) or not named.keys() <= _KEYWORDS:
            continue
        if word in _REDUCED:
            made = _reduced(word, arguments)
        elif word in ("clamp", "clip") and len(plain) == 1 and named.keys() <= {"min", "max"}:
            low, high = named.get("min"), named.get("max")
            made = f"clamp({plain[0]}, {low}, {high})" if low and high else f"max({plain[0]}, {low})"
            made = made if low else f"min({plain[0]}, {high})"
        elif word in SCANS and len(plain) == 1 and (along := named.get("dim", named.get("axis"))) is not None:
            made = f"{word}({plain[0]}{'' if along == '-1' else f', {along}'})"
        elif word in SORTED:
            made = _in_order(word, plain, named)
        elif word == "gelu" and "tanh" in named.get("approximate", ""):
            made = f"gelu_tanh({plain[0]})"
        else:
            made = f"{word}({', '.join(plain)})"
        return text[: found.start()] + made + text[end + 1 :]
    return text


def _in_order(word: str, plain: list[str], named: dict[str, str]) -> str:
    """`topk(x, k=8, dim=-1)` as `topk(x, 8)`; of the smallest ones the negated largest of what is negated."""
    operand, *rest = plain
    rest = [*([named["k"]] if "k" in named else []), *rest]
    count, rest = (rest[:1], rest[1:]) if word.endswith("topk") else ([], rest)
    rest = ["descending" if a == "True" else a for a in rest]
    along = [a for a in (*rest, named.get("dim", ""), named.get("axis", "")) if a not in ("", "-1", "False")]
    if named.get("descending") == "True":
        along.append("descending")
    least = named.get("largest") == "False"
    sign, negated = "-" if least and word == "topk" else "", "-" if least else ""
    return f"{sign}{word}({', '.join([negated + operand, *count, *along])})"


def _positions(text: str) -> str:
    """`topk(x, 8).indices` as `argtopk(x, 8)`, `topk(x, 8).values` as `topk(x, 8)`."""
    found = re.search(r"\b(topk|sort|rowmax|rowmin)\(", text)
    end = _closing(text, found.end() - 1) if found else -1
    part = re.match(r"\.(values|indices)\b|\[([01])\]", text[end + 1 :]) if end > 0 else None
    if found is None or part is None:
        return text
    call = text[found.start() : end + 1]
    if "indices" in part[0] or "1" in part[0]:
        call = f"arg{call.removeprefix('row')}"
    return text[: found.start()] + call + text[end + 1 + part.end() :]


def _power(text: str) -> str:
    """`x ** 2` as `(x * x)`, `x ** 0.5` as `sqrt(x)`."""
    found = re.search(r"\s*(?:\*\*|\^)\s*(-?[\d.]+|\(1 ?/ ?2\))", text)
    if found is None:
        return text
    start = _atom_start(text, found.start())
    base, exponent = text[start : found.start()], found[1]
    if not base or len(base) > 40:
        return text
    if base.isdecimal() and exponent.isdecimal() and int(exponent) < 64:
        return text[:start] + str(int(base) ** int(exponent)) + text[found.end() :]
    named = {"0.5": "sqrt", "(1/2)": "sqrt", "-0.5": "rsqrt", "-1": "rcp"}.get(exponent.replace(" ", ""))
    bare = base[1:-1] if base.startswith("(") and _closing(base, 0) == len(base) - 1 else base
    if named:
        made = f"{named}({bare})"
    elif exponent in ("2", "3", "4", "2.0"):
        made = "(" + " * ".join([base] * int(exponent[0])) + ")"
    else:
        made = f"pow({bare}, {exponent})"
    return text[:start] + made + text[found.end() :]


def _choice(text: str) -> str:
    """`c ? a : b` and `a if c else b` as `where(c, a, b)`."""
    found = re.search(r"\?|\bif\b", text)
    if found is None or text.lstrip().startswith("if"):
        return text
    start, end = _segment(text, found.start())
    whole = text[start:end]
    made = re.fullmatch(r"(?P<c>.+?)\s*\?\s*(?P<a>.+?)\s*:\s*(?P<b>.+)", whole) or re.fullmatch(
        r"(?P<a>.+?)\s+if\s+(?P<c>.+?)\s+else\s+(?P<b>.+)", whole
    )
    return text if made is None else f"{text[:start]}where({made['c']}, {made['a']}, {made['b']}){text[end:]}"


def _chain(text: str) -> str:
    """`0 < x < n` as `0 < x and x < n`."""
    atom, sign = r"[\w.]+(?:\[[^\]]*\]|\([^()]*\))?", r"\s*(?:<=?|>=?|==)\s*"
    return re.sub(rf"({atom}{sign})({atom})({sign}{atom})", r"\1\2 and \2\3", text, count=1)


def _slices(text: str) -> str:
    """`X[t, :]` as `X[t]`, `x[:, None]` as `x`: axes have names, and what is not named is all of it."""

    def index(found: re.Match[str]) -> str:
        parts = [p for p in _split(found[1]) if p not in ("None", "newaxis", "...", "..")]
        parts = [":" if re.fullmatch(r"0?\s*:\s*[A-Z]\w*", p) else p for p in parts]  # `0:D`, all of it
        parts = [re.sub(r"^(\w+)\s*:\s*\1\s*\+\s*\w+$", r"\1", p) for p in parts]  # `m:m + 128`, the tile of `m`
        while parts and parts[-1] == ":":
            parts.pop()
        return f"[{', '.join(parts)}]" if parts else ""

    return re.sub(r"\[([^\[\]]*)\]", lambda m: index(m) if re.search(r":|None|newaxis|\.\.\.", m[1]) else m[0], text)


def _declared(text: str) -> str:
    """`float x = e`, `x : f32 = e`, `x := e`, `x <- e`, `x == e` as `x = e`."""
    text = re.sub(rf"^(?:(?:let|const|auto|var|val|static|constexpr|mut|{'|'.join(_CASTS)}|double|f32|bf16|fp32)\s+)+"
                  rf"(?={_NAME}\s*(?:=|\[|:))", "", text)  # fmt: skip
    text = re.sub(rf"^({_NAME})\s*:\s*{_NAME}\s*=(?!=)", r"\1 =", text)
    return re.sub(rf"^({_NAME}(?:\[[^\]]*\])?)\s*(?::=|<-|==)\s*", r"\1 = ", text)


def _stored(text: str) -> str:
    """`C(m, n) = c` and `C[m][n] = c` as `C[m, n] = c`."""
    text = re.sub(rf"^({_NAME})\(([^()]*)\)\s*=(?!=)", r"\1[\2] =", text)
    text = re.sub(rf"^({_NAME}\[[^\]]*\])\s*([-*/])=\s*(.+)$", r"\1 = \1 \2 (\3)", text)
    text = re.sub(r"(\w+)\.T\[(\w+), ?(\w+)\]", r"\1[\3, \2].T", text)
    return re.sub(rf"({_NAME}\[[^\[\]]*)\]\[", r"\1, ", text)


def _applied(text: str) -> str:
    """`relu c` as `relu(c)`."""
    if not re.match(rf"{_NAME}(\[[^\]]*\])?\s*=", text):
        return text
    return re.sub(
        rf"(?<=[=(,*/+-]) *({_NAME}) ({_NAME}(?:\[[^\]]*\])?)(?!\s*\()",
        lambda m: m[0] if {m[1], m[2]} & _NO_CALL else f" {m[1]}({m[2]})", text, count=1,
    )  # fmt: skip


def _number(text: str) -> str:
    """`1e-5f`, `1.`, `.5`, `0x10`, `1_000` as specs write numbers."""
    text = re.sub(r"(?<![\w.])0[xX]([0-9a-fA-F]+)\b", lambda m: str(int(m[1], 16)), text)
    text = re.sub(r"(?<![\w.])\d+(?:_\d+)+\b", lambda m: m[0].replace("_", ""), text)
    text = re.sub(r"(?<![\w.])((?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)(?:[fFlLhHuU]+)\b", r"\1", text)
    text = re.sub(r"(?<![\w.\])])\.(?=\d)", "0.", text)
    return re.sub(r"(?<![\w.])(\d+)\.(?![\d.])", r"\1.0", text)


def _unicode(text: str) -> str:
    signs = str.maketrans({"×": "*", "·": "*", "∗": "*", "⋅": "*", "−": "-", "–": "-", "÷": "/", "≤": "<=", "≥": ">=",
                           "≠": "!=", "∧": " and ", "∨": " or ", "¬": "not ", "∞": "inf", "ᵀ": ".T"})  # fmt: skip
    return text.translate(signs)


def _compared(text: str) -> str:
    """`===`, `is`, `<>`, and `=` in a condition."""
    text = re.sub(r"<>|\bis not\b", "!=", re.sub(r"===|\bis\b(?! not)", "==", text))
    return re.sub(r"\b(where|any)\(([^=<>!,()]+?)\s*=\s*(?!=)", r"\1(\2 == ", text)


def _equation(rewrite: Rewrite) -> Rewrite:
    """A rewrite for equations, not for lines such as `remap xcd(8) | group(rows = 4)` and `waves 4x2`."""
    other = r"(remap|epilogue|cluster|group|prologue|drain|block|waves|accumulate|store)\b(?!\s*=)"
    return lambda text: text if re.match(other, text) else rewrite(text)


RULES: tuple[Rule, ...] = tuple(Rule(about, rewrite) for about, rewrite in (
    ("a comment starts with `#`", _comment),
    ("a statement ends with its line, without `;`, `:` or `,`", _sub(r"\s*[;:{,]+\s*$", "")),
    ("use ASCII characters for operators", _unicode),
    ("functions and types have no prefix: `exp(x)`, `bf16`",
     _prefix),
    ("infinity is `inf`", _sub(r"\bfloat\(\s*['\"]([+-]?)inf(?:inity)?['\"]\s*\)", r"\1inf")),
    ("a number is written `2`, `0.5` or `1e-5`", _number),
    ("the largest elements are `topk(x, K)`, and their positions `argtopk(x, K)`; in order `sort(x)` and `argsort(x)`",
     _positions),
    ("functions come before their arguments: `rowsum(x)`, `exp(x)`", _methods),
    ("functions have no keyword arguments; reductions are over the last axis, `rowsum(x)`, or the first, `colsum(x)`",
     _keywords),
    ("omit an index to select the complete dimension: `X[t]`; values broadcast by the names of their axes", _slices),
    ("a choice is `where(x > 0, a, b)`", _equation(_choice)),
    ("a type converts like a function: `f32(x)`", _equation(_cast)),
    ("the magnitude is `abs(x)`", _equation(_absolute)),
    ("there is no `&&`: it is `and`", _equation(_sub(r"\s*&&?\s*", " and "))),
    ("there is no `||`: it is `or`", _equation(_sub(r"\s*\|\|?\s*", " or "))),
    ("there is no `!`: it is `not`", _equation(_sub(r"!(?!=)\s*|~\s*", "not "))),
    ("a comparison is one of `== != < <= > >=`", _equation(_compared)),
    ("comparisons are joined by `and`: `0 < x and x < n`", _equation(_chain)),
    (f"there is no `**`: {POWER}", _equation(_power)),
    ("`K[j].T` swaps the two axes of an operand",
     _equation(_sub(r"\^(?:T\b|\{T\}|⊤)|\.mT\b|\.t\b(?!\()|'(?=\s|$)", ".T"))),
    ("there is no `//`: division is `/`; an index may be divided, too: `K[h / 4]`",
     lambda text: text if re.match(r"(over|each|for)\b", text) else text.replace("//", "/")),
    ("the arguments of a function are in parentheses", _equation(_applied)),
    ("a product has a sign: `2 * x`",
     _equation(_sub(r"(?<![\w.])(\d+(?:\.\d+)?)(?=(?!e[+-]?\d)[A-Za-z_])", r"\1 * "))),
    ("a value is defined by `x = ...`, without a type", _declared),
    ("all indices are in one pair of brackets, and a store starts with its tensor: `C[m, n] = c`", _stored),
    ("a loop over tiles is `each k in K by 64`; blocks run in parallel `over m in M by 128, n in N by 128`",
     foreign_clauses.loop),
    ("a file starts with `kernel NAME`, and tensors are declared by `global`", foreign_clauses.kernel),
    ("a tensor is declared `global X : bf16[M, K]`", foreign_clauses.tensor),
    ("dimensions are declared `dims M = 256, N = dynamic`", foreign_clauses.sizes),
    ("names are separated by commas and followed by their options: `shared A, B buffers 2`", foreign_clauses.listed),
    *foreign_clauses.CLAUSES,
    ("a clause is its word and a value: `waves 4`", foreign_clauses.statement),
))  # fmt: skip
"""Rewrites in the order in which they are tried."""


def changed(old: str, new: str) -> tuple[int, int, str]:
    """The start and end in `old` of what `new` changes, and the text in its place, in whole words."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    while start and (old[start - 1].isalnum() or old[start - 1] in "_."):
        start -= 1
    while end and (old[len(old) - end].isalnum() or old[len(old) - end] in "_."):
        end -= 1
    return start, len(old) - end, new[start : len(new) - end]
