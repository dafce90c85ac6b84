"""The results of one candidate, and its form in the journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from tkgen.tune.space import Candidate


class Status(StrEnum):
    """The furthest stage that a candidate reached."""

    REJECTED = "rejected"  # a check refuses it, before or after compiling
    FAILED = "failed"  # the compiler or the prediction gave up
    BOUNDED = "bounded"  # passes the checks, not compiled: even its lower bound is slower than the best
    PREDICTED = "predicted"


@dataclass(frozen=True)
class Trial:
    """One candidate and its result. Seconds are of one launch; `bound_seconds` is what no kernel of its shape beats.

    Products have a rate in `tflops`, kernels of rows in `gbps`, which counts every byte of their tensors once.

    `code` is that of the diagnostic that rejected it, `message` its sentence or what failed. `verified` is None until
    it was run at a small size on the emulator or as a schedule, or on a GPU; `gpu_seconds` is measured, `spread` the
    part of it between the fastest round and the slowest.
    """

    candidate: Candidate
    status: Status
    code: str = ""
    message: str = ""
    bound_seconds: float = 0.0
    seconds: float | None = None
    tflops: float | None = None
    gbps: float | None = None
    limiter: str = ""
    registers: int = 0
    lds_bytes: int = 0
    waves_per_simd: float = 0.0
    verified: bool | None = None
    gpu_seconds: float | None = None
    spread: float | None = None

    @property
    def values(self) -> Mapping[str, int]:
        """The tuned parameters."""
        return dict(self.candidate.values)

    @property
    def rate(self) -> float | None:
        """The predicted rate, in the unit of its kind."""
        return self.gbps if self.tflops is None else self.tflops

    @property
    def unit(self) -> str:
        """The unit of `rate`."""
        return "TFLOP/s" if self.gbps is None else "GB/s"

    @property
    def rank(self) -> float:
        """Seconds to order by: measured where there is a measurement, else predicted; infinite without either."""
        known = self.gpu_seconds if self.gpu_seconds is not None else self.seconds
        return float("inf") if known is None else known

    def to_json(self) -> dict[str, object]:
        """Plain data: a line of the journal."""
        plain = asdict(self)
        candidate = plain.pop("candidate")
        return {"spec": candidate["spec"], "values": dict(candidate["values"])} | plain

    @classmethod
    def from_json(cls, plain: Mapping[str, object]) -> Trial:
        """The trial of a journal's line. Raises TypeError, KeyError or ValueError where it is none."""
        rest = dict(plain)
        spec, values = rest.pop("spec"), rest.pop("values")
        if not isinstance(spec, str) or not isinstance(values, dict):
            raise ValueError("not a trial")
        status = Status(str(rest.pop("status")))
        return cls(Candidate(spec, tuple(values.items())), status, **rest)  # type: ignore[arg-type]
