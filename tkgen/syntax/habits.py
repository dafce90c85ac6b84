"""Words and signs of Python, torch and CUDA that specs do not have, and what a spec says instead."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tkgen.diagnostics import Diagnostic, Edit, Fix, Label
from tkgen.source import SourceFile, Span

TYPES: Mapping[str, str] = {
    "bfloat16": "bf16", "__nv_bfloat16": "bf16", "float16": "f16", "fp16": "f16", "half": "f16", "float32": "f32",
    "fp32": "f32", "float": "f32", "float8_e4m3fn": "e4m3fn", "float8_e4m3fnuz": "e4m3fnuz", "float8_e5m2": "e5m2",
    "float8_e5m2fnuz": "e5m2fnuz", "float8_e8m0fnu": "e8m0", "int8": "i8", "int4": "i4", "uint4": "u4",
    "int32": "i32", "int": "i32",
}  # fmt: skip
"""Element types by other names."""

FUNCTIONS: Mapping[str, str] = {
    "sum": "rowsum", "mean": "rowmean", "amax": "rowmax", "amin": "rowmin",
    "maximum": "max", "minimum": "min", "fmax": "max", "fmin": "min", "absolute": "abs", "fabs": "abs",
    "expf": "exp", "exp2f": "exp2", "logf": "log", "sqrtf": "sqrt", "rsqrtf": "rsqrt", "tanhf": "tanh",
    "reciprocal": "rcp", "logistic": "sigmoid", "swish": "silu", "fmaxf": "max", "fminf": "min", "fabsf": "abs",
    "__expf": "exp", "__logf": "log", "sinf": "sin", "cosf": "cos", "erff": "erf", "__frcp_rn": "rcp", "clip": "clamp",
    "floorf": "floor", "ceilf": "ceil", "rint": "round", "rintf": "round", "truncf": "trunc", "fix": "trunc",
    "power": "pow", "powf": "pow", "log1pf": "log1p", "expm1f": "expm1", "select": "where", **TYPES,
}  # fmt: skip
"""Functions by other names. Reductions of columns are called `col...`."""

ADVICE: Mapping[str, str] = {
    "softmax": "write it out: `e = exp(x - rowmax(x))`, then `e / rowsum(e)`",
    "log_softmax": "write it out: `z = x - rowmax(x)`, then `z - log(rowsum(exp(z)))`",
    "layer_norm": "write it out: `d = x - rowmean(x)`, then `d * rsqrt(rowmean(d * d) + 1e-5)`",
    "rms_norm": "write it out: `x * rsqrt(rowmean(x * x) + 1e-6)`",
    "dot": "a matrix product is `A[m, k] @ B[n, k].T` in a loop `each k in K by 64`",
    "matmul": "a matrix product is `A[m, k] @ B[n, k].T` in a loop `each k in K by 64`",
    **dict.fromkeys(("mod", "fmod", "fmodf", "remainder"), "write `a % b`: the remainder, with the sign of `b`"),
    "square": "write `x * x`",
    "transpose": "`K[j].T` swaps the two axes of an operand",
    "arange": "the name of an axis is the position on it; for a complete dimension write `coordinate(D)`",
    "zeros_like": "a constant is just a number: `0`; the start value of a loop is `carry c : f32[m, n] = 0`",
    "full": "a constant is just a number: `0`; the start value of a loop is `carry c : f32[m, n] = 0`",
    "layernorm": "write it out: `d = x - rowmean(x)`, then `d * rsqrt(rowmean(d * d) + 1e-5)`",
    "rmsnorm": "write it out: `x * rsqrt(rowmean(x * x) + 1e-6)`",
    "norm": "write it out: `sqrt(rowsum(x * x))`",
    "var": "write it out: `d = x - rowmean(x)`, then `rowmean(d * d)`",
    "std": "write it out: `d = x - rowmean(x)`, then `sqrt(rowmean(d * d))`",
    "logsumexp": "write it out: `n = rowmax(x)`, then `n + log(rowsum(exp(x - n)))`",
    "argmax": "reductions return values, not positions; the last position of the maximum is `rowmax(where(x == "
    "rowmax(x), coordinate(D), 0))`",
    "cumsum": "there are no prefix sums; `rowsum(x)` is the sum of a row",
    "dropout": "write it out: `where(random(seed, t, coordinate(D)) < p, 0, x / (1 - p))`",
    "leaky_relu": "write it out: `where(x > 0, x, 0.01 * x)`",
    "elu": "write it out: `where(x > 0, x, exp(x) - 1)`",
    "softplus": "write it out: `max(x, 0) + log(1 + exp(-abs(x)))`",
    "mish": "write it out: `x * tanh(max(x, 0) + log(1 + exp(-abs(x))))`",
    "erfc": "write it out: `1 - erf(x)`",
    "len": "the length of a dimension is its name, `D`; the length of a group, or one known only at run time, is "
    "`length(j)`",
    "load": "a tile is read by its indices: `X[m, k]`",
    "store": "a store is an equation: `C[m, n] = c`",
    "atomic_add": "blocks add by `T[q] += bf16(p) @ K[j]`; a sum over tiles is a loop, or `grid split_k(4)`",
    "zeros": "a constant is just a number: `0`; the start value of a loop is `carry c : f32[m, n] = 0`",
    "range": "a loop over tiles is `each k in K by 64`",
}
"""Advice for functions that specs lack."""

STATEMENTS: Mapping[str, str] = {
    "if": "element by element it is `y = where(x > 0, a, b)`; for whole tiles `when any(x > 0)` with a body",
    "elif": "nest `where`: `where(x > 0, a, where(x > -1, b, c))`",
    "else": "`where(x > 0, a, b)` has both branches",
    "for": "a loop over tiles is `each k in K by 64`; blocks run in parallel `over m in M by 128`",
    "while": "loops run over a dimension: `each k in K by 64`, also `each j in KEYS by 64 to q`",
    "def": "a file has `kernel NAME`, and its equations below",
    "return": "a result is stored: `C[m, n] = c`",
    "import": '`include "file.tk"` inserts the statements of another file',
    "from": '`include "file.tk"` inserts the statements of another file',
    "threads": "give the number of waves, of 64 threads each on AMD GPUs: `waves 4`",
    "__syncthreads": "barriers are derived and proven; in a written schedule `barrier`",
    "assert": "sizes are checked by tkgen and by the generated host code",
    "printf": "`tkgen check --print-after equations` shows what a kernel computes",
    "template": "sizes are `dims` and `param`, which `-D NAME=VALUE` overrides",
    "print": "`tkgen check --print-after equations` shows what a kernel computes",
}
"""First words of statements elsewhere, and the statement of a spec in their place."""

OPENERS: Mapping[str, str] = {
    "for": "each", "while": "each", "if": "when", "elif": "when", "else": "when", "def": "kernel",
    "__global__": "kernel",
}  # fmt: skip
"""First words of statements elsewhere that a body follows, and the word that opens it in a spec."""

CONSTANTS: Mapping[str, str] = {
    "True": "1", "False": "0", "true": "1", "false": "0", "INFINITY": "inf", "infinity": "inf", "Inf": "inf",
    "pi": "3.141592653589793", "M_PI": "3.141592653589793",
}  # fmt: skip
"""Numbers by other names."""

POWER = "a power is `pow(x, y)`; the square is `x * x`"
_AUGMENTED = re.compile(r"[ \t]*([-+*/])=[ \t]*(?=\S)")
_SIGNS: tuple[tuple[str, str], ...] = (
    ("**", POWER),
    ("//", "division is `/`; an index may be divided, too: `K[h / 4]`"),
    ("&&", "it is `and`"),
    ("||", "it is `or`"),
    ("<<", "multiply by a power of two"),
    (">>", "multiply by a power of two"),
)


def augmented(file: SourceFile, word: Span, end: int) -> Diagnostic | None:
    """E101 for `c += x`, whose first word is `word`; `end` is where the statement ends."""
    found = _AUGMENTED.match(file.text, word.end, end)
    if found is None:
        return None
    sign, name = found[1], word.text
    value = file.text[found.end() : end].split("#")[0].rstrip()
    simple = re.fullmatch(r"[\w.]+(\[[^\]]*\])?", value) or (sign == "+" and "\n" not in value)
    edits = [Edit(Span(file, found.start(), found.end()), f" = {name} {sign} {'' if simple else '('}")]
    if not simple:
        last = found.end() + len(value)
        edits.append(Edit(Span(file, last, last), ")"))
    message = (
        "`+=` is for stores that blocks add to, such as `C[m, n] += c`" if sign == "+" else f"there is no `{sign}=`"
    )
    return Diagnostic(
        "E101",
        message,
        Label(Span(file, found.start(1), found.start(1) + 2), f"`{name}` is a value"),
        fix=Fix(f"write `{name} = {name} {sign} ...`", tuple(edits)),
    )


def advice(file: SourceFile, start: int) -> tuple[str, ...]:
    """Notes for an unexpected character or word at `start`, where it is a habit from elsewhere."""
    text = file.text
    around = text[max(0, start - 1) : start + 2]
    for sign, note in _SIGNS:
        if sign in around:
            return (f"there is no `{sign}`: {note}",)
    if text[start] in "\"'":
        return ("quoted text is only for `include`",)
    if text[start] in ",=" and re.fullmatch(r"[ \t]*[\w, \t=]*", text[text.rfind("\n", 0, start) + 1 : start]):
        return ("a line defines one value: `x = ...`",)
    if text[start] == ":":
        return ("omit an index to select the complete dimension: `X[t]`, or name the dimension: `X[t, D]`",)
    if text.startswith("if ", start):
        return ("a choice is `where(x > 0, a, b)`",)
    if text[start] == "." and re.search(r"\b(torch|tl|np|numpy|math|F|jnp)$", text[:start]):
        return ("functions have no prefix: `exp(x)`",)
    return ()
