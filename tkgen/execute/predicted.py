"""What `tkgen predict` is about: a spec of any kind with its `-D` values, on a product of its target."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tkgen.api import load
from tkgen.backends.hopper.backend import ON_HOPPER
from tkgen.execute.given import Values, given
from tkgen.execute.kernels import AnySpec, valued
from tkgen.predict import PredictError, device_of
from tkgen.predict.hopper import predict_hopper
from tkgen.report.timeline import trace
from tkgen.rows.spec import RowSpec
from tkgen.sequence.build import SequenceBuild
from tkgen.sequence.prediction import AnyPrediction, models, predicted
from tkgen.sequence.spec import SequenceSpec
from tkgen.toolchain.files import write_atomic


@dataclass(frozen=True)
class Asked:
    """The spec at `path` with `-D` values, to predict for a `product` of its target, the first without a name."""

    path: Path
    defines: Mapping[str, float | None]
    target: str | None
    roots: tuple[Path, ...]
    product: str | None

    def checked(self, closely: bool) -> Subject:
        """The spec, checked; `closely`, one of matrix products whose target has a model.

        Raises:
            SpecError: the spec is wrong, or a value gives nothing that is there; `closely`, it is of another kind.
            SizeError: a value that cannot be given; a kernel that nothing emulates.
            PredictError, UnknownTargetError: `closely`, there is no timing data, or no such product.
        """
        spec: AnySpec | ON_HOPPER
        if closely:
            chosen = given(self.path, self.defines, self.target, self.roots)
            spec, extents = chosen.spec, chosen.extents
            device_of(spec.target, self.product)  # before anything is compiled
        elif isinstance(loaded := load(self.path, None, self.target, self.roots), ON_HOPPER):
            values = Values.of(loaded.program, self.defines)
            again, extents = load(self.path, values.static, self.target, self.roots), values.extents
            assert isinstance(again, ON_HOPPER)
            spec = again
        else:
            spec, values = valued(self.path, self.defines, self.target, self.roots)
            extents = values.extents
        return Subject(spec.check(), extents, self.product, closely)


@dataclass(frozen=True)
class Subject:
    """A checked spec to predict, at `extents` of dynamic dimensions; `closely`, with what would change the time."""

    spec: AnySpec | ON_HOPPER
    extents: Mapping[str, int]
    product: str | None
    closely: bool

    @property
    def emulated(self) -> bool:
        """Whether its machine code is followed on the emulator."""
        return not isinstance(self.spec, ON_HOPPER)

    def predict(self, cxx: str | None = None, into: Path | None = None) -> AnyPrediction:
        """Build and predict it; the work and waits of each wave are written as a trace to `into`.

        Raises:
            SpecError, ToolchainError: as `build` of a spec.
            PredictError, UnknownTargetError: as `predict_any`.
        """
        if isinstance(self.spec, ON_HOPPER):
            if into is not None:
                target = self.spec.target.name
                raise PredictError(f"there is no trace of {self.spec.name}: nothing follows machine code for {target}")
            return predict_hopper(self.spec.build(cxx=cxx), self.extents, self.product)
        build = self.spec.build(cxx=cxx).check()
        known = models(build, self.extents, self.product)
        found = predicted(build, known, self.extents, what_if=self.closely)
        if into is not None:
            kernels = build.kernels if isinstance(build, SequenceBuild) else (build,)
            runs = [(kernel, model.recording()) for kernel, model in zip(kernels, known, strict=True)]
            traced = trace(self.spec.name, found.product, runs)
            write_atomic(into, json.dumps(traced, separators=(",", ":")))
        return found


def others(asked: Iterable[Asked]) -> list[Path]:
    """The specs that are not of one kernel of matrix products: where there is one, nothing is predicted `closely`."""
    specs = [(a.path, load(a.path, None, a.target, a.roots)) for a in asked]
    return [path for path, spec in specs if isinstance(spec, RowSpec | SequenceSpec | ON_HOPPER)]
