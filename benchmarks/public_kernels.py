"""Kernels of public projects as specs: how many are accepted, and right, on each target.

    python benchmarks/public_kernels.py [NAME...] [--target TARGET] [--check] [--results FILE] [--write]

`benchmarks/public/PROJECT/KERNEL.tk` is what a kernel of that project computes, written from its documentation.
Comments above a spec say how it is run: `# sizes: NAME=VALUE ...`; `# input NAME: EXPRESSION`, where random numbers do
not suit a tensor; `# within LIMIT`, where a type between input and output is coarser than the output's; and
`# torch: STATEMENT`, lines that leave torch's result of each output under its name (`dtype[NAME]` is the type of one).
Torch computes in f32, on the same inputs. Machine code runs on the emulator, for sm_90a the generated C++ on the CPU.

A kernel is right if each output that `# torch` names is that of torch, within a tolerance by its type, all outputs are
those of the equations, and the race referee finds nothing. Results go to FILE, a line each; what is there is not run
again. `--write` makes docs/public-kernels.md of FILE.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F

from tkgen.backends.registry import backend_of
from tkgen.diagnostics import SpecError
from tkgen.emulate import Interleaving
from tkgen.execute import given
from tkgen.execute.compare import Inputs, compared, random_inputs, references
from tkgen.execute.launch import emulate_all
from tkgen.execute.modelled import in_order
from tkgen.ir.types import Tensor

HERE = Path(__file__).parent
KERNELS = HERE / "public"
PAGE = HERE.parent / "docs" / "public-kernels.md"
TARGETS = ("gfx90a", "gfx942", "gfx950", "sm_90a")
BEGIN, END = "<!-- kernels: python benchmarks/public_kernels.py --write -->", "<!-- end -->"
LIMITS = {
    1: 0.13,
    2: 0.02,
    4: 0.005,
}  # by the bytes of an element: of the error, beside the number plus their root mean square


@dataclass(frozen=True)
class Row:
    """A kernel on a target: `right`, `wrong`, `refused` or `failed`, with the error's code and what was said."""

    kernel: str
    target: str
    verdict: str
    code: str = ""
    said: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Kernel:
    """A spec with what its comments say."""

    path: Path
    title: str
    sizes: Mapping[str, int]
    inputs: Mapping[str, str]
    torch: str
    limit: float  # of the error; 0 where the types of outputs say it

    @property
    def name(self) -> str:
        """`project/kernel`."""
        return f"{self.path.parent.name}/{self.path.stem}"


def kernel(path: Path) -> Kernel:
    """The kernel of a file of `benchmarks/public`."""
    head = [line[1:].strip() for line in path.read_text(encoding="utf-8").split("\n") if line.startswith("# ")]
    lines = path.read_text(encoding="utf-8").split("\n")
    sizes = next(line.removeprefix("sizes: ") for line in head if line.startswith("sizes: "))
    inputs = dict(line.removeprefix("input ").split(": ", 1) for line in head if line.startswith("input "))
    code = "\n".join(line.removeprefix("# torch: ") for line in lines if line.startswith("# torch: "))
    pairs = (pair.split("=") for pair in sizes.split())
    limit = next((float(line.removeprefix("within ")) for line in head if line.startswith("within ")), 0.0)
    return Kernel(path, head[0], {name: int(value) for name, value in pairs}, inputs, code, limit)


def far(tensor: Tensor, got: torch.Tensor, wanted: torch.Tensor, limit: float) -> str:
    """The distance of an output from torch's, where that is further than `limit`; else an empty text.

    Rows that torch's result has not, and its NaNs, stand for what the kernel does not write.
    """
    got = got[: wanted.shape[0]]
    if got.shape != wanted.shape:
        return f"{tensor.name} is {tuple(got.shape)}, torch's {tuple(wanted.shape)}"
    asked = ~wanted.isnan()
    got, wanted = got.double()[asked], wanted.double()[asked]
    if not got.numel():
        return ""
    error = (got - wanted).abs()
    if tensor.dtype.whole:
        off, most = error.max().item(), 1 if tensor.dtype.bytes == 1 else 0
        return f"{tensor.name} differs by {off:.3g} from torch's" if off > most else ""
    unit = wanted.abs() + wanted[wanted.isfinite()].square().mean().sqrt()
    off = torch.where(got == wanted, 0.0, error / unit).nan_to_num(math.inf).max().item()
    return f"{tensor.name} differs by {off:.2g} from torch's" if off > limit else ""


def grouped(offsets: torch.Tensor, rows: int, of: Callable[[int, slice], torch.Tensor]) -> torch.Tensor:
    """A tensor with the result of `of` for each group and its rows in the place of these rows, and NaN elsewhere."""
    bounds = offsets.tolist()
    slices = [slice(first, end) for first, end in pairwise(bounds)]
    parts = [of(group, where) for group, where in enumerate(slices)]
    made = torch.full((rows, *parts[0].shape[1:]), math.nan)
    for where, part in zip(slices, parts, strict=True):
        made[where] = part
    return made


