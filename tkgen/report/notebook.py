"""Specs, builds, predictions and differences in a notebook, with the looks of the report.

A cell shows a page in a frame: its style does not reach the notebook, and it runs no script.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from markupsafe import Markup, escape

from tkgen.predict.prediction import Comparison, Prediction
from tkgen.predict.render import CLOCKS, rates, time_text, verdict
from tkgen.report.canvas import safe
from tkgen.report.diff import Diff, render_diff_html
from tkgen.report.facts import facts, headline
from tkgen.report.html import environment, style_sheet

HEIGHT = 420  # pixels of a frame, where the notebook does not fit it to its page
FIT = "this.style.height=this.contentDocument.documentElement.scrollHeight+4+'px'"


def html(shown: Any) -> str:
    """The markup of a cell: of a spec or build of any kind, a prediction, a comparison of two, or a difference."""
    if isinstance(shown, Diff):
        return framed(render_diff_html(shown), f"{shown.before} and {shown.after}")
    predictions: tuple[Prediction, ...] = ()
    said, kernels = "", []
    if isinstance(shown, Comparison):
        predictions, said = (shown.a, shown.b), verdict(shown)
        title = f"{shown.a.kernel} and {shown.b.kernel}"
    elif isinstance(shown, Prediction):
        predictions, title = (shown, *shown.kernels), shown.kernel
    else:
        kernels, title = [facts(kernel) for kernel in shown.kernels], getattr(shown, "spec", shown).name
    page = (
        environment()
        .get_template("cell.html.jinja")
        .render(
            title=title, kernels=kernels, headline=[headline(f) for f in kernels], predictions=predictions,
            verdict=said and f"{said[0].upper()}{said[1:]}.", numbers=numbers, css=Markup(style_sheet()),
        )
    )  # fmt: skip
    return framed(page, title)


def numbers(p: Prediction) -> Iterator[tuple[str, str, str]]:
    """The results of a prediction, each with its name, value and a remark."""
    rate, *others = rates(p)
    yield "Predicted, upper bound" if p.upper_bound else "Predicted", rate, ", ".join(others)
    yield "Time", time_text(p.seconds), f"{time_text(p.launch_seconds)} of it for the launch"
    yield "Limited by", p.limiter, ""
    if p.clock_mhz is not None:
        yield "Clock", f"{p.clock_mhz:.0f} MHz", CLOCKS.get(p.clock_limit, "")


def framed(page: str, title: str) -> str:
    """A page as a frame of a cell."""
    return (
        f'<iframe title="tkgen: {safe(title)}" srcdoc="{escape(page)}" sandbox="allow-same-origin" onload="{FIT}" '
        f'style="width:100%;height:{HEIGHT}px;border:0"></iframe>'
    )
