"""The report in the terminal: complete, coloured on a terminal, plain elsewhere, safe with hostile names."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from report_specs import spec_of
from rich.console import Console

from tkgen.build import Build
from tkgen.predict.prediction import Part
from tkgen.report import Facts, Prediction, render_terminal
from tkgen.report.figures import Figure
from tkgen.report.terminal import bar, print_facts


def printed(found: Facts, width: int = 120, terminal: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system="auto", _environ={"TERM": "xterm"})
    print_facts(found, console)
    return out.getvalue()


def test_every_part_is_there(eight_wave: Build) -> None:
    out = io.StringIO()
    render_terminal(eight_wave, Console(file=out, width=120))
    text = out.getvalue()
    titles = (
        "eight_wave for gfx942",
        "Who owns what",
        "Pipeline",
        "Waits",
        "Dependencies",
        "Registers",
        "LDS",
        "Block order",
    )
    for title in (*titles, "One iteration of the main loop", "Figures"):
        assert f"\n{title}\n" in text
    assert "w3 (0, 1)" in text
    assert f"VGPRs per lane {eight_wave.resources.vgpr:>19}".split() in [line.split() for line in text.splitlines()]


def test_plain_text_is_ascii_and_has_no_escapes(eight_wave_facts: Facts) -> None:
    text = printed(replace(eight_wave_facts, problem=replace(eight_wave_facts.problem, product="C = A B")))
    assert text.isascii() and "\x1b" not in text
    assert "#" * 10 in text


def test_a_terminal_gets_colours(eight_wave_facts: Facts) -> None:
    text = printed(eight_wave_facts, terminal=True)
    assert "\x1b[" in text and "█" in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_fit(eight_wave_facts: Facts, width: int) -> None:
    assert max(map(len, printed(eight_wave_facts, width).splitlines())) <= width


def test_lanes_of_a_phase_shift(ping_pong: Facts) -> None:
    text = printed(ping_pong, 200)
    assert "waves 4..7 phase 1" in text
    assert "fetch A[k+1]*" in text  # the next pass, on the waves that run ahead


def test_uncompiled_specs_have_no_figures() -> None:
    out = io.StringIO()
    render_terminal(spec_of("producer_consumer_4p4c"), Console(file=out, width=120))
    text = out.getvalue()
    assert ", estimated," in text and "\nFigures\n" not in text
    assert "4 producer waves need about" in text


def test_predictions_and_previous_figures(eight_wave_facts: Facts) -> None:
    before = tuple(replace(f, value=f.value + 4) for f in eight_wave_facts.figures if f.key == "resources.vgpr")
    figure = Figure("cycles", "cycles per K-step", 512, "", -1, "Predicted")
    parts = (Part("multiplying", 256, 0.5), Part("LDS", None, 0.25, lost=True))
    said = Prediction(
        "a model", (figure,), limiter="LDS", parts=parts, changes=(("no LDS", 1.25),), notes=("only a guess",)
    )
    text = printed(replace(eight_wave_facts, previous=before, prediction=said))
    assert "previous build" in text and str(int(before[0].value)) in text
    for words in ("by a model", "512", "limited by LDS", "lost to LDS", "25.0%", "no LDS", "1.25", "only a guess"):
        assert words in text


def test_names_are_no_markup_and_no_control_sequences(eight_wave_facts: Facts) -> None:
    text = printed(replace(eight_wave_facts, kernel="[red]x[/red]\x1b[2J"))
    assert "[red]x[/red]\\x1b[2J for gfx942" in text


def test_bars_grow_with_the_value() -> None:
    assert bar(0, 10, True) == "" and bar(1, 10**6, True) == "#"
    assert len(bar(5, 10, True)) == 16 and len(bar(10, 10, True)) == 32
    assert bar(10, 10, False) == "█" * 32
