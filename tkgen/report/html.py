"""The report as one HTML file: no request leaves it, nothing of a spec is markup in it.

Text is escaped by Jinja2's autoescaping, control characters are shown as escapes, the embedded JSON holds no `<`. The
page's policy allows its own script by hash only, so that even a hole in all that would run nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from tkgen.diagnostics.text import escape
from tkgen.report import svg
from tkgen.report.canvas import HATCH, safe, style
from tkgen.report.facts import Facts, all_facts, facts, headline, loops
from tkgen.report.figures import Figure
from tkgen.report.hot_text import cells, headings, legend, said
from tkgen.report.texts import SpecLine
from tkgen.toolchain.files import write_atomic

if TYPE_CHECKING:
    from tkgen.backends import protocol

SECTIONS = (
    ("overview", "Overview"),
    ("source", "Spec, C++, ISA"),
    ("ownership", "Who owns what"),
    ("pipeline", "Pipeline"),
    ("prediction", "Prediction"),
    ("hot", "Hot lines"),
    ("dataflow", "Dataflow"),
    ("registers", "Registers"),
    ("lds", "LDS"),
    ("order", "Block order"),
    ("figures", "Figures"),
)


def sections(found: Facts) -> list[tuple[str, str]]:
    """The sections of which there are facts, shared memory called as the machine does."""
    memory = found.lds.memory[0].upper() + found.lds.memory[1:]
    absent = {"prediction", "hot"} if not found.prediction else set() if found.prediction.hot else {"hot"}
    return [(name, memory if name == "lds" else title) for name, title in SECTIONS if name not in absent]


KEY = (
    ("k k-load", "global load"),
    ("k k-write", "LDS write"),
    ("k k-read", "LDS read"),
    ("k k-multiply", "multiply"),
    ("k k-wait", "wait"),
    ("k k-zero", "zero, store"),
    ("line raw", "read after write"),
    ("line war", "write after read"),
    ("line waw", "write after write"),
)

TIME_KEY = (
    ("k t-multiply", "MFMA"),
    ("k t-vector", "vector"),
    ("k t-read", "LDS read"),
    ("k t-write", "LDS write"),
    ("k t-load", "global memory"),
    ("k t-wait", "waits for data"),
    ("k t-barrier", "waits at a barrier"),
    ("k starved", "matrix unit starved"),
)
SM_KEY = (
    ("k t-multiply", "WGMMA"),
    ("k t-vector", "other instructions"),
    ("k t-load", "copies and stores"),
    ("k t-wait", "waits"),
    ("k t-barrier", "waits at a barrier"),
    ("k starved", "tensor cores starved"),
)  # of pipelines that are modelled


def write_report(builds: Sequence[Any], path: Path, previous: Mapping[str, Mapping[str, Any]] | None = None) -> None:
    """Write the report of `builds`, each of one kernel, or of specs, to `path`, whole or not at all.

    `previous` holds the report.json of earlier builds by kernel name; their figures are shown beside the new ones.
    """
    earlier = previous or {}
    write_atomic(path, render_html([facts(b, previous=earlier.get(getattr(b, "spec", b).name)) for b in builds]))


def write_build(build: protocol.Build, path: Path, previous: Path) -> None:
    """Write the report of a build, without predictions, whole or not at all.

    `previous` is where the report.json of an earlier build may be.
    """
    write_atomic(path, render_html(all_facts(build, previous)))


def render_html(kernels: Sequence[Facts]) -> str:
    """The report of one or more kernels as HTML."""
    pictures = [svg.pictures(found) for found in kernels]
    script = _script(style("timeline.js") + style("report.js"))
    return (
        environment()
        .get_template("report.html.jinja")
        .render(
            title=f"tkgen report: {', '.join(f.kernel for f in kernels)}",
            kernels=kernels,
            sections=[sections(f) for f in kernels],
            key=KEY,
            time_key=TIME_KEY,
            sm_key=SM_KEY,
            headline=[headline(f) for f in kernels],
            memory=[dict(sections(f))["lds"] for f in kernels],
            looping=[loops(f) for f in kernels],
            longest=[_longest(f) for f in kernels],
            pictures=[{name: Markup(text) for name, text in p.items()} for p in pictures],
            rows=[_rows(k, f) for k, f in enumerate(kernels)],
            beside=_beside(kernels),
            css=Markup(style_sheet()),
            hatch=Markup(HATCH),
            data=embedded_json([_moving(f) for f in kernels]),
            script=script,
            policy=_policy(script),
        )
    )


@cache
def environment() -> jinja2.Environment:
    """The templates' environment: everything that is not Markup is escaped, control characters included."""
    env = jinja2.Environment(
        loader=jinja2.PackageLoader("tkgen.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: escape(value) if type(value) is str else value,
    )
    env.filters.update(groupby_order=_grouped)
    env.globals.update(hot_headings=headings, hot_cells=cells, hot_legend=legend, hot_said=said)
    return env


def embedded_json(data: object) -> Markup:
    """JSON for a script element: no `<`, `>` or `&` in it, so that no text can end the element or begin a comment."""
    text = json.dumps(data, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def style_sheet() -> str:
    """The report's CSS: light, dark where the system or the reader says so."""
    light = style("pictures.css") + style("report.css")
    dark = "".join(_declarations(style(name)) for name in ("pictures-dark.css", "report-dark.css"))
    system = f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{{dark}}} }}"
    return f"{light}{system}:root[data-theme=dark] {{{dark}}}"


