"""The choice and order of candidates: all of them, or those that the sampler of Optuna chooses.

Both ask a `Session` for results and return when they have enough; the session remembers every trial.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tkgen.packages import install_line
from tkgen.tune import evaluate
from tkgen.tune.errors import MissingPackage
from tkgen.tune.evaluate import Setting
from tkgen.tune.journal import Journal
from tkgen.tune.space import Candidate, Space
from tkgen.tune.trial import Status, Trial

if TYPE_CHECKING:
    import optuna

ASKS_PER_TRIAL = 30  # of the sampler, whose choices are often rejected or known


@dataclass
class Session:
    """A running search: where tasks go, what is known, whom to tell. `best` fastest candidates are wanted."""

    setting: Setting
    pool: Executor
    jobs: int
    journal: Journal
    best: int
    told: Callable[[Trial], None]
    running: dict[Future[Trial], Candidate] = field(default_factory=dict)

    def start(self, task: Callable[[Setting, Candidate], Trial], candidate: Candidate) -> None:
        """Hand a task to the pool."""
        self.running[self.pool.submit(task, self.setting, candidate)] = candidate

    def finished(self) -> list[Trial]:
        """Wait for at least one running task."""
        done, _ = wait(self.running, return_when=FIRST_COMPLETED)
        for future in done:
            del self.running[future]
        return [future.result() for future in done]

    def keep(self, trial: Trial) -> None:
        """Remember a result."""
        self.journal.add(trial)
        self.told(trial)

    @property
    def predicted(self) -> list[Trial]:
        """Trials with a prediction, fastest first."""
        found = [t for t in self.journal.trials.values() if t.status is Status.PREDICTED]
        return sorted(found, key=lambda t: (t.rank, t.candidate))

    @property
    def cutoff(self) -> float:
        """Seconds of the slowest of the `best` fastest: what a candidate must beat to matter."""
        known = [t.seconds for t in self.journal.trials.values() if t.seconds is not None]
        return heapq.nsmallest(self.best, known)[-1] if len(known) >= self.best else float("inf")


def exhaustive(session: Session, space: Space) -> None:
    """Every candidate: all are checked, then compiled and predicted in the order of their lower bounds.

    One whose bound is slower than the `best` fastest predictions cannot be among them and is not compiled.
    """
    known = session.journal.trials
    todo = deque(c for c in space if c not in known or known[c].status is Status.BOUNDED)
    legal: list[Trial] = []
    while todo or session.running:
        while todo and len(session.running) < 4 * session.jobs:
            session.start(evaluate.check, todo.popleft())
        for trial in session.finished():
            if trial.status is Status.REJECTED:
                session.keep(trial)
            else:
                legal.append(trial)
    waiting = deque(sorted(legal, key=lambda t: (t.bound_seconds, t.candidate)))
    while waiting or session.running:
        while waiting and len(session.running) < session.jobs:
            trial = waiting.popleft()
            if trial.bound_seconds >= session.cutoff:
                session.keep(trial)
            else:
                session.start(evaluate.measure, trial.candidate)
        for trial in session.finished() if session.running else ():
            session.keep(trial)


def sampled(session: Session, space: Space, trials: int, study: optuna.Study) -> None:
    """`trials` predictions of candidates that Optuna's tree-structured Parzen estimator chooses."""
    from optuna.trial import TrialState, create_trial

    def tell(ask: optuna.trial.Trial, trial: Trial) -> None:
        if trial.seconds is None:
            study.tell(ask, state=TrialState.PRUNED)
        else:
            study.tell(ask, trial.seconds)

    for trial in session.journal.trials.values():
        params, distributions = _parameters(space, trial.candidate)
        state = TrialState.PRUNED if trial.seconds is None else TrialState.COMPLETE
        study.add_trial(create_trial(params=params, distributions=distributions, value=trial.seconds, state=state))
    asked: dict[Candidate, list[optuna.trial.Trial]] = {}
    budget = ASKS_PER_TRIAL * trials
    while True:
        enough = len(session.predicted) + len(session.running) >= trials or budget <= 0
        if not enough and len(session.running) < session.jobs:
            budget -= 1
            ask = study.ask()
            candidate = _suggested(space, ask)
            if candidate in session.journal.trials:
                tell(ask, session.journal.trials[candidate])
            elif candidate in asked:
                asked[candidate].append(ask)
            else:
                asked[candidate] = [ask]
                session.start(evaluate.measure, candidate)
            continue
        if not session.running:
            return
        for trial in session.finished():
            session.keep(trial)
            for ask in asked.pop(trial.candidate):
                tell(ask, trial)


def study(seed: int) -> optuna.Study:
    """Return a study that chooses among candidates. Raises MissingPackage where Optuna is not installed."""
    try:
        import optuna
    except ImportError:
        raise MissingPackage(
            "there are more candidates than trials, and choosing among them needs Optuna: "
            f"{install_line('tune')} (or raise --trials to try them all)"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    return optuna.create_study(sampler=sampler, direction="minimize")


def _axes(space: Space, index: int) -> dict[str, tuple[int, ...]]:
    """The axes of a variant by the names the sampler knows them under."""
    return {f"{index}.{name}": values for name, values in space.variants[index].axes.items()}


def _suggested(space: Space, ask: optuna.trial.Trial) -> Candidate:
    index = ask.suggest_categorical("variant", range(len(space.variants))) if len(space.variants) > 1 else 0
    variant = space.variants[index]
    chosen = [ask.suggest_categorical(name, values) for name, values in _axes(space, index).items()]
    return Candidate(str(variant.path), tuple(zip(variant.axes, chosen, strict=True)))


def _parameters(space: Space, candidate: Candidate) -> tuple[dict[str, Any], dict[str, Any]]:
    """A known candidate as the sampler would have asked for it."""
    from optuna.distributions import CategoricalDistribution

    index = next(i for i, v in enumerate(space.variants) if str(v.path) == candidate.spec)
    values = dict(candidate.values)
    params: dict[str, Any] = {f"{index}.{name}": values[name] for name in space.variants[index].axes}
    distributions: dict[str, Any] = {n: CategoricalDistribution(v) for n, v in _axes(space, index).items()}
    if len(space.variants) > 1:
        params["variant"] = index
        distributions["variant"] = CategoricalDistribution(range(len(space.variants)))
    return params, distributions
