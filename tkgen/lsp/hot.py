"""Predictions of each line of a buffer, on demand: the spec is compiled for it, which takes seconds.

>>> found = predict_lines(Request(SourceFile("/specs/a.tk", text)))
>>> found.sentences, found.lines[0].short
(("`tanh` in line 9 is 86% of the vector instructions",), "86% of vector, 16,360 cycles, 18 registers")
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tkgen.diagnostics import SpecError
from tkgen.lsp.analysis import Request
from tkgen.targets.model import UnknownTargetError
from tkgen.toolchain.compiler import ToolchainError

COMMAND = "tkgen.predictLines"
SHOWN = 0.005  # lines below this share have no hint


@dataclass(frozen=True)
class LineText:
    """Line `line` of the buffer: its numbers in a few words, and all of them."""

    line: int
    short: str
    long: str


@dataclass(frozen=True)
class Predicted:
    """The lines of a buffer with the text `text`, a sentence for each kernel, or the reason why there are none."""

    text: str
    lines: tuple[LineText, ...] = ()
    sentences: tuple[str, ...] = ()
    reason: str = ""


def predict_lines(request: Request) -> Predicted:
    """Build a buffer and predict its lines. Its includes are read as they are on disk."""
    try:
        return _predicted(request)
    except SpecError as error:
        return Predicted(request.file.text, reason=error.diagnostics[0].message)
    except (ToolchainError, UnknownTargetError, ValueError, ModuleNotFoundError) as error:
        return Predicted(request.file.text, reason=str(error))


def _predicted(request: Request) -> Predicted:
    from tkgen.api import load
    from tkgen.predict import PredictError, models, predicted
    from tkgen.report.hot import Hot, hot_kernels
    from tkgen.report.prediction import assumed_sizes
    from tkgen.tune.cheaper import with_cheaper

    file, roots = request.file, tuple(map(Path, request.include_roots))
    try:
        spec = load(Path(file.name), None, request.target, roots, text=file.text).check()
        build = spec.build().check()
        sizes = {name: size for kernel in build.kernels for name, size in assumed_sizes(kernel).items()}
        known = models(build, sizes)
        whole = predicted(build, known, sizes, what_if=False)
        each = whole.kernels or (whole,)
        found = with_cheaper(spec, hot_kernels(build, known, each), [p.seconds for p in each], None, sizes, None, roots)
    except PredictError as error:
        return Predicted(file.text, reason=str(error))

    def lines(hot: Hot) -> Iterator[LineText]:
        of = f" of {hot.kernel}" if len(found) > 1 else ""
        for x in hot.lines:
            if x.file or not x.line or max(x.vector_share, x.time or 0.0) < SHOWN > x.registers / hot.total.registers:
                continue
            cycles = [f"{x.cycles:,.0f} cycles of a {hot.step}"] if x.cycles is not None and hot.step else []
            short = [f"{x.vector_share:.0%} of vector", *(c.partition(" of a ")[0] for c in cycles)]
            long = [f"{x.instructions:,} instructions", f"{x.vector_share:.1%} of the vector instructions{of}"]
            long += [f"{x.time:.1%} of the time"] if x.time is not None else []
            regs = f"{x.registers} registers"
            yield LineText(x.line, ", ".join([*short, regs]), ", ".join([*long, *cycles, f"{regs} at the peak"]))

    texts = tuple(line for hot in found for line in lines(hot))
    of = [f"{hot.kernel}: " if len(found) > 1 else "" for hot in found]
    return Predicted(file.text, texts, tuple(f"{o}{h.sentence}" for o, h in zip(of, found, strict=True) if h.sentence))