def _declarations(sheet: str) -> str:
    """Return the text between the braces of a style sheet with one rule."""
    return sheet[sheet.index("{") + 1 : sheet.rindex("}")]


def _script(text: str) -> Markup:
    assert "</script" not in text
    return Markup(text)


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rest = "img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src 'sha256-{digest}'; {rest}"


def _moving(found: Facts) -> dict[str, Any]:
    """Collect the data that the script draws."""
    return {"order": _order(found), "time": _time(found)}


def _order(found: Facts) -> dict[str, Any]:
    """The order of the blocks."""
    order = found.order
    return {"cols": order.cols, "concurrent": order.concurrent, "sequence": order.sequence}


def _time(found: Facts) -> dict[str, Any] | None:
    """The timeline for the script: a bar is a list, its text a number; None without a prediction."""
    time = found.prediction.timeline if found.prediction else None
    if time is None:
        return None
    texts = {text: i for i, text in enumerate(dict.fromkeys(bar.text for bar in time.bars))}
    bars = [
        [b.track, b.kind, b.wave, round(b.start, 1), round(b.end, 1), texts[b.text], b.line, b.count, b.by]
        for b in time.bars
    ]
    plain = {
        "simds": time.simds,
        "waves": time.waves,
        "blocks": time.blocks,
        "roles": time.roles,
        "end": time.end,
        "names": time.names,
        "units": time.units,
        "places": time.places,
    }
    return plain | {"loop": time.loop, "passes": time.passes, "texts": list(texts), "bars": bars}


def _longest(found: Facts) -> dict[str, float] | None:
    """The most predicted cycles of a line and of an instruction; None without a prediction."""
    most = {
        name: max((line.cycles for line in lines if line.cycles), default=0.0)
        for name, lines in (("cpp", found.texts.cpp), ("isa", found.texts.isa))
    }
    return most if all(most.values()) else None


# ---------------------------------------------------------------- lines