def ran(one: Kernel, target: str) -> Iterator[str]:
    """Run a kernel that is accepted; what is wrong."""
    torch.manual_seed(1)
    found = given.Asked(one.path, one.sizes, target).chosen()
    inputs = random_inputs(found.launch, 1, Inputs.NORMAL)
    sizes = {d.name: d.size for d in found.launch.program.dims}
    names: dict[str, object] = {"torch": torch, "F": F, "math": math, "grouped": grouped, **sizes, **found.scalars}
    for name, expression in one.inputs.items():
        inputs[name] = eval(expression, {**names}).to(inputs[name].dtype)
    given_as = {t.name: [d.size or 0 for d in t.declared] for t in found.launch.program.reads if t.declared}
    for name, drawn in inputs.items():
        value = drawn if drawn.dtype == torch.int32 else drawn.float()
        names[name] = value.reshape(given_as[name]) if name in given_as else value
    back_end = backend_of(target)
    if back_end.emulated:
        build = found.spec.build()
        written, outcomes = emulate_all(build, found.launch, inputs, found.scalars, order=Interleaving())
        findings: Iterable[str] = (str(f) for outcome in outcomes for f in outcome.findings)
    else:
        found.spec.build()
        executor = next(iter(back_end.executors.values()))
        made = in_order(executor, found.spec, found.launch, inputs, found.scalars, executor.orders(1)[0])
        written, findings = dict(made.outputs), made.findings
    yield from findings
    meant = references(found.launch, inputs, found.scalars)
    yield from (f"{name}: {c}" for name, c in compared(written, meant, found.launch.written).items() if not c.right)
    wanted = {**names, "dtype": {name: value.dtype for name, value in written.items()}}
    exec(one.torch, wanted)
    for tensor in found.launch.written:
        meant_by_torch, got = wanted.get(tensor.name), written[tensor.name]
        if isinstance(meant_by_torch, torch.Tensor) and meant_by_torch is not names.get(tensor.name):
            same_shape = meant_by_torch.reshape(got.shape) if tensor.declared else meant_by_torch
            yield from filter(None, [far(tensor, got, same_shape, one.limit or LIMITS[tensor.dtype.bytes])])


def judged(one: Kernel, target: str, check: bool) -> Row:
    """A kernel on a target; with `check` it is not run."""
    start = time.process_time()
    try:
        given.Asked(one.path, {}, target).chosen()
    except SpecError as error:
        first = error.diagnostics[0]
        return Row(one.name, target, "refused", first.code, first.message)
    if check:
        return Row(one.name, target, "accepted")
    try:
        said = next(ran(one, target), "")
    except SpecError as error:
        return Row(
            one.name, target, "refused", error.diagnostics[0].code, f"at {one.sizes}: {error.diagnostics[0].message}"
        )
    except Exception as error:  # whatever it is belongs into the table
        return Row(one.name, target, "failed", type(error).__name__, str(error)[:300])
    return Row(one.name, target, "wrong" if said else "right", "", said, time.process_time() - start)


def page(rows: Iterable[Row]) -> str:
    """The tables of docs/public-kernels.md."""
    found = {(row.kernel, row.target): row for row in rows}
    kernels = [kernel(path) for path in sorted(KERNELS.glob("*/*.tk"))]
    projects = sorted({one.path.parent.name for one in kernels})
    lines = ["| project | kernels | " + " | ".join(TARGETS) + " |", "|---|--:|" + "--:|" * len(TARGETS)]
    for project in [*projects, ""]:
        mine = [one for one in kernels if project in ("", one.path.parent.name)]
        counts = [
            sum((r := found.get((one.name, t))) is not None and r.verdict == "right" for one in mine) for t in TARGETS
        ]
        lines.append(f"| {project or 'all'} | {len(mine)} | " + " | ".join(map(str, counts)) + " |")
    lines += ["", "| kernel | " + " | ".join(TARGETS) + " |", "|---|" + "---|" * len(TARGETS)]
    for one in kernels:
        cells = [found.get((one.name, t)) for t in TARGETS]
        said = [("yes" if c.verdict == "right" else c.code or c.verdict) if c else "" for c in cells]
        lines.append(f"| {one.title.rstrip('.')} | " + " | ".join(said) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run kernels that are not in the results yet, and print each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of names; all kernels if there are none")
    parser.add_argument("--target", action="append", choices=TARGETS)
    parser.add_argument("--check", action="store_true", help="check the specs and run nothing")
    parser.add_argument("--results", type=Path, help="a file of results, read and continued")
    parser.add_argument("--write", action="store_true", help="write the page from the results, and run nothing")
    args = parser.parse_args()
    rows = (
        [Row(**json.loads(line)) for line in args.results.read_text("utf-8").splitlines()]
        if args.results and args.results.exists()
        else []
    )
    if args.write:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(re.sub(f"(?s)(?<={BEGIN}\n).*(?={END})", lambda _: f"{page(rows)}\n", text), encoding="utf-8")
        return
    have = {(row.kernel, row.target) for row in rows}
    for path in sorted(KERNELS.glob("*/*.tk")):
        one = kernel(path)
        for target in args.target or TARGETS:
            if (one.name, target) in have or not all(name in one.name for name in args.names):
                continue
            row = judged(one, target, args.check)
            print(f"{row.kernel:40} {target:7} {row.verdict:8} {row.code} {row.said[:150]}", flush=True)
            if args.results:
                with args.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(row)) + "\n")


if __name__ == "__main__":
    main()
