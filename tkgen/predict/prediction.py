"""The prediction of a kernel on any machine: how long a launch takes, what limits it, where the time goes.

>>> p = predict(tkgen.load("specs/ping_pong.tk").build(), product="MI325X")
>>> p.seconds, p.limiter, p.parts["tail"] / p.seconds
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tkgen.notebooks import Shown

if TYPE_CHECKING:
    from tkgen.predict.events import Recording  # which wants numpy


class PredictError(Exception):
    """One sentence for the user: why this kernel cannot be predicted."""


@dataclass(frozen=True)
class Level:
    """One level of the memory hierarchy: bytes it delivered and the share of requests it could serve itself."""

    name: str
    bytes: int
    hit_rate: float
    tbps: float


@dataclass(frozen=True)
class WhatIf:
    """The gain of one change: the predicted time with it, and how many times faster that is."""

    change: str
    resource: str
    seconds: float
    speedup: float


@dataclass(frozen=True)
class Iteration:
    """An iteration of a block's loop in the steady state; `name` says what one is, "K-step" or "iteration".

    A block makes `count` of them, on average. One takes `cycles`: a matrix unit multiplies in `matrix_cycles` of them
    and waits in the others, `lost`, by cause.
    """

    name: str
    count: float
    cycles: float
    matrix_cycles: float
    lost: Mapping[str, float]


@dataclass(frozen=True)
class Part:
    """A part of the time: its name, cycles of an iteration (None for what is outside the steady loop), its share.

    It is `lost` where a matrix unit could multiply meanwhile.
    """

    name: str
    per_step: float | None
    share: float
    lost: bool = False

    @property
    def label(self) -> str:
        """As it is shown."""
        return f"lost to {self.name}" if self.lost else self.name


MULTIPLYING = "multiplying"  # the part in which matrix units work, in `Prediction.parts`: the others are lost


@dataclass(frozen=True, kw_only=True)
class Prediction(Shown):
    """The time of one launch on a product of the target, launch overhead included, and what is known of where it goes.

    `tflops` counts what is multiplied, None without any; `gbps` counts every byte of the tensors once, and
    `share_of_copy` is its share of what a copy reaches. A kernel is `memory_bound` where its rate is best said in
    bytes. Where it is not known what the power limit leaves, the speed is an `upper_bound`; `clock_limit` is "power"
    where power holds the clock, "peak" or "unknown".

    `parts` are seconds and add up to all. `busy` is the share of the time in which each unit of a core works, where a
    core (`core` is its name) has `resident` blocks at a time. Of a sequence there are the predictions of its `kernels`,
    each as if it stood alone, with its own launch and with empty caches.
    """

    kernel: str
    target: str
    product: str
    sizes: tuple[tuple[str, int], ...]
    seconds: float
    launch_seconds: float
    gbps: float
    share_of_copy: float
    limiter: str
    tflops: float | None = None
    share_of_peak: float | None = None
    memory_bound: bool = False
    upper_bound: bool = False
    clock_mhz: float | None = None
    clock_limit: str = ""
    blocks: int = 0
    rounds: int | None = None
    resident: int = 0
    core: str = "CU"
    parts: Mapping[str, float] = field(default_factory=dict)
    busy: Mapping[str, float] = field(default_factory=dict)
    loop: Iteration | None = None
    levels: tuple[Level, ...] = ()
    what_if: tuple[WhatIf, ...] = ()
    notes: tuple[str, ...] = ()
    kernels: tuple[Prediction, ...] = ()

    @property
    def shares(self) -> tuple[Part, ...]:
        """The parts of the time, or of an iteration where no more is known: what multiplies, then the largest first."""
        steps = {MULTIPLYING: self.loop.matrix_cycles, **self.loop.lost} if self.loop else {}
        found = {name: seconds / self.seconds for name, seconds in self.parts.items()}
        if self.loop and not found:
            found = {name: cycles / self.loop.cycles for name, cycles in steps.items()}
        order = sorted(found, key=lambda name: (name != MULTIPLYING, -found[name]))
        multiplies = MULTIPLYING in found
        return tuple(Part(n, steps.get(n), found[n], multiplies and n != MULTIPLYING) for n in order)


class Model(Protocol):
    """A kernel at sizes on a device."""

    def prediction(self, what_if: bool = True) -> Prediction:
        """The time of one launch; with `what_if`, what would change it."""

    def recording(self) -> Recording:
        """Record the events on a core. Raises PredictError where the model does not follow the machine code."""


def several(name: str, sizes: Mapping[str, int], kernels: Sequence[Prediction]) -> Prediction:
    """The prediction of kernels that are launched one after the other: their sum, and what limits the longest."""
    seconds, longest = sum(k.seconds for k in kernels), max(kernels, key=lambda k: k.seconds)
    multiplied = [k.tflops * k.seconds for k in kernels if k.tflops is not None]

    def mean(of: Sequence[float]) -> float:
        return sum(x * k.seconds for x, k in zip(of, kernels, strict=True)) / seconds

    return Prediction(
        kernel=name,
        target=longest.target,
        product=longest.product,
        sizes=tuple(sizes.items()),
        seconds=seconds,
        launch_seconds=sum(k.launch_seconds for k in kernels),
        tflops=sum(multiplied) / seconds if multiplied else None,
        gbps=mean([k.gbps for k in kernels]),
        share_of_copy=mean([k.share_of_copy for k in kernels]),
        memory_bound=all(k.memory_bound for k in kernels),
        upper_bound=any(k.upper_bound for k in kernels),
        limiter=f"{longest.kernel} ({longest.limiter})",
        parts={k.kernel: k.seconds for k in kernels},
        kernels=tuple(kernels),
    )


@dataclass(frozen=True)
class Comparison(Shown):
    """Two predictions: the kernel of `b` is `speedup` times as fast as that of `a`."""

    a: Prediction
    b: Prediction

    @property
    def speedup(self) -> float:
        """The time of `a` divided by that of `b`."""
        return self.a.seconds / self.b.seconds


def to_json(result: Prediction | Comparison) -> dict[str, Any]:
    """Plain data for `json.dumps`, every number finite."""
    if isinstance(result, Comparison):
        return {"a": to_json(result.a), "b": to_json(result.b), "speedup": result.speedup}
    data: dict[str, Any] = asdict(result) | {"sizes": dict(result.sizes)}
    if result.kernels:
        data["kernels"] = [to_json(k) | {"share": k.seconds / result.seconds} for k in result.kernels]
    _check_finite(data)
    return data


def _check_finite(node: Any) -> None:
    if isinstance(node, dict):
        for child in node.values():
            _check_finite(child)
    elif isinstance(node, list | tuple):
        for child in node:
            _check_finite(child)
    elif isinstance(node, float) and not math.isfinite(node):
        raise PredictError("a predicted number is not finite")
