"""Edits of shipped specs as one types, and the CPU time in which the language server's process analyses each.

The server answers a keystroke in two parts: completion, definitions and highlighting read the text at once.
Diagnostics, hints and hovers need the analysis that is timed here: the whole of `tkgen check` with its proof. It runs
in a separate process, which has analysed the spec before the edit and has not seen the edited one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from tkgen.lsp.analysis import Request, analyze
from tkgen.lsp.worker import Worker
from tkgen.source import SourceFile

SPECS = Path(__file__).parents[1] / "specs"
KINDS = ("comment", "unfinished line", "equation", "tile", "clause")
BAR = 0.1  # seconds
GIVEN_UP = 60.0  # seconds after which an analysis is stopped

Edit = tuple[str, str]  # the text that is replaced, by which
_STORE = ("    store C", "    epilogue relu\n    store C"), ("    store C", "    epilogue \n    store C")

# Of each kernel kind on each machine: an equation (or epilogue), an unfinished line, a tile, a clause of the schedule.
EDITS: dict[str, tuple[Edit, Edit, Edit, Edit]] = {
    "eight_wave": (
        ("  store C", "  epilogue relu\n  store C"), ("  store C", "  epilogue \n  store C"), ("step 64", "step 32"),
        ("registers A, B  buffers 2", "registers A, B  buffers 1"),
    ),
    "hk_half_tiles": (
        ("  store C", "  epilogue relu\n  store C"), ("copy B[k+2](0)\n", "copy B[k+\n"), ("N = 8192", "N = 4096"),
        ("wait vm 10", "wait vm 8"),
    ),
    "projection": (
        ("tanh(clamp", "relu(clamp"), ("H[m, n] = h\n", "H[m, n] = \n"), ("IN by 32", "IN by 64"),
        ("buffers 2", "buffers 1"),
    ),
    "low_precision/mxfp4": (
        ("C[m, n] = c", "C[m, n] = relu(c)"), ("C[m, n] = c", "C[m, n] = "), ("K by 256", "K by 128"),
        ("buffers 2 via direct", "buffers 1 via direct"),
    ),
    "attention/attention": (
        ("rowmax(s))", "rowmax(s) + 1)"), ("r = exp2(m - n)\n", "r = exp2(m - \n"), ("LENGTH by 64", "LENGTH by 32"),
        ("shared K, V  buffers 2", "shared K, V  buffers 1"),
    ),
    "attention/attention_paged": (
        ("rowmax(x))", "rowmax(x) + 1)"), ("r = exp2(m - n)\n", "r = exp2(m - \n"), ("by 32 part s", "by 64 part s"),
        ("shared K, V buffers 2", "shared K, V buffers 1"),
    ),
    "attention/attention_backward_causal": (
        ("gx = p * (gp", "gx = 2 * p * (gp"), ("@ GO[s, h, q]\n", "@ GO[s, h\n"), ("by 64 to q", "by 32 to q"),
        ("shared K, V buffers 2", "shared K, V buffers 1"),
    ),
    "rows/rmsnorm": (
        ("R[t] = x\n", "R[t] = x * 2\n"), ("R[t] = x\n", "R[t] = \n"), ("by 4", "by 8"), ("waves 4", "waves 8"),
    ),
    "rows/long_softmax": (
        ("exp(x - n))", "exp(x - n) * 2)"), ("x = X[r, j]\n", "x = X[r,\n"), ("r in ROWS by 4", "r in ROWS by 8"),
        ("waves 4", "waves 8"),
    ),
    "quantise/quantise_rmsnorm": (
        ("1e-12", "1e-10"), ("R[t] = x\n", "R[t] = \n"), ("by 4", "by 8"), ("waves 4", "waves 8"),
    ),
    "groups/moe": (
        ("silu(g) * u", "relu(g) * u"), ("silu(g) * u", "silu(g) *"), ("HIDDEN by 128", "HIDDEN by 64"),
        ("registers H, DOWN slice 32", "registers H, DOWN slice 16"),
    ),
    "sequences/split_k_gelu": (
        ("gelu(", "gelu_tanh("), ("S[p, m, n] = s", "S[p, m, n] ="), ("IN by 64", "IN by 32"),
        ("shared X, W buffers 2", "shared X, W buffers 1"),
    ),
    "hopper/h100_ping_pong": (*_STORE, ("COLUMNS = 128", "COLUMNS = 64"), ("STAGES = 6", "STAGES = 5")),
    "hopper/h100_cluster": (*_STORE, ("COLUMNS = 256", "COLUMNS = 128"), ("STAGES = 4", "STAGES = 3")),
    "hopper/h100_fp8_promoted": (
        ("c + s * p", "c + 2 * s * p"), ("C[m, n] = c", "C[m, n] = "), ("ROWS = 128", "ROWS = 64"),
        ("STAGES = 5", "STAGES = 4"),
    ),
    "hopper/h100_stream_k": (*_STORE, ("COLUMNS = 256", "COLUMNS = 128"), ("STAGES = 3", "STAGES = 2")),
    "hopper/h100_attention": (
        ("rowmax(s))", "rowmax(s) + 1)"), ("n = max(m, rowmax(s))\n", "n = max(m, rowmax(\n"),
        ("BLOCK = 128", "BLOCK = 64"), ("QUERIES = 128", "QUERIES = 192"),
    ),
    "hopper/h100_attention_causal": (
        ("rowmax(s))", "rowmax(s) + 1)"), ("n = max(m, rowmax(s))\n", "n = max(m, rowmax(\n"),
        ("BLOCK = 128", "BLOCK = 64"), ("QUERIES = 128", "QUERIES = 192"),
    ),
    "hopper/h100_rmsnorm": (
        ("R[t] = x\n", "R[t] = x * 2\n"), ("R[t] = x\n", "R[t] = \n"), ("TILE = 1", "TILE = 2"),
        ("WARPS = 4", "WARPS = 8"),
    ),
    "hopper/h100_grouped": (
        ("Y[m, n] = y", "Y[m, n] = relu(y)"), ("Y[m, n] = y", "Y[m, n] = "), ("COLUMNS = 256", "COLUMNS = 128"),
        ("STAGES = 4", "STAGES = 3"),
    ),
    "hopper/h100_split_k_gelu": (
        ("gelu(", "gelu_tanh("), ("S[m, n] = s", "S[m, n] ="), ("COLUMNS = 256", "COLUMNS = 128"),
        ("STAGES = 4", "STAGES = 3"),
    ),
}  # fmt: skip


def edited(spec: str) -> Iterator[str]:
    """The text of a spec after an edit of each of `KINDS`.

    Raises:
        ValueError: the spec has no such text.
    """
    text = (SPECS / f"{spec}.tk").read_text(encoding="utf-8")
    equation, unfinished, tile, clause = EDITS[spec]
    for old, new in (("\n", "\n# noted\n"), unfinished, equation, tile, clause):
        if old not in text:
            raise ValueError(f"{spec} has no `{old}`")
        yield text.replace(old, new, 1)


def analysed(request: Request) -> float:
    """Seconds of CPU time of an analysis in this process."""
    begin = time.process_time()
    analyze(request)
    return time.process_time() - begin


def times(spec: str, runs: int) -> list[float]:
    """The least CPU time of each of `KINDS`: each run has its own process, which has seen the spec itself."""
    path = SPECS / f"{spec}.tk"
    least = [float("inf")] * len(KINDS)
    for _ in range(runs):
        worker = Worker(GIVEN_UP)
        try:
            worker.run(analysed, Request(SourceFile(str(path), path.read_text(encoding="utf-8"))))
            found = [worker.run(analysed, Request(SourceFile(str(path), text))) for text in edited(spec)]
        finally:
            worker.close()
        least = list(map(min, least, found))
    return least