def _rows(k: int, found: Facts) -> dict[str, Markup]:
    """The lines of the three texts of kernel `k`, made here as there are thousands of them."""
    texts, most = found.texts, _longest(found)
    spec = [
        _row(f"k{k}-spec-{n}", n, line.number, code_line(line.text, "#"), label=_included(line), spec=(n,))
        for n, line in enumerate(texts.spec, 1)
    ]
    cpp = [
        _row(
            f"k{k}-cpp-{n}", n, n, code_line(line.text, "//"), _bar(line.cycles, most, "cpp"), spec=line.spec, cpp=(n,)
        )
        for n, line in enumerate(texts.cpp, 1)
    ]
    isa = [
        _row(
            f"k{k}-isa-{n}", n, n, instruction_line(line.text, line.kind), _bar(line.cycles, most, "isa"), line.label,
            tuple(dict.fromkeys(row for cpp in line.cpp for row in texts.cpp[cpp - 1].spec)), line.cpp,
            " in-loop" * line.loop, line.kind,
        )
        for n, line in enumerate(texts.isa)
    ]  # fmt: skip
    return {"spec": Markup("\n".join(spec)), "cpp": Markup("\n".join(cpp)), "isa": Markup("\n".join(isa))}


def _row(
    name: str, n: int, number: int, code: str, bar: str = "", label: str = "", spec: Sequence[int] = (),
    cpp: Sequence[int] = (), look: str = "", kind: str = "",
) -> str:  # fmt: skip
    """One line: `code` and `bar` are markup, everything else is text or a number."""
    links = f' data-spec="{" ".join(map(str, spec))}"' if spec else ""
    links += f' data-cpp="{" ".join(map(str, cpp))}"' if cpp else ""
    links += f' data-kind="{kind}"' if kind else ""
    head = f'<b class="label">{safe(label)}</b>' if label else ""
    look += " block-start" if label else ""
    return (
        f'<div class="row{look}" role="option" aria-selected="false" id="{name}" data-n="{n}"{links}>'
        f"<i>{number}</i>{bar}<code>{head}{code}</code></div>"
    )


def _included(line: SpecLine) -> str:
    return f"{line.file}, included" if line.file and line.number == 1 else ""


def _bar(cycles: float | None, most: Mapping[str, float] | None, pane: str) -> str:
    """The predicted cycles of a line, with a bar behind them; nothing where nothing is predicted."""
    if most is None:
        return ""
    if cycles is None:
        return "<s></s>"
    return f'<s title="{cycles:.0f} cycles" style="--part:{cycles / most[pane]:.3f}">{cycles:.0f}</s>'


def code_line(line: str, sign: str) -> str:
    """A line as markup, with its comment, which begins with `sign` at the start of a word."""
    text = line.expandtabs(4)
    at = text.find(sign)
    while sign == "//" and at > 0 and not text[at - 1].isspace():
        at = text.find(sign, at + 1)
    return safe(text) if at < 0 else f'{safe(text[:at])}<span class="c">{safe(text[at:])}</span>'


def instruction_line(text: str, kind: str) -> str:
    """An instruction of a sort as markup."""
    mnemonic, space, operands = text.partition(" ")
    return f'<span class="m {kind.replace(" ", "-")}">{safe(mnemonic)}</span>{safe(space + operands)}'


# ---------------------------------------------------------------- tables


def _beside(kernels: Sequence[Facts]) -> list[tuple[str, list[tuple[str, bool]]]]:
    """Figures of all kernels in one table: (label, cells of (text, whether it is the best))."""
    figures: dict[str, Figure] = {}
    for found in kernels:
        for f in found.figures:
            figures.setdefault(f.key, f)
    rows = []
    for key, first in figures.items():
        values = [next((f.value for f in found.figures if f.key == key), None) for found in kernels]
        known = [v for v in values if v is not None]
        best = (max(known) if first.better > 0 else min(known)) if first.better and len(set(known)) > 1 else None
        rows.append((first.label, [("–" if v is None else first.show(v), v is not None and v == best) for v in values]))
    return rows


def _grouped(items: Iterable[Any], attribute: str) -> list[tuple[Any, list[Any]]]:
    """Items by an attribute, groups in the order of their first item."""
    groups: dict[Any, list[Any]] = {}
    for item in items:
        groups.setdefault(getattr(item, attribute), []).append(item)
    return list(groups.items())
