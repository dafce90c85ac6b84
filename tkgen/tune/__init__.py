"""Search the settings of a spec for the fastest kernel.

    from tkgen.tune import Request, tune
    outcome = tune(Request(specs=(Path("specs/tunable.tk"),), sizes={"M": 1024, "N": 1024, "K": 1024}, trials=32))
    outcome.winner.values, outcome.winner.tflops

`space` reads the `tune` clauses, `evaluate` checks, predicts, verifies and times one candidate, `search` chooses which
come next, `executor` where they run, `journal` keeps what is known across a kill, `engine` puts it together; `measured`
does without predictions; `winner` writes the best one as a spec, `offers` what to tune in specs that say nothing of it,
`plot` and `render` show the rest.
"""

from tkgen.tune.engine import Outcome, Progress, Request, tune
from tkgen.tune.errors import MissingPackage, NothingFits, TuneError
from tkgen.tune.offers import offered
from tkgen.tune.plot import pareto, pareto_svg, pareto_text
from tkgen.tune.render import render_terminal
from tkgen.tune.space import Candidate, Space
from tkgen.tune.trial import Status, Trial

__all__ = [
    "Candidate",
    "MissingPackage",
    "NothingFits",
    "Outcome",
    "Progress",
    "Request",
    "Space",
    "Status",
    "Trial",
    "TuneError",
    "offered",
    "pareto",
    "pareto_svg",
    "pareto_text",
    "render_terminal",
    "tune",
]
