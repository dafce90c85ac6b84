"""Words and signs of Python, torch and CUDA that specs do not have, and what a spec says instead."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

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
    "cdiv": "ceil_div", "prefix_sum": "cumsum", "prefixsum": "cumsum", "inclusive_scan": "cumsum", "top_k": "topk",
    "sorted": "sort", "msort": "sort",
    "__float2bfloat16": "bf16", "__bfloat162float": "f32", "__float2half": "f16", "__half2float": "f32",
    "expf": "exp", "exp2f": "exp2", "logf": "log", "sqrtf": "sqrt", "rsqrtf": "rsqrt", "tanhf": "tanh",
    "reciprocal": "rcp", "logistic": "sigmoid", "swish": "silu", "fmaxf": "max", "fminf": "min", "fabsf": "abs",
    "__expf": "exp", "__logf": "log", "sinf": "sin", "cosf": "cos", "erff": "erf", "__frcp_rn": "rcp", "clip": "clamp",
    "floorf": "floor", "ceilf": "ceil", "rint": "round", "rintf": "round", "truncf": "trunc", "fix": "trunc",
    "power": "pow", "powf": "pow", "log1pf": "log1p", "expm1f": "expm1", "select": "where", **TYPES,
}  # fmt: skip
"""Functions by other names. Reductions of columns are called `col...`."""

SORTED = ("topk", "argtopk", "sort", "argsort", "argmax", "argmin")
"""Functions of elements in order, whose last argument may name the axis."""

SCANS = ("cumsum", "cumprod", "cummax", "cummin")
"""Functions whose dimension is the axis that their second argument names."""

WRITTEN_OUT: Mapping[tuple[str, int], str] = {
    ("square", 1): "({0} * {0})",
    ("relu6", 1): "clamp({0}, 0, 6)",
    ("hardswish", 1): "({0} * clamp({0} + 3, 0, 6) / 6)",
    ("hardsigmoid", 1): "(clamp({0} + 3, 0, 6) / 6)",
    ("hardtanh", 1): "clamp({0}, -1, 1)",
    ("leaky_relu", 1): "where({0} > 0, {0}, 0.01 * {0})",
    ("leaky_relu", 2): "where({0} > 0, {0}, {1} * {0})",
    ("elu", 1): "where({0} > 0, {0}, expm1({0}))",
    ("softplus", 1): "(max({0}, 0) + log1p(exp(-abs({0}))))",
    ("logsigmoid", 1): "(min({0}, 0) - log1p(exp(-abs({0}))))",
    ("mish", 1): "({0} * tanh(max({0}, 0) + log1p(exp(-abs({0})))))",
    ("softsign", 1): "({0} / (1 + abs({0})))",
    ("erfc", 1): "(1 - erf({0}))",
    ("sign", 1): "where({0} > 0, 1, where({0} < 0, -1, 0))",
    ("log10", 1): "(log({0}) * 0.4342944819)",
    ("exp10", 1): "exp2({0} * 3.3219280949)",
    ("tan", 1): "(sin({0}) / cos({0}))",
    ("sinh", 1): "((exp({0}) - exp(-{0})) / 2)",
    ("cosh", 1): "((exp({0}) + exp(-{0})) / 2)",
    ("frac", 1): "({0} - trunc({0}))",
    ("fma", 3): "({0} * {1} + {2})",
    ("masked_fill", 3): "where({1}, {2}, {0})",
    ("dot", 2): "{0} @ {1}",
    ("dot", 3): "({2} + {0} @ {1})",
    ("matmul", 2): "{0} @ {1}",
    ("mm", 2): "{0} @ {1}",
    ("bmm", 2): "{0} @ {1}",
}
"""Functions that specs lack, with their number of arguments, as expressions of these."""


def written_out(word: str, arguments: Sequence[str]) -> str | None:
    """The expression that a call of a function means which specs lack; None for others."""
    form = WRITTEN_OUT.get((word, len(arguments)))
    if form is None or max(map(len, arguments)) > 40:
        return None
    atoms = [a if re.fullmatch(r"[\w.]+(\[[^\[\]]*\]|\([^()]*\))?(\.T)?", a) else f"({a})" for a in arguments]
    made = form.format(*atoms)
    return re.sub(r"(?<=\(|,)( ?)\(([^()]*)\)(?=[,)])", r"\1\2", made)  # an argument needs no parentheses


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
    "logcumsumexp": "write it out: `n = rowmax(x)`, then `n + log(cumsum(exp(x - n)))`",
    **dict.fromkeys(
        ("scan", "associative_scan", "accumulate"),
        "scans are `cumsum(x)`, `cumprod`, `cummax` and `cummin`; others are a loop over positions, `each t in T`",
    ),
    "dropout": "write it out: `where(random(seed, t, coordinate(D)) < p, 0, x / (1 - p))`",
    "leaky_relu": "write it out: `where(x > 0, x, 0.01 * x)`",
    "elu": "write it out: `where(x > 0, x, exp(x) - 1)`",
    "softplus": "write it out: `max(x, 0) + log(1 + exp(-abs(x)))`",
    "mish": "write it out: `x * tanh(max(x, 0) + log(1 + exp(-abs(x))))`",
    "erfc": "write it out: `1 - erf(x)`",
    **dict.fromkeys(("log_sigmoid", "logsigmoid"), "write it out: `min(x, 0) - log1p(exp(-abs(x)))`"),
    **dict.fromkeys(("relu6", "hardtanh"), "write it out: `clamp(x, 0, 6)`"),
    **dict.fromkeys(("hardswish", "hardsigmoid"), "write it out: `x * clamp(x + 3, 0, 6) / 6`"),
    "sign": "write it out: `where(x > 0, 1, where(x < 0, -1, 0))`",
    "log10": "write it out: `log(x) * 0.4342944819`",
    "tan": "write it out: `sin(x) / cos(x)`",
    **dict.fromkeys(("sinh", "cosh"), "write it out with `exp(x)` and `exp(-x)`"),
    **dict.fromkeys(
        ("isnan", "isinf", "isfinite"),
        "there is no test for NaN; maxima and minima ignore it, and stores to integers give the least one",
    ),
    **dict.fromkeys(
        ("any", "all"),
        "the number of elements for which it holds is `rowsum(where(x > 0, 1, 0))`; for "
        "a whole tile `when any(x > 0)` with a body",
    ),
    **dict.fromkeys(
        ("kthvalue", "median", "quantile"),
        "the K-th largest of a row is `rowmin(topk(x, K))`, for K up to 64; for others see the cookbook on sampling",
    ),
    **dict.fromkeys(
        ("multinomial", "categorical"),
        "sample by the Gumbel trick: `argmax(x - log(-log(u)))` of logits and `u = random(seed, r, coordinate(D))`",
    ),
    **dict.fromkeys(("roll", "shift"), "an index may be shifted: `X[t - 1]`; outside of the tensor elements are zero"),
    "flip": "an index may run backwards: `X[T - 1 - t]`",
    **dict.fromkeys(("tril", "triu", "masked_fill", "mask"), "compare the axes: `where(q >= j, s, -inf)`"),
    **dict.fromkeys(("rand", "randn", "rand_like"), "`random(seed, t, coordinate(D))` is uniform in [0, 1)"),
    **dict.fromkeys(
        ("prod",),
        "reductions are `rowsum`, `rowmax`, `rowmin`, `rowmean` and the "
        "same with `col`; a product of positive numbers is `exp(rowsum(log(x)))`",
    ),
    **dict.fromkeys(
        ("quantize", "quantise"),
        "write it out: `scale = rowmax(abs(x)) / 127`, and store `x / scale` to a tensor of `i8`, which rounds",
    ),
    "cross_entropy": "write it out: `rowmax(x) + log(rowsum(exp(x - rowmax(x)))) - rowsum(where(TARGET[t] == "
    "coordinate(D), x, 0))`",
    **dict.fromkeys(
        ("einsum", "mm", "bmm", "addmm", "linear", "mma", "gemm"),
        "a matrix product is `A[m, k] @ B[n, k].T` in a loop `each k in K by 64`",
    ),
    **dict.fromkeys(
        ("conv1d", "conv"), "a convolution is a sum of shifted indices: `sum(X[t + i - 3, d] * W[i, d], i in 4)`"
    ),
    **dict.fromkeys(
        ("gather", "index_select", "take", "embedding"), "an index may come from an i32 tensor: `TABLE[ID[t]]`"
    ),
    **dict.fromkeys(
        ("scatter", "scatter_add", "index_add"),
        "rows may store to positions of an i32 tensor: `Y[ROW[m]] += x`, or `distinct Y[ROW[m]] = x`",
    ),
    **dict.fromkeys(
        ("cat", "concat", "stack", "split", "chunk"), "store to parts of a tensor: `Y[t, 0] = a`, then `Y[t, 1] = b`"
    ),
    **dict.fromkeys(
        ("program_id", "get_global_id"),
        "blocks have no number: `over m in M by 128` gives each its tile, and `m` is the position",
    ),
    **dict.fromkeys(
        ("reduce",),
        "reductions are `rowsum`, `rowmax`, `rowmin`, `rowmean`, and the same with `col`",
    ),
    "nan_to_num": "there is no test for NaN; `max(x, -3e38)` ignores it",
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
    "if": "element by element it is `y = where(x > 0, a, b)`; for whole tiles `when any(x > 0)` with a body; edges of "
    "tensors need no test, with `tail masked`",
    "elif": "nest `where`: `where(x > 0, a, where(x > -1, b, c))`",
    "else": "`where(x > 0, a, b)` has both branches",
    "for": "a loop over tiles is `each k in K by 64`; blocks run in parallel `over m in M by 128`; a few terms are "
    "`sum(x, w in WIDTH)`",
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
    **dict.fromkeys(
        ("buffers", "num_buffers", "stages", "num_stages", "pipeline"),
        "the number of buffers follows the operands: `shared A, B buffers 3`",
    ),
    **dict.fromkeys(
        ("blockDim", "num_threads", "threadIdx", "blockIdx"),
        "blocks and lanes have no numbers: `over m in "
        "M by 128` gives each block its tile, and `waves 4` says who computes it",
    ),
    **dict.fromkeys(
        ("atomicAdd", "atomic_add"),
        "blocks add by `T[q] += bf16(p) @ K[j]`; a sum over tiles is a loop, or `grid split_k(4)`",
    ),
    **dict.fromkeys(("fn", "func", "function", "class", "struct"), "a file has `kernel NAME`, and its equations below"),
    **dict.fromkeys(("using", "namespace", "include"), '`include "file.tk"` inserts the statements of another file'),
    **dict.fromkeys(("pass", "continue", "break"), "a body has equations only, and every iteration executes them all"),
    **dict.fromkeys(
        ("bias", "relu", "gelu", "silu", "activation"),
        "after the sum: `epilogue bias(b) | relu`, or in equations `C[m, n] = relu(c + b[n])`",
    ),
    **dict.fromkeys(
        ("dtype", "acc_dtype"),
        "types are written where tensors and sums are declared: `global C : f32[M, N]`, `accumulate C : f32`",
    ),
    "__shared__": "operands in LDS are named: `shared A, B buffers 2`",
    "alloc": "operands in LDS are named: `shared A, B buffers 2`",
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
    "LN2": "0.6931471805599453", "M_LN2": "0.6931471805599453", "M_LOG2E": "LOG2E", "log2e": "LOG2E",
}  # fmt: skip
"""Numbers by other names."""

NAMES: Mapping[str, str] = {
    **dict.fromkeys(("mask", "causal", "is_causal"), "a mask compares axes: `where(q >= j, s, -inf)`"),
    **dict.fromkeys(
        ("threadIdx", "blockIdx", "blockDim", "pid", "pid_m", "pid_n"),
        "blocks and lanes have no numbers: the name of an axis is the position on it",
    ),
    **dict.fromkeys(("NaN", "nan", "NAN"), "there is no NaN to write"),
    "None": "leave it out",
}
"""Advice for names that equations of other languages use."""

NO_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("double", "float64", "fp64", "f64", "tf32"), "the widest float is `f32`"),
    **dict.fromkeys(("i64", "int64", "long", "u32", "uint32", "i16", "int16", "short"), "indices and counts are `i32`"),
    **dict.fromkeys(("bool", "uint8", "u8", "byte"), "a mask is `i8`, with 0 and 1 (`mask.view(torch.int8)`)"),
    **dict.fromkeys(("Tensor", "tensor", "ptr", "void", "auto"), "write the type of an element: `bf16[M, K]`"),
}
"""Types that specs lack, and what takes their place."""

POWER = "a power is `pow(x, y)`; the square is `x * x`"
_LINES: tuple[tuple[str, str], ...] = (
    (r"carry \w+ *=", "a carried value has a type and axes: `carry m : f32[q] = -inf`"),
    (r"global \w+ *,", "a line declares one tensor: `global A : bf16[M, K]`"),
    (r"global \w+ *: *\w+ *(\*|$)", "the dimensions of a tensor follow its type: `global A : bf16[M, K]`"),
    (
        r"dims \w+ *(,|$)",
        "each dimension has a size: `dims M = 256`, or `dims M = dynamic` if only the launch knows it",
    ),
    (r"epilogue .*\*\*", "other formulas are a `function`: `function squared(x) = x * x`, then `| squared`"),
    (r"over \w+ *<", "`over m in M by 128`"),
    (r"kernel *$", "`kernel NAME`"),
)
"""Beginnings of lines that the grammar refuses, and what they lack."""
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
    line = text[text.rfind("\n", 0, start) + 1 : start].strip()
    around = text[max(0, start - 1) : start + 2]
    for pattern, note in _LINES:
        if re.match(pattern, line + text[start : text.find("\n", start)]):
            return (note,)
    for sign, note in _SIGNS:
        if sign in around:
            return (f"there is no `{sign}`: {note}",)
    if "einsum(" in line:
        return (ADVICE["einsum"],)
    if re.match(r"x\s+\w", text[start:]) and "=" in line:
        return ("tiles are multiplied by `@`, numbers by `*`",)
    if text[start] in "\"'":
        return ("quoted text is only for `include`",)
    if text[start] in ",=" and re.fullmatch(r"[ \t]*[\w, \t=]*", text[text.rfind("\n", 0, start) + 1 : start]):
        return ("a line defines one value: `x = ...`",)
    if text[start] == ":" and re.match(r":\s*,", text[start:]):
        return ("each index before the last has a name: `A[m, k]`, with `m` and `k` from `over` and `each`",)
    if text[start] == ":":
        return ("omit an index to select the complete dimension: `X[t]`, or name the dimension: `X[t, D]`",)
    if text[start] == "]" and text[start - 1] == "[":
        return ("without brackets a name is the complete tensor; the part for this tile is `X[t]`",)
    if text.startswith("if ", start):
        return ("a choice is `where(x > 0, a, b)`",)
    if re.search(r"\.to\(\w*$", text[:start]) or re.match(r"\.dtype\b", text[start:]):
        return ("a type is written by its name: `bf16(p)`; a store rounds to the type of its tensor by itself",)
    if text[start] == "." and re.search(r"\b(threadIdx|blockIdx|blockDim|gridDim)$", text[:start]):
        return (NAMES["threadIdx"],)
    if text[start] == "." and re.search(r"\b(torch|tl|np|numpy|math|F|jnp)$", text[:start]):
        return ("functions have no prefix: `exp(x)`",)
    return ()
