"""The report of a sequence: its kernels in order, each as if it stood alone, and which is how much of the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tkgen.report import Facts, Prediction, RowFacts, facts, previous_report, render_html, row_facts
from tkgen.report.diff import Several
from tkgen.report.figures import Figure
from tkgen.rows.build import RowBuild
from tkgen.toolchain.files import write_atomic

if TYPE_CHECKING:
    from tkgen.sequence.build import SequenceBuild


def sequence_facts(
    build: SequenceBuild, previous: Path, predictions: Sequence[Prediction | None] = (), product: str | None = None
) -> list[Facts | RowFacts]:
    """The facts of each kernel; `previous` is where the report.json of an earlier build may be.

    Raises:
        UnknownTargetError: the target has no such product.
    """
    known = [*predictions, *[None] * (len(build.kernels) - len(predictions))]
    total = None if None in known else sum(_time(p) for p in known if p)
    found = []
    for number, (kernel, prediction) in enumerate(zip(build.kernels, known, strict=True), 1):
        before, name = previous_report(previous, kernel.spec.name), f"{build.spec.name}/{kernel.spec.name}"
        says = f"Kernel {number} of {len(known)} of the sequence {build.spec.name}"
        if prediction is not None and total:
            share = round(100 * _time(prediction) / total, 1)
            says += f", {share:g} % of the {total:.3g} ms that all are predicted to take"
            figure = Figure("predict.share", "of the sequence", share, "%", 0, "Prediction")
            prediction = replace(prediction, figures=(*prediction.figures, figure))
        made: Facts | RowFacts
        if isinstance(kernel, RowBuild):
            made = row_facts(kernel, prediction, before)
        else:
            made = facts(kernel, prediction, before, product=product)
        found.append(replace(made, kernel=name, header="\n".join([f"{says}.", made.header]).rstrip("\n")))
    return found


def _time(prediction: Prediction) -> float:
    """The predicted time in ms."""
    return next(f.value for f in prediction.figures if f.key == "predict.time")


def to_compare(build: SequenceBuild) -> Several:
    """What `tkgen.report.diff` takes of a sequence."""
    texts = {"spec": build.spec.program.kernels[0].spans["kernel"].file.text, "C++": build.spec.text}
    return Several(build.spec.name, build.kernels, texts)


def write_sequence_build(build: SequenceBuild, path: Path, previous: Path) -> None:
    """Write the report of a build to `path`, without predictions, whole or not at all."""
    write_atomic(path, render_html(sequence_facts(build, previous)))
