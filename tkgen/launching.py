"""`tkgen run`: one spec, built and launched on the emulator or a GPU, as rows to show."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from tkgen.api import Spec, load
from tkgen.blocks import run_blocks, watched
from tkgen.emulate import EmulateError
from tkgen.numerics import TORCH, Comparison, Inputs, compare, random_inputs, reference
from tkgen.regression import blocks_text, size_cases
from tkgen.run import SizeError as SizeError
from tkgen.run import check_memory, check_scalars, grid, scalar_values, sizes, trials
from tkgen.run import run as emulate_once
from tkgen.syntax import ast
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

    @property
    def ok(self) -> bool:
        """Right numbers and nothing found."""
        return self.comparison.right and not self.findings

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return asdict(self) | {"inputs": self.inputs.value, "ok": self.ok}


def table(rows: Sequence[Row]) -> str:
    """Launches of one spec as text: which code at which sizes, a row for each launch, a line for all that is wrong.

    At most 80 columns wide, but for the findings.
    """
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("schedule", "inputs", "numbers"):
        shown.add_column(heading)
    measures = ("instructions", "findings") if rows[0].milliseconds is None else ("ms", "TFLOP/s")
    for heading in ("max error", "ulp", "bound", *measures):
        shown.add_column(heading, justify="right")
    for row in rows:
        c = row.comparison
        last: tuple[object, object] = row.instructions, len(row.findings) if row.watched else "unwatched"
        if row.milliseconds is not None:
            last = f"{row.milliseconds:.3f}", f"{row.tflops:.1f}"
        errors = (f"{c.max_error:.3g}", f"{c.ulps:.2g}", f"{c.bound:.3g}")
        shown.add_row(row.schedule, row.inputs.value, "right" if c.right else "WRONG", *errors, *map(str, last))
    text = io.StringIO()
    Console(file=text, width=200, color_system=None).print(shown, highlight=False)
    extents = " ".join(f"{n}={s}" for n, s in rows[0].sizes.items())
    wrong = [f"{row.schedule}: {row.comparison}" for row in rows if not row.comparison.right]
    found = [f"{row.schedule}: {finding}" for row in rows for finding in row.findings]
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    return "\n".join([f"{rows[0].spec}  {extents}  ({_code(rows[0])})", *lines, *wrong, *found])


def _code(row: Row) -> str:
    """Which code was run, and how much of the launch."""
    which = "as shipped" if row.shipped else "built for -D"
    return which if row.blocks is None else f"{which}; {blocks_text(row.blocks)} of {row.grid}"


def smallest(
    path: Path, defines: Mapping[str, int | None], target: str | None, roots: Sequence[Path]
) -> dict[str, float | None]:
    """`defines`, with values worth running for what they leave alone: the smallest sizes of the product, scalars."""
    spec = load(path, defines, target, roots)
    return {
        **size_cases(spec)[2],
        **check_scalars(spec.program),
        **{n: v for n, v in defines.items() if v is not None},
    }


def included(kernel: ast.Kernel) -> set[Path]:
    """The files that a spec includes."""

    def files(body: Sequence[ast.Statement]) -> set[Path]:
        found = {Path(s.span.file.name) for s in body if not isinstance(s, ast.Include)}
        return found.union(*(files(s.body) for s in body if isinstance(s, ast.Include | ast.Role)))

    return files(kernel.body)


@dataclass(frozen=True)
class Given:
    """The `-D` values of a launch: those known at build time, sizes of dynamic dimensions, scalars."""

    static: dict[str, int | None]
    extents: dict[str, int]
    scalars: dict[str, float]


def split_defines(path: Path, defines: Mapping[str, float | None], target: str | None, roots: Sequence[Path]) -> Given:
    """`-D` values by what they give. Raises SizeError for a size that is no whole number, and a `dynamic` scalar."""
    program = load(path, None, target, roots).program
    dynamic, scalars = {d.name for d in program.dims if d.size is None}, {s.name for s in program.scalars}
    given = Given({}, {}, {})
    for name, value in defines.items():
        if name in scalars and value is not None:
            given.scalars[name] = float(value)
        elif name in scalars:
            raise SizeError(f"{name} is a scalar: its value is a number, not `dynamic`")
        elif isinstance(value, float):
            raise SizeError(f"{name} = {value}: sizes are whole numbers, other numbers are for scalars")
        elif name in dynamic and value is not None:
            given.extents[name] = value
        else:
            given.static[name] = value
    return given


def run_spec(
    path: Path,
    defines: Mapping[str, float | None],
    target: str | None,
    roots: Sequence[Path],
    device: str,
    seed: int,
    schedules: int,
    workers: int,
    cxx: str | None,
    blocks: Sequence[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Row]:
    """Build and launch the spec at `path`, once per schedule.

    `defines` also gives dynamic dimensions their sizes, and scalars their values.

    `blocks` launches these alone (`tkgen.blocks`). `progress` is told blocks done, and of how many.

    Raises:
        SpecError: the spec is wrong, or its sizes are.
        SizeError: a dynamic dimension has no size, or one that the kernel cannot do; a scalar has no value; a block
            that is not there.
        ToolchainError: nothing here compiles or emulates it, or there is no GPU to run it on.
    """
    given = split_defines(path, defines, target, roots)
    spec = load(path, given.static, target, roots).check()
    scalars = scalar_values(spec.program, given.scalars)
    if device == "gpu":
        if blocks is not None:
            raise SizeError("a GPU launches all blocks: `--blocks` is for the emulator")
        return [_on_gpu(spec, given.extents, scalars, seed, cxx, not given.static)]
    build = spec.build(cxx=cxx).check()
    shape = sizes(spec.program, given.extents)
    total = grid(spec.program, shape)[0]
    rows = []
    for number, (order, kind) in enumerate(trials(schedules)):

        def done(count: int, before: int = number, each: int = total if blocks is None else len(blocks)) -> None:
            if progress is not None:
                progress(before * each + count, schedules * each)

        done(0)
        launch = partial(emulate_once, build) if blocks is None else partial(run_blocks, build, blocks)
        try:
            tried = launch(
                extents=given.extents, seed=seed, kind=kind, scalars=scalars, order=order, workers=workers,
                progress=done,
            )  # fmt: skip
        except EmulateError as error:
            raise ToolchainError(str(error)) from error
        findings = tuple(str(f) for f in tried.outcome.findings)
        shown = (spec.name, tried.sizes, str(order), kind)
        own = None if blocks is None else tuple(blocks)
        seen = own is None or watched(spec.program, shape, own)
        counts = (tried.outcome.instructions, not given.static, total)
        rows.append(Row(*shown, tried.comparison, findings, *counts, own, seen))
    return rows


def _on_gpu(
    spec: Spec, given: Mapping[str, int], scalars: Mapping[str, float], seed: int, cxx: str | None, shipped: bool
) -> Row:
    """One launch through the built Python module, timed by events: median of 20 after 3 warm-ups."""
    import importlib.util
    import statistics
    import tempfile

    import torch

    if not torch.cuda.is_available() or torch.version.hip is None:
        raise ToolchainError(
            "no AMD GPU here that torch can use (it needs a ROCm build of torch and the amdgpu driver); "
            "`--device emulator` runs without one"
        )
    program = spec.program
    extents = sizes(program, given)
    check_memory(program, extents)
    inputs = random_inputs(program, extents, seed)
    expected, bound = reference(program, inputs, scalars)
    with tempfile.TemporaryDirectory() as folder:
        path = spec.build(cxx=cxx).write(Path(folder), ("module",))["module"]
        found = importlib.util.spec_from_file_location(spec.name, path)
        assert found is not None and found.loader is not None
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
    out = program.accumulator.tensor
    tensors = {name: t.cuda() for name, t in inputs.items()}
    if out.name not in tensors:
        tensors[out.name] = torch.full(
            [extents[d.name] for d in out.dims], float("nan"), dtype=TORCH[out.dtype], device="cuda"
        )
    order = [t.name for t in program.tensors if t.name in tensors]
    arguments = [*(tensors[n] for n in order), *scalars.values(), torch.cuda.current_stream().cuda_stream]
    module.dispatch(*arguments)
    torch.cuda.synchronize()
    comparison = compare(tensors[out.name].cpu(), expected, bound)
    times = []
    for launch in range(23):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        module.dispatch(*arguments)
        end.record()
        torch.cuda.synchronize()
        if launch >= 3:
            times.append(begin.elapsed_time(end))
    milliseconds = statistics.median(times)
    flops = 2 * extents[program.m.name] * extents[program.n.name] * extents[program.k.name]
    return Row(
        spec.name, extents, "gpu", Inputs.EXACT, comparison, (), 0, shipped, grid(program, extents)[0],
        milliseconds=milliseconds, tflops=flops / (milliseconds * 1e9),
    )  # fmt: skip
