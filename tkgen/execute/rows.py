"""`tkgen run`: one spec, built and launched on the emulator or a GPU, or modelled, as rows to show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from math import isfinite

from tkgen.api import target_of
from tkgen.backends.protocol import Backend, Build
from tkgen.backends.registry import backend_of
from tkgen.diagnostics.text import table_text
from tkgen.emulate import EmulateError
from tkgen.execute.admitted import small
from tkgen.execute.arguments import SizeError, check_scalars
from tkgen.execute.cases import blocks_text
from tkgen.execute.compare import Comparison, Inputs
from tkgen.execute.given import Asked, Chosen, emulated
from tkgen.execute.launch import run, trials
from tkgen.ir.sizing import Sizing
from tkgen.toolchain.compiler import ToolchainError


@dataclass(frozen=True)
class Row:
    """One launch: sizes, schedule, inputs, how the numbers compare, what was found, and the time on a GPU."""

    spec: str
    sizes: Mapping[str, int]
    schedule: str
    inputs: Inputs
    comparison: Comparison
    findings: tuple[str, ...]
    instructions: int
    shipped: bool  # the code of the spec as it stands; with `-D` sizes it is another kernel
    grid: int  # blocks of the launch
    blocks: tuple[int, ...] | None = None  # those run, None for all
    watched: bool = True  # by the referee
    milliseconds: float | None = None
    tflops: float | None = None
    gbps: float | None = None  # of kernels whose multiplications nobody counts: what is read and written, once
    executor: str = ""  # what ran it where nothing emulates the machine code; `instructions` are its steps
    caption: str = ""  # the same in words
    details: tuple[dict[str, object], ...] = ()  # the findings of the referee as data

    @property
    def ok(self) -> bool:
        """Right numbers and nothing found."""
        return self.comparison.right and not self.findings

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        figures = {k: v if isfinite(v) else None for k, v in asdict(self.comparison).items()}  # JSON has no infinity
        plain = asdict(self) | {"inputs": self.inputs.value, "ok": self.ok, "modelled": self.executor == "model"}
        plain |= {"comparison": figures | {"verdict": self.comparison.verdict}}
        return {key: value for key, value in plain.items() if key != "caption"}


def tables(rows: Sequence[Row]) -> str:
    """Launches as text, a table for each spec or kernel of theirs."""
    names = dict.fromkeys(row.spec for row in rows)
    return "\n".join(table([row for row in rows if row.spec == name]) for name in names)


def table(rows: Sequence[Row]) -> str:
    """Launches of one spec as text: which code at which sizes, a row for each launch, a line for all that is wrong.

    At most 80 columns wide, except for the findings.
    """
    measures = ("steps" if rows[0].executor else "instructions", "findings")
    if rows[0].milliseconds is not None:
        measures = "ms", "GB/s" if rows[0].tflops is None else "TFLOP/s"
    headings = ("interleaving", "inputs", "results", *(f">{h}" for h in ("max error", "ulp", "bound", *measures)))
    cells = []
    for row in rows:
        c = row.comparison
        last: tuple[object, object] = row.instructions, len(row.findings) if row.watched else "unwatched"
        if row.milliseconds is not None:
            last = f"{row.milliseconds:.3f}", f"{row.gbps if row.tflops is None else row.tflops:.1f}"
        errors = (f"{c.max_error:.3g}", f"{c.ulps:.2g}", f"{c.bound:.3g}")
        cells.append((row.schedule, row.inputs.value, c.verdict, *errors, *map(str, last)))
    extents = " ".join(f"{n}={s}" for n, s in rows[0].sizes.items())
    wrong = [f"{row.schedule}: {row.comparison}" for row in rows if not row.comparison.right]
    found = [f"{row.schedule}: {finding}" for row in rows for finding in row.findings]
    lines = [rows[0].caption] if rows[0].caption else []
    lines += table_text(headings, cells)
    return "\n".join([f"{rows[0].spec}  {extents}  ({_code(rows[0])})", *lines, *wrong, *found])


def _code(row: Row) -> str:
    """Say which code was run, and how much of the launch."""
    which = "as shipped" if row.shipped else "built for -D"
    return which if row.blocks is None else f"{which}; {blocks_text(row.blocks)} of {row.grid}"


def smallest(asked: Asked, defines: Mapping[str, int | None]) -> Asked:
    """The spec with `defines`, and values worth running for what they leave alone: small sizes, scalars."""
    spec = emulated(asked.load(defines))
    found = small(spec, lambda static: asked.load({**static, **defines}).check())
    given = {n: v for n, v in defines.items() if v is not None}
    return replace(asked, defines={**found, **check_scalars(spec.program), **given})


def run_spec(
    asked: Asked,
    device: str,
    seed: int,
    schedules: int,
    workers: int,
    cxx: str | None,
    blocks: Sequence[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
    executor: str = "",
) -> list[Row]:
    """Build and launch a spec, of one kernel or several, once per schedule.

    `blocks` launches these alone, of each kernel alone. `progress` is told blocks done, and of how many. `executor`
    is one of those of sm_90a, the first where it is empty.

    Raises:
        SpecError: the spec is wrong, or its sizes are.
        SizeError: a dynamic dimension has no size, or one that the kernel cannot do; a scalar has no value; a block
            that is not there.
        ToolchainError: nothing here compiles or emulates it, or there is no GPU to run it on.
    """
    name = target_of(asked.path, asked.target, asked.roots)
    backend = backend_of(name)
    if backend.executors and device != "gpu":
        if blocks is not None:
            raise SizeError(f"kernels for {name} run whole launches here: remove `--blocks`, give small sizes by -D")
        return _executed(asked.chosen(), backend, seed, schedules, progress, executor)
    if executor:
        raise SizeError(f"`--executor` is for sm_90a: the emulator runs the machine code of {name}")
    if device == "gpu":
        return [_on_gpu(asked.chosen(), backend, seed, cxx)]
    found = asked.chosen()
    launched = _launched(found, found.spec.build(cxx=cxx).check(), alone=blocks is not None)
    each = found.launch.blocks if blocks is None else len(blocks)
    rows: list[Row] = []
    for number, ((name, of, launch), (order, kind)) in enumerate(product(launched, trials(schedules))):

        def done(count: int, before: int = number * each) -> None:
            if progress is not None:
                progress(before + count, len(launched) * schedules * each)

        done(0)
        try:
            tried = run(
                of, blocks, extents=found.extents, seed=seed, kind=kind, scalars=found.scalars, order=order,
                workers=workers, progress=done,
            )  # fmt: skip
        except EmulateError as error:
            raise ToolchainError(str(error)) from error
        seen = blocks is None or all(one.watched(blocks) for one in launch.launches)
        rows.append(
            Row(
                name, tried.sizes, str(order), kind, tried.comparison, tried.findings, tried.instructions,
                shipped=not found.spec.defines, grid=launch.blocks,
                blocks=None if blocks is None else tuple(blocks), watched=seen,
                details=tuple(f.to_json() for outcome in tried.outcomes for f in outcome.findings),
            )
        )  # fmt: skip
    return rows


def _launched(found: Chosen, build: Build, alone: bool) -> list[tuple[str, Build, Sizing]]:
    """Return the launches with their names: that of the spec, or of each of its kernels `alone`."""
    if not alone or found.spec.kernels == (found.spec,):
        return [(found.spec.name, build, found.launch)]
    each = zip(build.kernels, found.launch.launches, strict=True)
    return [(f"{found.spec.name}/{kernel.spec.name}", kernel, of) for kernel, of in each]


def _executed(
    found: Chosen, backend: Backend, seed: int, schedules: int, progress: Callable[[int, int], None] | None,
    executor: str,
) -> list[Row]:  # fmt: skip
    """Launches by one of the back end's executors, one for each order."""
    from tkgen.execute import modelled

    spec, launch = found.spec, found.launch
    executor = executor or next(iter(backend.executors))
    return [
        Row(
            spec.name, launch.extents, str(trial.order), trial.inputs, trial.comparison, trial.findings, trial.steps,
            shipped=not spec.defines, grid=launch.blocks, executor=executor,
            caption=backend.executors[executor].caption,
        )
        for trial in modelled.trials(backend, found, schedules, seed, progress, executor)
    ]  # fmt: skip


def _on_gpu(found: Chosen, backend: Backend, seed: int, cxx: str | None) -> Row:
    """One launch on a GPU, timed."""
    from tkgen.execute import gpu

    spec, launch = found.spec, found.launch
    backend.need_gpu()  # before the reference, which takes long
    wanted = gpu.expected(backend, launch, found.scalars, seed)
    comparison, again = gpu.compared_launch(backend, spec, launch, found.scalars, wanted, cxx)
    milliseconds = gpu.median_milliseconds(again)
    flops, moved = launch.flops, launch.moved_bytes
    return Row(
        spec=spec.name,
        sizes=launch.extents,
        schedule="gpu",
        inputs=Inputs.EXACT,
        comparison=comparison,
        findings=(),
        instructions=0,
        shipped=not spec.defines,
        grid=launch.blocks,
        milliseconds=milliseconds,
        tflops=flops / (milliseconds * 1e9) if flops else None,
        gbps=None if flops else moved / (milliseconds * 1e6),
    )
