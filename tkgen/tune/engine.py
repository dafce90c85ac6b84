"""A whole search: space, search, verification, timing, and the outputs in a folder."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path

from tkgen import __version__
from tkgen.api import DEFAULT_TARGET, target_of
from tkgen.backends.registry import backend_of
from tkgen.diagnostics import SpecError
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.types import Dim, Program
from tkgen.sequence.program import SequenceProgram
from tkgen.syntax import ast, statements
from tkgen.syntax.parser import parse_spec, spec_paths
from tkgen.syntax.statements import flatten
from tkgen.toolchain.compiler import ToolchainError
from tkgen.toolchain.files import write_atomic
from tkgen.tune import evaluate, measured
from tkgen.tune.errors import NothingFits, TuneError
from tkgen.tune.evaluate import Setting
from tkgen.tune.executor import EXECUTORS, executor
from tkgen.tune.journal import Journal
from tkgen.tune.plot import pareto_svg
from tkgen.tune.search import Session, exhaustive, sampled, study
from tkgen.tune.space import Space
from tkgen.tune.trial import Status, Trial
from tkgen.tune.winner import winner_text


@dataclass(frozen=True)
class Request:
    """The space and the limits of a search.

    `sizes` sets dimensions, static or dynamic; `defines` are `-D` values, `ranges` replace `tune` clauses. At most
    `trials` candidates are compiled, the `best` fastest verified; `directory` gets the journal, the Pareto plots, the
    trials and the winner.
    """

    specs: tuple[Path, ...]
    defines: Mapping[str, int | None] = field(default_factory=dict)
    ranges: Mapping[str, Sequence[int]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    target: str | None = None
    product: str | None = None
    include_roots: tuple[Path, ...] = ()
    trials: int = 64
    best: int = 3
    jobs: int = 1
    executor: str = "process"
    device: str = "emulator"
    directory: Path | None = None
    resume: bool = False
    cxx: str | None = None
    seed: int = 0


@dataclass(frozen=True)
class Progress:
    """One step of a search: `done` of `total` (candidates, then verifications) and the trial that ended."""

    stage: str
    done: int
    total: int
    trial: Trial


@dataclass(frozen=True)
class Outcome:
    """The result: all trials, fastest first, and the winner with its spec's text; `right_on` is what it was run on."""

    trials: tuple[Trial, ...]
    winner: Trial
    winner_spec: str
    space_size: int
    searched: str
    rejected: Mapping[str, int]
    files: Mapping[str, Path]
    right_on: str = "the emulator"

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return {
            "winner": self.winner.to_json(),
            "space": self.space_size,
            "search": self.searched,
            "rejected": dict(self.rejected),
            "trials": [t.to_json() for t in self.trials],
            "files": {k: str(v) for k, v in self.files.items()},
        }


def tune(request: Request, progress: Callable[[Progress], None] = lambda _: None) -> Outcome:
    """Search for the fastest candidate of `request`.

    Raises:
        SpecError: a spec cannot be parsed, or no candidate of any spec passes the checks.
        TuneError: the request is wrong; MissingPackage: it needs Optuna or Ray; NothingFits: nothing is left.
        ToolchainError: nothing here compiles for the target, or there is no GPU where one is asked for.
        UnknownTargetError: no such target or product.
    """
    emulated = _emulated(request)
    _validate(request, emulated)
    import_module("tkgen.execute.launch")  # winners are verified with it: what it lacks is said before anything else
    fixed = {**request.defines, **request.sizes}
    space = Space.of(request.specs, request.ranges, fixed, request.include_roots)
    setting = _setting(request, space)
    whole = space.size <= request.trials
    chooser = None if whole else study(request.seed)
    with executor(request.executor, request.jobs) as pool:
        journal = Journal(request.directory, _identity(request, space), request.resume)  # nothing is missing any more
        steps = Steps(progress, "candidates", space.size if whole else request.trials)
        session = Session(setting, pool, request.jobs, journal, request.best, steps)
        try:
            if chooser is None:
                exhaustive(session, space)
            else:
                sampled(session, space, request.trials, chooser)
            if request.device == "gpu" and not emulated:
                _raced(session, request.seed, progress)
            else:
                _verified(session, Steps(progress, "verified", request.best))
                if request.device == "gpu":
                    _timed(session, Steps(progress, "timed", request.best))
        except BrokenExecutor:
            raise TuneError(
                "a worker process died; the trials so far are kept, and --resume goes on with them"
            ) from None
    return _outcome(request, space, session, "exhaustive" if whole else "optuna")


