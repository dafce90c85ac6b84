"""The subject of `tkgen predict`: a spec with its `-D` values, on a product of its target."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tkgen.backends import protocol
from tkgen.backends.registry import backend_of
from tkgen.execute.given import Asked
from tkgen.predict import Prediction, check_device, models, predicted
from tkgen.report.hot import Hot, hot_kernels
from tkgen.report.timeline import trace
from tkgen.toolchain.compiler import ToolchainError
from tkgen.toolchain.files import write_atomic


@dataclass(frozen=True)
class PredictionAsked(Asked):
    """A spec to predict for a `product` of its target, the first without a name."""

    product: str | None = None

    def checked(self) -> Subject:
        """The spec, checked.

        Raises:
            SpecError: the spec is wrong, or a value gives nothing that is there.
            SizeError: a value that cannot be given.
            PredictError, UnknownTargetError: there is no timing data, or no such product.
        """
        spec, values = self.valued()
        check_device(spec.target.name, self.product)  # before anything is compiled
        return Subject(spec.check(), values.extents, self.product)


@dataclass(frozen=True)
class Subject:
    """A checked spec to predict, at `extents` of dynamic dimensions."""

    spec: protocol.Spec
    extents: Mapping[str, int]
    product: str | None

    @property
    def emulated(self) -> bool:
        """True if its machine code is followed on the emulator."""
        return backend_of(self.spec.target.name).emulated

    def predict(
        self, cxx: str | None = None, into: Path | None = None, lines: bool = True
    ) -> tuple[Prediction, tuple[Hot, ...]]:
        """Build and predict it, with the `lines` of each kernel; the prediction notes why there are none.

        The work and waits of each wave are written as a trace to `into`.

        Raises:
            SpecError, ToolchainError: as `build` of a spec.
            PredictError, UnknownTargetError: as `tkgen.predict.predict`, or nothing follows its machine code.
        """
        build = self.spec.build(cxx=cxx).check()
        known = models(build, self.extents, self.product)
        recordings = [model.recording() for model in known] if into is not None else []
        found = predicted(build, known, self.extents)
        hot = tuple[Hot, ...]()
        if lines:
            try:
                hot = hot_kernels(build, known, found.kernels or (found,))
            except ToolchainError as error:
                found = replace(found, notes=(*found.notes, f"no lines of the spec: {error}"))
        if into is not None:
            traced = trace(build, found.product, recordings)
            write_atomic(into, json.dumps(traced, separators=(",", ":")))
        return found, hot
