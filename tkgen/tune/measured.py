"""A search on a GPU whose kernels nothing predicts: every candidate is compiled, compared with its equations on outputs
that hold NaN, and timed.

All that compute the right numbers are timed together, as `tkgen.execute.race` does it: graphs of launches back to back
that go round tensors of more than the L2, replayed in turn, so that all meet the same clocks. A time is the median of
the rounds, its spread the distance between the fastest and the slowest.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tkgen.api import load, target_of
from tkgen.backends.hopper.build import CudaBuild
from tkgen.backends.registry import backend_of
from tkgen.diagnostics import SpecError
from tkgen.toolchain.compiler import ToolchainError
from tkgen.toolchain.files import write_atomic
from tkgen.tune import engine
from tkgen.tune.engine import Outcome, Progress, Request, Steps
from tkgen.tune.errors import NothingFits, TuneError
from tkgen.tune.evaluate import rejected
from tkgen.tune.space import Candidate, Space
from tkgen.tune.trial import Status, Trial
from tkgen.tune.winner import winner_text

if TYPE_CHECKING:
    import torch

    from tkgen.execute.gpu import Expected, Prepared

SETS = 2  # of tensors that launches go round at the least


def unpredicted(request: Request) -> str:
    """The target of its specs, where nothing predicts that; empty where something does.

    Raises:
        SpecError: it cannot be said which target a spec is for.
        TuneError: some are for such a target and some for another.
    """
    targets = dict.fromkeys(target_of(path, request.target, request.include_roots) for path in request.specs)
    found = [name for name in targets if not backend_of(name).emulated]
    if found and len(targets) > 1:
        raise TuneError(f"the specs are for {' and '.join(targets)}: candidates compete on one target")
    return found[0] if found else ""


def tune(request: Request, progress: Callable[[Progress], None] = lambda _: None) -> Outcome:
    """Search for the fastest candidate of `request`: by prediction, or where nothing predicts by measurement alone.

    Raises:
        SpecError: a spec cannot be parsed, or no candidate of any spec passes the checks.
        TuneError: the request is wrong; MissingPackage: it needs a package; NothingFits: nothing is left.
        ToolchainError: nothing here compiles for the target, or there is no GPU where one is asked for.
        UnknownTargetError: no such target or product.
    """
    target = unpredicted(request)
    if not target:
        return engine.tune(request, progress)
    _check(request, target)
    space = Space.of(request.specs, request.ranges, {**request.defines, **request.sizes}, request.include_roots)
    if space.size > request.trials:
        raise TuneError(f"there are {space.size} candidates, and nothing predicts for {target} which are worth one of "
                        f"{request.trials} trials: raise --trials to measure all, or give fewer values")  # fmt: skip
    backend_of(target).need_gpu()
    return _outcome(request, space, target, list(_measured(request, space, target, progress)))


def _check(request: Request, target: str) -> None:
    """Raises TuneError for what only a search by prediction has."""
    if request.device != "gpu":
        raise TuneError(f"nothing predicts or emulates {target}: `--device gpu` measures all candidates")
    if request.executor != "process":
        raise TuneError(f"candidates for {target} are measured on the GPU that is here: leave out --executor")
    if request.resume:
        raise TuneError("candidates are measured beside each other, in one run: leave out --resume")
    if request.product:
        raise TuneError(f"nothing predicts for {target}: leave out --product")


def _measured(request: Request, space: Space, target: str, progress: Callable[[Progress], None]) -> Iterator[Trial]:
    """A trial for every candidate."""
    from tkgen.execute import gpu

    told = Steps(progress, "compiled", space.size)
    ready: dict[Candidate, tuple[Trial, Prepared]] = {}
    with ThreadPoolExecutor(request.jobs) as pool:
        for trial, found in pool.map(lambda c: _built(request, target, c), space):
            told(trial)
            if found is None:
                yield trial
            else:
                ready[trial.candidate] = trial, found
    told = Steps(progress, "compared", len(ready))
    right: dict[Candidate, tuple[Trial, Prepared]] = {}
    wanted: dict[str, Expected] = {}  # the candidates of a spec compute the same of the same inputs
    for candidate, (trial, found) in ready.items():
        if candidate.spec not in wanted:
            wanted[candidate.spec] = gpu.expected(backend_of(target), found.launch, found.scalars, request.seed)
        compared = _compared(request, target, trial, found, wanted[candidate.spec])
        told(compared)
        if compared.verified:
            right[candidate] = compared, found
        else:
            yield compared
    if right:
        yield from _timed(request, target, list(right.values()))


def _defines(request: Request, candidate: Candidate) -> dict[str, int | None]:
    """The `-D` values of a candidate's spec."""
    (names,) = (v.names for v in Space.of((Path(candidate.spec),), {}, {}, request.include_roots).variants)
    given = {n: v for n, v in {**request.defines, **request.sizes}.items() if n in names}
    return given | dict(candidate.values)