@dataclass
class Steps:
    """Counts the trials of a stage for whoever shows progress."""

    progress: Callable[[Progress], None]
    stage: str
    total: int
    done: int = 0

    def __call__(self, trial: Trial) -> None:
        """Count `trial` and report it."""
        self.done += 1
        self.progress(Progress(self.stage, min(self.done, self.total), self.total, trial))


def _emulated(request: Request) -> bool:
    """Return True if machine code of the request's target runs without its GPU.

    Raises:
        SpecError: it cannot be said which target a spec is for.
        TuneError: some are for such a target and some for another.
    """
    targets = dict.fromkeys(target_of(path, request.target, request.include_roots) for path in request.specs)
    found = {backend_of(name).emulated for name in targets}
    if len(found) > 1:
        raise TuneError(f"the specs are for {' and '.join(targets)}: candidates compete on one target")
    return found.pop()


def _validate(request: Request, emulated: bool) -> None:
    if request.executor not in EXECUTORS:
        raise TuneError(f"--executor {request.executor}: it is {' or '.join(EXECUTORS)}")
    if request.device not in ("emulator", "gpu"):
        raise TuneError(f"--device {request.device}: it is `emulator` or `gpu`")
    both = set(request.sizes) & set(request.defines)
    if both:
        raise TuneError(f"`{min(both)}` is given by -D and by --sizes; leave one out")
    if request.resume and request.directory is None:
        raise TuneError("--resume needs the folder of the search, -o DIR")
    if request.device == "gpu" and not emulated:
        backend_of(target_of(request.specs[0], request.target, request.include_roots)).need_gpu()
    elif request.device == "gpu":
        import torch

        if not torch.cuda.is_available() or torch.version.hip is None:
            raise ToolchainError("torch finds no AMD GPU here; without `--device gpu` prediction decides")


def _setting(request: Request, space: Space) -> Setting:
    """The shared part of all candidates; a compiler is found now, not by every worker in turn."""
    fixed: dict[str, dict[str, int | None]] = {}
    dynamic: dict[str, int] = {}
    for variant in space.variants:
        kernel = statements.together(parse_spec(variant.path, request.include_roots))
        _check_target(kernel, request)
        dims = _dynamic(kernel, request.defines)
        mine: dict[str, int | None] = {n: v for n, v in request.defines.items() if n in variant.names}
        mine |= {n: v for n, v in request.sizes.items() if n in variant.names - dims}
        fixed[str(variant.path)] = mine
        dynamic |= {n: v for n, v in request.sizes.items() if n in dims}
        missing = [n for n in sorted(dims) if n not in request.sizes]
        if missing:
            raise TuneError(f"{variant.path}: {missing[0]} is dynamic; say what to tune for: --sizes {missing[0]}=...")
    return Setting(fixed, dynamic, request.target, request.product, request.include_roots, request.cxx)


def _check_target(kernel: ast.Kernel, request: Request) -> None:
    """Raises TuneError, UnknownTargetError or ToolchainError where nothing predicts or compiles for a spec's target."""
    from tkgen.predict import PredictError, check_device, check_tools

    named = [name.id for s in flatten(kernel.body) if isinstance(s, ast.Targets) for name in s.names]
    name = request.target or (named[0] if named else DEFAULT_TARGET)
    try:
        check_device(name, request.product)
    except PredictError as error:
        raise TuneError(str(error)) from None
    check_tools(name, request.cxx)


def _dynamic(kernel: ast.Kernel, defines: Mapping[str, int | None]) -> set[str]:
    """Dimensions of a spec that stay dynamic under `-D`."""
    bindings = [b for s in flatten(kernel.body) if isinstance(s, ast.Dims) for b in s.bindings]
    return {
        b.name.id for b in bindings if (defines.get(b.name.id) is None if b.name.id in defines else b.value is None)
    }


def _identity(request: Request, space: Space) -> dict[str, object]:
    """Return everything that decides the trials: two searches with the same identity may share a journal."""
    texts = {}
    for variant in space.variants:
        files = sorted(spec_paths(variant.path, request.include_roots))
        texts[str(variant.path)] = hashlib.sha256(b"\0".join(f.read_bytes() for f in files)).hexdigest()
    return {
        "version": __version__,
        "specs": texts,
        "defines": dict(request.defines),
        "sizes": dict(request.sizes),
        "ranges": {n: list(v) for n, v in request.ranges.items()},
        "target": request.target,
        "product": request.product,
        "cxx": request.cxx,
    }


