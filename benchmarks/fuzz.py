"""Differential fuzzing: random specs over the whole language; each accepted one is built, emulated and compared.

    python benchmarks/fuzz.py --seed 0 --count 300 -j 2     a table, and the seed of every failure
    python benchmarks/fuzz.py --seed 1234 --show            one seed again: its spec, and what becomes of it

A spec is a function of its seed alone. What the checks refuse must come with diagnostics; what they accept must
compile, give the right numbers on several interleavings of the waves, and leave the race referee nothing to say.
Anything else, an exception above all, is a failure of tkgen.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

EPILOGUES = ("relu", "gelu", "gelu_tanh", "silu")
LDS_BYTES = 65536


# ---------------------------------------------------------------- the generator


@dataclass(frozen=True)
class Sample:
    """A spec as text, and sizes of its dynamic dimensions."""

    seed: int
    text: str
    extents: dict[str, int] = field(default_factory=dict)


@dataclass
class Draft:
    """What has been decided of a spec; all sizes in elements."""

    rng: random.Random
    bytes: int = 2
    dtype: str = "bf16"
    waves: tuple[int, int] = (2, 2)
    tile: tuple[int, int] = (32, 32)
    block: tuple[int, int, int] = (128, 128, 64)
    buffers: int = 1
    via: str = ""
    slice: int = 0
    register_buffers: int = 1
    unroll: int = 1
    steps: int = 3
    roles: bool = False
    grid: str = ""

    @property
    def fragments(self) -> tuple[int, int]:
        rows, cols = (b // (t * w) for b, t, w in zip(self.block, self.tile, self.waves, strict=False))
        return rows, cols

    @property
    def slices(self) -> int:
        return self.block[2] // (self.slice or self.block[2])

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability


def sample(seed: int) -> Sample:
    """The spec of a seed."""
    rng = random.Random(seed)
    draft = Draft(rng)
    _shapes(draft)
    head, extents, inputs = _data(draft)
    lines = [*head, *_mapping(draft)]
    return Sample(seed, "\n".join([f"kernel fuzz_{seed}", *lines, *_work(draft, inputs)]) + "\n", extents)


def _shapes(d: Draft) -> None:
    """Types, waves, tiles, block and step, small enough to run and mostly small enough to fit."""
    rng = d.rng
    d.dtype, d.bytes = rng.choice([("bf16", 2), ("bf16", 2), ("bf16", 2), ("f16", 2), ("f16", 2), ("f32", 4)])
    d.waves = rng.choice(
        [(1, 1), (1, 2), (2, 1), (2, 2), (2, 2), (4, 1), (1, 4), (4, 2), (4, 2), (2, 4), (8, 1), (3, 1)]
    )
    for _ in range(100):
        d.tile = (rng.choice([16, 32, 32, 48, 64]), rng.choice([16, 32, 32, 48, 64]))
        fragments = (rng.choice([1, 1, 2, 2, 3]), rng.choice([1, 1, 2, 2, 4]))
        rows, cols = (t * w * f for t, w, f in zip(d.tile, d.waves, fragments, strict=True))
        if rows * cols <= 128 * 256 and prod(d.tile) * prod(fragments) <= 64 * 128:
            break
    step = rng.choice([16, 32, 32, 48, 64, 64, 96, 128])
    while (rows + cols) * step * d.bytes > LDS_BYTES and step > 16:
        step //= 2
    step = max(step // 16 * 16, 16)
    d.block = (rows, cols, step)
    fit = LDS_BYTES // max((rows + cols) * step * d.bytes, 1)
    d.buffers = rng.choice([b for b in (1, 1, 2, 2, 3, 4) if b <= fit] or [1])
    d.via = rng.choice(["", "", "", "collective", "registers", "registers", "direct" if d.chance(0.1) else ""])
    slices = [s for s in (16, 32, 48, 64) if step % s == 0]
    d.slice = rng.choice([0, 0, *slices])
    d.register_buffers = rng.choice([1, 1, 2]) if d.slices > 1 or d.chance(0.2) else 1
    d.unroll = rng.choice([1, 1, 1, 1, 2, 3])
    d.steps = rng.choice([1, 2, 3, 4, 5, 6])
    d.roles = d.chance(0.35)
    d.grid = rng.choice(["persistent", "split_k", "stream_k"]) if d.chance(0.25) else ""


def _data(d: Draft) -> tuple[list[str], dict[str, int], list[str]]:
    """Dimensions, tensors and scalars; the sizes of dynamic dimensions; the epilogue's steps."""
    rng = d.rng
    ragged = d.chance(0.2)
    sizes = {"M": d.block[0] * rng.choice([1, 1, 2, 3]), "N": d.block[1] * rng.choice([1, 1, 2, 3])}
    sizes["K"] = d.block[2] * d.steps * (d.unroll if d.chance(0.9) else 1)
    lines = []
    if ragged:
        chunk = rng.choice([16 // d.bytes, 16 // d.bytes, 1])
        for name in sizes:
            if d.chance(0.7):
                sizes[name] = max(sizes[name] - chunk * rng.randint(1, 6), chunk)
        lines.append(f"tail {rng.choice(['masked', 'masked', 'masked', 'clamped'])}")
    dynamic = [name for name in sizes if d.chance(0.12)]
    extents = {name: sizes[name] for name in dynamic}
    named = ", ".join(f"{n} = {'dynamic' if n in dynamic else s}" for n, s in sizes.items())
    a, b = rng.choice(["M, K", "M, K", "K, M"]), rng.choice(["N, K", "N, K", "K, N"])
    out = rng.choice(["f32", "f32", "f32", "bf16", "f16"]) if d.grid not in ("split_k", "stream_k") else "f32"
    other = d.dtype if d.chance(0.98) else rng.choice(["bf16", "f16", "f32"])
    tensors = [f"global A : {d.dtype}[{a}]", f"global B : {other}[{b}]", f"global C : {out}[M, N]"]
    steps, extra = _epilogue(d)
    shown = [f"dims {named}", *tensors, *extra, f"block {d.block[0]} x {d.block[1]} step {d.block[2]}", *lines]
    if "K, " in a or ", K" not in b:
        shown.append("allow slow_reads")
    return [f"  {line}" for line in shown], extents, steps


def _epilogue(d: Draft) -> tuple[list[str], list[str]]:
    """Steps, and the tensors and scalars that they need."""
    rng, steps, extra = d.rng, [], []
    if d.chance(0.6) or d.grid in ("split_k", "stream_k"):
        return [], []
    kinds = rng.sample(["scale", "add", "bias", rng.choice(EPILOGUES)], rng.randint(1, 3))
    for kind in kinds:
        if kind == "scale":
            factor = rng.choice(["alpha", "0.5", "2"])
            if factor == "alpha":
                extra.append("scalar alpha : f32 = 1.25")
            steps.append(f"scale({factor})")
        elif kind == "add":
            extra.append(f"global D : {rng.choice(['f32', 'bf16', 'f16'])}[M, N]")
            steps.append(rng.choice(["add(D, 0.5)", "add(D)"]))
        elif kind == "bias":
            extra.append(f"global v : {rng.choice(['f32', 'bf16', 'f16'])}[{rng.choice('MN')}]")
            steps.append("bias(v)")
        else:
            steps.append(kind)
    return steps, extra


def _mapping(d: Draft) -> list[str]:
    """The order of the blocks."""
    rng, lines = d.rng, []
    if d.chance(0.4):
        stages = rng.sample(["row_major", "column_major", "group(rows = 2)", "group(rows = 3)", "morton", "hilbert"], 1)
        if d.chance(0.5):
            stages.insert(0, rng.choice(["xcd(8)", "xcd(8, chunk = 2)", "xcd(2, chunk = 3)"]))
        lines.append(f"remap {' | '.join(stages)}")
    if d.grid:
        lines.append(f"grid {d.grid}({rng.choice([1, 2, 2, 3, 5])})")
    if d.unroll > 1:
        lines.append(f"unroll {d.unroll}")
    return [f"  {line}" for line in lines]


def _work(d: Draft, epilogue: list[str]) -> list[str]:
    """Waves and roles, LDS, registers, accumulator, schedule."""
    rng = d.rng
    shared = [_shared(d, "A, B", d.buffers)]
    if d.chance(0.15):
        shared = [_shared(d, "A", d.buffers), _shared(d, "B", max(d.buffers - 1, 1))]
    registers = []
    if d.slice or d.register_buffers > 1:
        text = "registers A, B" + (f" slice {d.slice}" if d.slice else "")
        registers = [text + (f" buffers {d.register_buffers}" if d.register_buffers > 1 else "")]
    arrangement = rng.choice(["", " interleaved", " blocked"])
    mfma = " mfma 32 x 32" if all(t % 32 == 0 for t in d.tile) and d.block[2] % 32 == 0 and d.chance(0.3) else ""
    accumulate = f"accumulate C : f32 tile {d.tile[0]} x {d.tile[1]}{arrangement}{mfma}"
    finish = [*([f"epilogue {' | '.join(epilogue)}"] if epilogue else []), "store C"]
    compute = [*registers, accumulate, *finish]
    if d.roles:
        return [*(f"  {line}" for line in shared), *_roles(d, compute)]
    count = prod(d.waves)
    load = []
    if d.chance(0.1):
        load = [f"load A, B by {rng.choice([count, *(n for n in (1, 2, 4) if n <= count and d.chance(0.2))])} waves"]
    waves = f"waves {d.waves[0]} x {d.waves[1]}"
    return [*(f"  {line}" for line in [waves, *shared, *load, *compute]), *_schedule(d)]


def _shared(d: Draft, operands: str, buffers: int) -> str:
    text = f"shared {operands}" + (f" buffers {buffers}" if buffers > 1 or d.chance(0.5) else "")
    return text + (f" via {d.via}" if d.via else "")


def _roles(d: Draft, compute: list[str]) -> list[str]:
    """Producers before or behind the consumers, alone or one for each operand."""
    rng, consumers = d.rng, prod(d.waves)
    producers = rng.choice([1, 2, 3, 4, 4, 8])
    first = d.chance(0.8)
    at = 0 if first else consumers

    def span(start: int, count: int) -> str:
        return f"{start}..{start + count - 1}" if count > 1 else f"{start}"

    split = producers > 1 and d.chance(0.25)
    written = d.chance(0.25)
    header = rng.choice(["", " barriers auto waits auto", " waits auto"])
    early, late = {"registers": ("fetch", "write"), "direct": ("copy", "")}.get(d.via, ("load", ""))
    step = "[k+1]" if d.buffers > 1 else ""
    shares = [("AB", producers)] if not split else [("A", producers // 2), ("B", producers - producers // 2)]
    made = []
    for number, (operands, count) in enumerate(shares):
        group = rng.choice([0, 0, 0, count, *(n for n in (1, 2, 4, 8) if n <= count and d.chance(0.15))])
        by = f" by {group} waves" if group else ""
        made.append(f"  role producer{number or ''} waves {span(at, count)}")
        made.append(f"    load {', '.join(operands)}{by}")
        if written:
            moves = " ".join(f"{early} {o}{step}" for o in operands) + (
                f"  write {' '.join(f'{o}{step}' for o in operands)}" if late else ""
            )
            made += [
                f"    schedule{header}",
                f"      cluster {moves}",
                *(["      cluster wait lds 0"] if d.chance(0.2) else []),
            ]
        at += count
    start = producers if first else 0
    consumer = [f"  role consumer waves {span(start, consumers)} as {d.waves[0]} x {d.waves[1]}"]
    consumer += [f"    {line}" for line in compute]
    if written:
        reads = [f"read A(*; {s}) B(*; {s})  wait lds 0  multiply slice {s}" for s in range(d.slices)]
        consumer.append(f"    schedule{header}")
        consumer += [f"      {'cluster' if i == 0 or d.chance(0.2) else 'group'} {r}" for i, r in enumerate(reads)]
        consumer += ["      cluster multiply"] if d.chance(0.05) else []
    return [*made, *consumer] if first else [*consumer, *made]


# ---------------------------------------------------------------- written schedules


def _schedule(d: Draft) -> list[str]:
    """None, one by name, or one written from `_clusters`, now and then with a mistake."""
    rng, indent = d.rng, "  "
    if d.chance(0.5):
        return []
    if d.chance(0.45):
        fitting = {8: ["ping_pong"] * 4, 4: ["interleave"] * 4}.get(prod(d.waves), [])
        return [f"{indent}schedule {rng.choice(['auto', 'auto', 'simple', *fitting, 'ping_pong', 'interleave'])}"]
    automatic = d.chance(0.5)
    header = " barriers auto waits auto" if automatic else rng.choice(["", "", " waits auto", " barriers auto"])
    lines = [f"{indent}schedule{header}"]
    groups = list(_clusters(d))
    if d.chance(0.15):  # a mistake now and then: the checks must see it, or it is none
        index = rng.randrange(len(groups))
        rng.choice([groups[index].clear, lambda: groups.insert(0, groups.pop())])()
    for operations in groups:
        if operations:
            word = "cluster" if d.chance(0.3 if automatic else 0.85) else "group"
            lines.append(f"{indent}  {word} {'  '.join(operations)}")
    count = prod(d.waves)
    if d.chance(0.2) and count % 2 == 0:
        lines.insert(0, f"{indent}phase waves {count // 2}..{count - 1} by {rng.choice([1, 1, 2])} clusters")
    return lines


def _clusters(d: Draft) -> Iterator[list[str]]:
    """One K-step, as groups of operations: moves of this or the next step between reads and multiplies."""
    rng = d.rng
    ahead = d.buffers > 1 or d.via == "registers" or d.chance(0.1)
    step = rng.choice(["[k+1]", "[k+1]", "[k+2]" if d.buffers > 2 else "[k+1]"]) if ahead else ""
    early, late = {"registers": ("fetch", "write"), "direct": ("copy", "")}.get(d.via, ("load", ""))
    bare = d.chance(0.25)
    slices = 1 if bare else d.slices
    opening = [f"{early} A{step} B{step}"] if d.chance(0.7) else [f"{early} A{step}", f"{early} B{step}"]
    closing = [f"write A{step} B{step}"] if late else []
    if not ahead:
        yield [*opening, *closing]
        opening, closing = [], []
    ready = ["wait lds 0"] if d.chance(0.4) else []
    first_read = d.chance(0.5)
    for number in range(slices):
        read = "read A B" if slices == 1 and d.chance(0.6) else f"read A(*; {number}) B(*; {number})"
        rows = d.fragments[0]
        multiply = "multiply" if slices == 1 and d.chance(0.6) else f"multiply slice {number}"
        multiplies = [multiply]
        if rows > 1 and d.chance(0.25):
            cut = rng.randrange(1, rows)
            multiplies = [f"multiply (0..{cut - 1}, *; {number})", f"multiply ({cut}..{rows - 1}, *; {number})"]
        before = [opening.pop(0)] if opening and (number > 0 or d.chance(0.7)) else []
        yield [*([read, *before] if first_read else [*before, read]), *ready]
        priority = ["priority high"] if d.chance(0.3) else []
        if d.chance(0.5):
            yield [*priority, *multiplies]
        else:
            for part in multiplies:
                yield [*priority, part]
    waits = ["wait vm 0"] if late and d.chance(0.5) else []
    rest = [*opening, *waits, *closing, *(["wait lds 0"] if closing and d.chance(0.7) else [])]
    if rest:
        yield rest


# ---------------------------------------------------------------- what becomes of one


@dataclass(frozen=True)
class Result:
    """`verdict` is `accepted`, `rejected` or `FAILED`; `detail` the codes of a rejection, or what failed."""

    seed: int
    verdict: str
    detail: str
    seconds: float
    instructions: int = 0


def attempt(seed: int, schedules: int = 4) -> Result:
    """Check the spec of a seed and, if it is accepted, build, emulate and compare it. Never raises."""
    start = time.perf_counter()
    made = sample(seed)
    try:
        verdict, detail, instructions = judge(made, schedules)
    except Exception as error:
        places = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)[-3:]]
        verdict, detail, instructions = "FAILED", f"{type(error).__name__}: {error} ({', '.join(places)})", 0
    return Result(seed, verdict, detail, time.perf_counter() - start, instructions)


def judge(made: Sample, schedules: int) -> tuple[str, str, int]:
    """The verdict on a spec, its detail, and the instructions emulated; what tkgen should not raise passes through."""
    from tkgen.api import load
    from tkgen.diagnostics import Severity, SpecError
    from tkgen.emulate import interleavings
    from tkgen.run import check_sizes, run, sizes

    with tempfile.TemporaryDirectory(prefix="tkgen-fuzz-") as folder:
        path = Path(folder) / f"fuzz_{made.seed}.tk"
        path.write_text(made.text)
        try:
            spec = load(path).check()
            build = spec.build()
            build.check()
        except SpecError as error:
            codes = sorted({d.code for d in error.diagnostics if d.severity is Severity.ERROR})
            if not codes or not all(d.message and (d.primary or d.code == "E405") for d in error.diagnostics):
                return "FAILED", f"a rejection that says nothing: {error}", 0
            return "rejected", " ".join(codes), 0
        shape = spec.plan.shape
        try:
            check_sizes(spec.program, shape.unroll, shape.tail_iterations, sizes(spec.program, made.extents))
        except ValueError as error:
            return "rejected", f"sizes at launch: {str(error).split(':')[-1].strip()}", 0
        instructions = 0
        for order in interleavings(schedules):
            tried = run(build, extents=made.extents, seed=made.seed, order=order)
            instructions += tried.outcome.instructions
            if tried.outcome.findings:
                shown = "\n".join(str(f) for f in tried.outcome.findings[:3])
                return "FAILED", f"{order}: {len(tried.outcome.findings)} findings\n{shown}", instructions
            c = tried.comparison
            if not c.right:
                what = f"{c.wrong} of {c.elements} wrong, {c.nan} NaN, largest error {c.max_error:.3g}"
                return "FAILED", f"{order}: {what}", instructions
            out = spec.program.accumulator.tensor.name
            for buffer in {w.buffer.name: w.buffer for w in tried.outcome.written}.values():
                if buffer.name == out and tried.outcome.unwritten(buffer):
                    return "FAILED", f"{order}: bytes of {out} are never written", instructions
    return "accepted", "", instructions


def accepted_seeds(first: int, count: int) -> Iterator[int]:
    """The first `count` seeds from `first` on whose specs the checks accept."""
    from tkgen.api import load
    from tkgen.diagnostics import SpecError

    seed = first
    with tempfile.TemporaryDirectory(prefix="tkgen-fuzz-") as folder:
        path = Path(folder) / "spec.tk"
        while count:
            path.write_text(sample(seed).text)
            try:
                load(path).check()
            except SpecError:
                pass
            else:
                count -= 1
                yield seed
            seed += 1


# ---------------------------------------------------------------- the command


def sweep(first: int, accepted: int, jobs: int, schedules: int) -> list[Result]:
    """Seeds from `first` on, until `accepted` of them were accepted or failed; prints failures as they come."""
    results: list[Result] = []
    counted = 0
    seeds = iter(range(first, first + 100 * accepted))
    with ProcessPoolExecutor(jobs) as pool:
        while counted < accepted:
            batch = [next(seeds) for _ in range(8 * jobs)]
            for result in pool.map(attempt, batch, [schedules] * len(batch)):
                results.append(result)
                counted += result.verdict != "rejected"
                if result.verdict == "FAILED":
                    print(f"seed {result.seed} FAILED: {result.detail}", flush=True)
            if sys.stderr.isatty():
                print(f"{counted} of {accepted}, {len(results)} tried", end="\r", file=sys.stderr, flush=True)
    return results


def table(results: Sequence[Result]) -> str:
    """Counts by verdict, rejections by code, failures by seed."""
    verdicts = Counter(r.verdict for r in results)
    codes = Counter(code for r in results if r.verdict == "rejected" for code in _codes(r))
    lines = [f"{'specs':<28}{len(results):>8}"]
    lines += [f"{verdict:<28}{verdicts[verdict]:>8}" for verdict in ("accepted", "rejected", "FAILED")]
    lines += [f"  rejected: {code:<16}{count:>8}" for code, count in sorted(codes.items())]
    lines.append(f"{'instructions emulated':<28}{sum(r.instructions for r in results):>8}")
    lines.append(f"{'seconds of work':<28}{sum(r.seconds for r in results):>8.0f}")
    failed = [str(r.seed) for r in results if r.verdict == "FAILED"]
    if failed:
        lines.append(f"failed seeds (replay: python benchmarks/fuzz.py --seed N --show): {' '.join(failed)}")
    return "\n".join(lines)


def _codes(result: Result) -> list[str]:
    return ["sizes at launch"] if result.detail.startswith("sizes") else result.detail.split()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=300, help="accepted specs wanted")
    parser.add_argument("--schedules", type=int, default=4, help="interleavings of each")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="this one seed: its spec and its fate")
    options = parser.parse_args()
    if options.show:
        print(sample(options.seed).text)
        result = attempt(options.seed, options.schedules)
        print(f"{result.verdict} {result.detail}\n{result.seconds:.1f} s, {result.instructions} instructions")
        return int(result.verdict == "FAILED")
    results = sweep(options.seed, options.count, options.jobs, options.schedules)
    print(table(results))
    return int(any(r.verdict == "FAILED" for r in results))


if __name__ == "__main__":
    sys.exit(main())
