"""The predicted time of a sequence: that of its kernels, one after the other, and which is how much of it.

Each kernel is predicted as if it stood alone, with its own launch and with empty caches: that what the one before has
left in a cache need not be fetched is a gain that the sum does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tkgen.build import Build
from tkgen.loops import prediction as loops
from tkgen.loops.build import LoopBuild
from tkgen.predict import Prediction, Workload, device_of, to_json
from tkgen.predict.hopper.model import HopperPrediction
from tkgen.predict.loops import LoopModel, LoopPrediction
from tkgen.predict.model import Model, model_of
from tkgen.predict.rows import RowModel, RowPrediction
from tkgen.rows import prediction as rows
from tkgen.rows.build import RowBuild
from tkgen.sequence.build import SequenceBuild


@dataclass(frozen=True)
class SequencePrediction:
    """The times of the kernels of a sequence, in order; `seconds` is their sum, launches included."""

    kernel: str
    target: str
    product: str
    sizes: tuple[tuple[str, int], ...]
    kernels: tuple[Prediction | RowPrediction, ...]

    @property
    def seconds(self) -> float:
        """The time of all."""
        return sum(p.seconds for p in self.kernels)

    @property
    def shares(self) -> tuple[float, ...]:
        """The part of the time that each kernel takes."""
        return tuple(p.seconds / self.seconds for p in self.kernels)

    @property
    def tflops(self) -> float | None:
        """The rate of the products over the time of all; None without one."""
        found = [p.tflops * p.seconds for p in self.kernels if isinstance(p, Prediction | LoopPrediction)]
        return sum(found) / self.seconds if found else None

    @property
    def gbps(self) -> float:
        """The bytes of the tensors of each kernel, once, over the time of all, in GB/s."""
        return sum(p.gbps * p.seconds for p in self.kernels) / self.seconds

    @property
    def upper_bound(self) -> bool:
        """Whether the speed of a kernel is an upper bound, and so that of all."""
        return any(isinstance(p, Prediction | LoopPrediction) and p.upper_bound for p in self.kernels)

    @property
    def limiter(self) -> str:
        """The kernel that takes longest, and what limits it."""
        longest = max(self.kernels, key=lambda p: p.seconds)
        return f"{longest.kernel} ({longest.limiter})"

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        each = [p.to_json() if isinstance(p, RowPrediction) else to_json(p) for p in self.kernels]
        return {
            "sequence": self.kernel,
            "target": self.target,
            "product": self.product,
            "sizes": dict(self.sizes),
            "seconds": self.seconds,
            "upper_bound": self.upper_bound,
            "limiter": self.limiter,
            "kernels": [p | {"share": share} for p, share in zip(each, self.shares, strict=True)],
        }


AnyPrediction: TypeAlias = Prediction | RowPrediction | SequencePrediction | HopperPrediction
AnyModel: TypeAlias = Model | RowModel | LoopModel


def predict_any(
    build: Build | RowBuild | SequenceBuild,
    sizes: Mapping[str, int] | None = None,
    product: str | None = None,
    *,
    what_if: bool = True,
) -> AnyPrediction:
    """The predicted time of a build, of one kernel or of several, on a product of its target (the first by default).

    Raises:
        PredictError: the target has no timing data, or a kernel cannot do the sizes, or is not one to predict.
        UnknownTargetError: it has no such product.
    """
    return predicted(build, models(build, sizes, product), sizes, what_if=what_if)


def models(
    build: Build | RowBuild | SequenceBuild, sizes: Mapping[str, int] | None = None, product: str | None = None
) -> tuple[AnyModel, ...]:
    """The model of each kernel of a build, in order. Raises as `predict_any`."""
    kernels = build.kernels if isinstance(build, SequenceBuild) else (build,)
    return tuple(_model(kernel, sizes, product) for kernel in kernels)


def _model(build: Build | RowBuild, sizes: Mapping[str, int] | None, product: str | None) -> AnyModel:
    if isinstance(build, LoopBuild):
        return loops.model(build, sizes, product)
    if isinstance(build, RowBuild):
        return rows.model(build, sizes, product)
    target = build.spec.target
    return model_of(Workload.of(build, sizes), target, device_of(target, product))


def predicted(
    build: Build | RowBuild | SequenceBuild,
    known: Sequence[AnyModel],
    sizes: Mapping[str, int] | None = None,
    *,
    what_if: bool = True,
) -> AnyPrediction:
    """What the `models` of a build predict."""
    found = tuple(m.prediction(what_if) if isinstance(m, Model) else m.prediction() for m in known)
    if not isinstance(build, SequenceBuild):
        return found[0]
    spec = build.spec
    extents = {d.name: d.size if d.size is not None else (sizes or {})[d.name] for d in spec.program.dims}
    return SequencePrediction(spec.name, spec.target.name, found[0].product, tuple(extents.items()), found)


def text(p: AnyPrediction) -> str:
    """A prediction for people: a line for all, and of a sequence one for each kernel."""
    if isinstance(p, RowPrediction):
        return rows.text(p)
    if isinstance(p, HopperPrediction):
        return p.text()
    if isinstance(p, Prediction):
        return f"{p.kernel} {' x '.join(map(str, p.sizes))} on {p.product}: {_part(p)}"
    sizes = " ".join(f"{name}={size}" for name, size in p.sizes)
    width = max(len(k.kernel) for k in p.kernels)
    parts = zip(p.kernels, p.shares, strict=True)
    return "\n".join([
        f"{p.kernel} {sizes} on {p.product}: {p.seconds * 1e6:.1f} us predicted, limited by {p.limiter}",
        *(f"  {k.kernel:<{width}}  {share:4.0%}  {_part(k)}" for k, share in parts),
    ])  # fmt: skip


def plain(found: Sequence[AnyPrediction]) -> dict[str, object]:
    """Plain data of a prediction, or of two, and how many times as fast the second one's kernel is."""
    data = [to_json(p) if isinstance(p, Prediction) else p.to_json() for p in found]
    return data[0] if len(data) == 1 else {"a": data[0], "b": data[1], "speedup": found[0].seconds / found[1].seconds}


def texts(found: Sequence[AnyPrediction]) -> str:
    """A prediction for people, or two, and how many times as fast the second one's kernel is."""
    lines = [text(p) for p in found]
    if len(found) > 1:
        names = (found[0].kernel, found[1].kernel)
        a, b = names if names[0] != names[1] else ("the first", "the second")
        lines.append(f"{b} is {found[0].seconds / found[1].seconds:.2f} times as fast as {a}")
    return "\n".join(lines)


def _part(p: Prediction | RowPrediction) -> str:
    rate = f"{p.gbps:.0f} GB/s, {p.share_of_copy:.0%} of what a copy reaches"
    if isinstance(p, LoopPrediction) or (isinstance(p, Prediction) and not p.memory_bound):
        rate = f"{p.tflops:.0f} TFLOP/s, {p.share_of_peak:.0%} of peak"
    bound = "at least " if isinstance(p, Prediction | LoopPrediction) and p.upper_bound else ""
    return f"{bound}{p.seconds * 1e6:.1f} us predicted, {rate}, limited by {p.limiter}"