def _verified(session: Session, told: Callable[[Trial], None]) -> None:
    """Verify the fastest until `best` of them are right."""
    session.told = told
    while True:
        wanted = [t for t in session.predicted if t.verified is not False][: session.best]
        missing = [t for t in wanted if t.verified is None]
        if not missing:
            return
        for future in [session.pool.submit(evaluate.verify, session.setting, t) for t in missing]:
            session.keep(future.result())


def _timed(session: Session, told: Callable[[Trial], None]) -> None:
    """Time the verified ones, one after another: they share the GPU."""
    session.told = told
    for trial in [t for t in session.predicted if t.verified and t.gpu_seconds is None]:
        session.keep(evaluate.time_on_gpu(session.setting, trial))


def _raced(session: Session, seed: int, progress: Callable[[Progress], None]) -> None:
    """Compare the fastest with their equations on the GPU until `best` of them are right, and time those in turn."""
    session.told = Steps(progress, "compared", session.best)
    while True:
        wanted = [t for t in session.predicted if t.verified is not False][: session.best]
        missing = [t for t in wanted if t.verified is None]
        if not missing:
            break
        for trial in measured.compared(session.setting, seed, missing):
            session.keep(trial)
    if wanted:
        session.told = Steps(progress, "timed", len(wanted))
        for trial in measured.timed(session.setting, seed, wanted):
            session.keep(trial)


def _outcome(request: Request, space: Space, session: Session, searched: str) -> Outcome:
    trials = session.journal.trials.values()
    ranked = sorted(trials, key=lambda t: (t.rank, t.status, t.candidate))
    timed = [t for t in ranked if t.gpu_seconds is not None and t.verified]
    right = timed or [t for t in ranked if t.verified]
    if not right:
        raise _nothing(session, ranked)
    winner = right[0]
    spec = session.setting.load(winner.candidate)
    sizes = {d.name: d.size or session.setting.sizes[d.name] for d in _sized(spec.program)}
    product = spec.target.product_named(request.product) if request.product else spec.target.product
    right_on = "the emulator"
    if not backend_of(spec.target.name).emulated:
        right_on = "the model of its schedule" if winner.gpu_seconds is None else "the GPU"
        name = product.name if winner.gpu_seconds is None else measured.device()
        text = winner_text(spec, winner, None, sizes, name, request.include_roots)
    else:
        text = winner_text(spec, winner, spec.build(cxx=request.cxx), sizes, product.name, request.include_roots)
    rejected = Counter(t.code for t in ranked if t.status is Status.REJECTED)
    outcome = Outcome(tuple(ranked), winner, text, space.size, searched, dict(rejected.most_common()), {}, right_on)
    return replace(outcome, files=_write(outcome, request.directory)) if request.directory else outcome


def _sized(program: Program | EquationProgram | SequenceProgram) -> Sequence[Dim]:
    """The dimensions that make the size of a problem."""
    if isinstance(program, Program):
        return program.m, program.n, program.k
    return list(dict.fromkeys(d for t in program.arguments for d in t.dims))


def _nothing(session: Session, trials: Sequence[Trial]) -> Exception:
    """Why no candidate is left."""
    wrong = [t for t in trials if t.verified is False]
    if wrong:
        return NothingFits(f"no candidate computes the right numbers; {wrong[0].candidate}: {wrong[0].message}")
    failed = [t for t in trials if t.status is Status.FAILED]
    if failed:
        return NothingFits(f"no candidate could be predicted; {failed[0].candidate}: {failed[0].message}")
    try:
        session.setting.load(trials[0].candidate).check().build(cxx=session.setting.cxx).check()
    except SpecError as error:
        return error
    return NothingFits("there is no candidate")


def _write(outcome: Outcome, directory: Path) -> dict[str, Path]:
    texts = {
        "winner": ("winner.tk", outcome.winner_spec),
        "registers": ("pareto_registers.svg", pareto_svg(outcome.trials, "registers")),
        "lds": ("pareto_lds.svg", pareto_svg(outcome.trials, "lds_bytes")),
        "report": ("tune.json", json.dumps(outcome.to_json(), indent=2) + "\n"),
    }
    files = {"trials": directory / "trials.jsonl"}
    for kind, (name, text) in texts.items():
        files[kind] = directory / name
        write_atomic(files[kind], text)
    return files
