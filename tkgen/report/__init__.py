"""Reports of a build: one model of facts, shown as one HTML file, in the terminal, as SVG, and as a comparison.

>>> from tkgen.report import write_report
>>> write_report([tkgen.load("specs/eight_wave.tk").check().build()], Path("report.html"))
"""

from tkgen.report.canvas import standalone
from tkgen.report.diff import Diff, diff, render_diff, render_diff_html
from tkgen.report.facts import Facts, all_facts, facts, to_json
from tkgen.report.html import render_html, write_build, write_report
from tkgen.report.prediction import Prediction, prediction
from tkgen.report.svg import pictures
from tkgen.report.terminal import print_facts, render_terminal

__all__ = [
    "Diff",
    "Facts",
    "Prediction",
    "all_facts",
    "diff",
    "facts",
    "pictures",
    "prediction",
    "print_facts",
    "render_diff",
    "render_diff_html",
    "render_html",
    "render_terminal",
    "standalone",
    "to_json",
    "write_build",
    "write_report",
]