def _built(request: Request, target: str, candidate: Candidate) -> tuple[Trial, Prepared | None]:
    """A candidate checked and compiled; nothing beside its trial where it is refused."""
    from tkgen.execute.arguments import check_scalars
    from tkgen.execute.gpu import prepared

    path, defines = Path(candidate.spec), _defines(request, candidate)
    trial = Trial(candidate, Status.BUILT)
    try:
        scalars = check_scalars(load(path, None, target, request.include_roots).program)  # type: ignore[arg-type]
        found = prepared(path, {**scalars, **defines}, target, request.include_roots)
        build = found.spec.build(cxx=request.cxx)
    except SpecError as error:
        return rejected(candidate, error), None
    except (ToolchainError, ValueError) as error:
        return replace(trial, status=Status.FAILED, message=str(error)), None
    assert isinstance(build, CudaBuild)
    return replace(trial, registers=build.figures.registers, lds_bytes=build.shared_bytes), found


def _compared(request: Request, target: str, trial: Trial, found: Prepared, wanted: Expected) -> Trial:
    """Whether it computes what its equations say, at the sizes of the request."""
    from tkgen.execute.gpu import compared_launch

    try:
        comparison, _ = compared_launch(
            backend_of(target), found.spec, found.launch, found.scalars, wanted, request.cxx
        )
    except (ToolchainError, ValueError) as error:
        return replace(trial, verified=False, message=str(error))
    return replace(trial, verified=comparison.right, message="" if comparison.right else str(comparison))


def _timed(request: Request, target: str, contestants: Sequence[tuple[Trial, Prepared]]) -> Iterator[Trial]:
    """All of them timed in turn."""
    from tkgen.execute import gpu, kernels
    from tkgen.execute.compare import Inputs
    from tkgen.execute.race import ROTATED_BYTES, raced

    launches: dict[Candidate, list[Callable[[], None]]] = {}
    held: dict[str, list[dict[str, torch.Tensor]]] = {}  # the candidates of a spec go round the same tensors
    for trial, found in contestants:
        spec, (_, moved) = trial.candidate.spec, kernels.work(found.launch)
        if spec not in held:
            count = max(SETS, -(-ROTATED_BYTES // moved))
            inputs = kernels.random_inputs(found.launch, request.seed, Inputs.NORMAL)
            held[spec] = [{n: t.cuda() for n, t in kernels.memory(found.launch, inputs).items()} for _ in range(count)]
        launches[trial.candidate] = [
            backend_of(target).launcher(found.spec, found.launch, tensors, found.scalars, request.cxx)
            for tensors in held[spec]
        ]
    sets = max(map(len, launches.values()))  # specs may have tensors of their own; a graph goes round the most
    even = {who: [each[i % len(each)] for i in range(sets)] for who, each in launches.items()}
    about = min(gpu.median_milliseconds(each[0]) for each in even.values()) / 1e3
    times = raced(even, about)
    for trial, found in contestants:
        seconds = times[trial.candidate]
        middle = statistics.median(seconds)
        flops, moved = kernels.work(found.launch)
        yield replace(
            trial,
            gpu_seconds=middle,
            spread=(max(seconds) - min(seconds)) / middle,
            tflops=flops / middle / 1e12 if flops else None,
            gbps=None if flops else moved / middle / 1e9,
        )


def _outcome(request: Request, space: Space, target: str, trials: Sequence[Trial]) -> Outcome:
    ranked = sorted(trials, key=lambda t: (t.rank, t.status, t.candidate))
    if not any(t.verified for t in ranked):
        raise _nothing(request, target, ranked)
    winner = ranked[0]
    defines = _defines(request, winner.candidate)
    spec = load(Path(winner.candidate.spec), defines, target, request.include_roots)
    extents = {d.name: d.size for d in spec.program.dims if d.size is not None}  # type: ignore[attr-defined]
    text = winner_text(spec, winner, None, {**extents, **request.sizes}, _device(), request.include_roots)
    refused = Counter(t.code for t in ranked if t.status is Status.REJECTED)
    found = Outcome(tuple(ranked), winner, text, space.size, "all measured", dict(refused.most_common()), {})
    return replace(found, files=_write(found, request.directory)) if request.directory else found


def _device() -> str:
    """The GPU's name."""
    import torch

    return str(torch.cuda.get_device_name())


def _nothing(request: Request, target: str, trials: Sequence[Trial]) -> Exception:
    """Why no candidate is left."""
    told = [t for t in trials if t.verified is False] or [t for t in trials if t.status is Status.FAILED]
    if told:
        return NothingFits(f"no candidate computes the right numbers; {told[0].candidate}: {told[0].message}")
    first = trials[0].candidate
    try:
        load(Path(first.spec), _defines(request, first), target, request.include_roots).check().build(cxx=request.cxx)
    except SpecError as error:
        return error
    return NothingFits("there is no candidate")


def _write(outcome: Outcome, directory: Path) -> dict[str, Path]:
    files = {"winner": directory / "winner.tk", "report": directory / "tune.json"}
    write_atomic(files["winner"], outcome.winner_spec)
    write_atomic(files["report"], json.dumps(outcome.to_json(), indent=2) + "\n")
    return files
