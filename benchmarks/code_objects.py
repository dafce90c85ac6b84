"""Damaged code objects: whatever the bytes are, tkgen says what is wrong, in bounded time and memory.

    python benchmarks/code_objects.py --count 2000        a table, and the seed of every failure
    python benchmarks/code_objects.py --seed 17 --show    one seed again: what was changed, and what each command said

A mutant is a code object of `SPECS` with its headers, metadata, kernel descriptor, code or any bytes changed; it is a
function of its seed alone. It goes through everything that reads code objects: the search for compilers, `build` with
the machine check, `run`, `sanitize`, `predict`, and a launch on the emulator. Each ends with a documented exit code and
a sentence; a traceback, a crash of the process, more than `SECONDS` or more than `MEGABYTES` is a failure. Every mutant
has its own process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tkgen.build import Build

ROOT = Path(__file__).parent.parent
# Small kernels of each target: static and dynamic sizes, direct loads, a persistent grid, roles.
SPECS = (
    ("one_wave", "gfx942", "M=64,N=64,K=64"),
    ("hk_eight_wave", "gfx950", "M=256,N=256,K=128"),
    ("dynamic_sizes", "gfx90a", "M=128,N=128,K=64"),
    ("persistent", "gfx942", "M=256,N=256,K=64"),
    ("producer_consumer_4p4c", "gfx942", "M=128,N=128,K=128"),
)
SECONDS, MEGABYTES = 60, 1024  # of one mutant, in all commands together
BUDGET = 20_000  # instructions of a block
CODES = (0, 1, 2, 3)


# ---------------------------------------------------------------- mutants


@dataclass(frozen=True)
class Parts:
    """Ranges of bytes of the parts of a code object."""

    headers: range
    metadata: range
    descriptor: range
    code: range


@cache
def built(spec: str, target: str, sizes: str) -> Build:
    """The build of a spec."""
    from tkgen.api import load

    defines = {name: int(value) for name, _, value in (word.partition("=") for word in sizes.split(","))}
    dims = load(ROOT / "specs" / f"{spec}.tk", target=target).program.dims
    static = {d.name: defines[d.name] for d in dims if d.size is not None}
    return load(ROOT / "specs" / f"{spec}.tk", static, target).check().build(machine_check=False)


@cache
def parts(data: bytes) -> Parts:
    """The parts of a good code object."""
    import io

    from elftools.elf.elffile import ELFFile

    from tkgen.emulate import load

    elf = ELFFile(io.BytesIO(data))
    note = next(s for s in elf.iter_segments() if s["p_type"] == "PT_NOTE")
    code = load(data)
    kernel = code.kernels[0]
    text = next(s for s in elf.iter_segments() if s["p_flags"] & 1)

    def offset(address: int) -> int:
        segment = next(s for s in elf.iter_segments()
                       if s["p_type"] == "PT_LOAD" and 0 <= address - s["p_vaddr"] < s["p_filesz"])  # fmt: skip
        return int(address - segment["p_vaddr"] + segment["p_offset"])

    descriptor = offset(kernel.entry - kernel.descriptor.entry_offset)
    return Parts(
        range(0, 64 + 56 * elf.num_segments()),
        range(note["p_offset"], note["p_offset"] + note["p_filesz"]),
        range(descriptor, descriptor + 64),
        range(offset(kernel.entry), text["p_offset"] + text["p_filesz"]),
    )


def mutant(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """A description of the change, and the code object with it."""
    where = parts(data)
    kinds = ["headers", "sections", "metadata", "values", "values", "descriptor", "code", "code", "any", "cut"]
    kind = rng.choice(kinds)
    if kind == "cut":
        return kind, data[: rng.randrange(len(data))]
    if kind == "values":
        return kind, _with_metadata(data, where.metadata, rng)
    if kind == "sections":
        table, entry, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
        place = range(table, table + entry * count)
    else:
        place = getattr(where, kind, range(len(data)))
    return kind, _damaged(data, place, rng)


def _damaged(data: bytes, place: range, rng: random.Random) -> bytes:
    """Some of the bytes in a place changed."""
    result = bytearray(data)
    extremes = [0, 1, 4096, 1 << 31, 1 << 32, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, len(data)]
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        at = rng.choice(place)
        width = rng.choice([1, 2, 4, 8])
        aligned = max(min(at // width * width, len(data) - width), 0)
        match rng.randrange(5):
            case 0:
                result[at] ^= 1 << rng.randrange(8)
            case 1:
                result[at] = rng.randrange(256)
            case 2:
                result[aligned : aligned + width] = (rng.choice(extremes) % (1 << 8 * width)).to_bytes(width, "little")
            case 3:
                source, length = rng.choice(place), rng.randrange(1, 64)
                result[at : at + length] = data[source : source + length]
            case 4:
                result[aligned : aligned + 4] = rng.getrandbits(32).to_bytes(4, "little")
    return bytes(result[: len(data)])


def _with_metadata(data: bytes, place: range, rng: random.Random) -> bytes:
    """Values of the metadata replaced by others of any type and size, in a note at the end of the file."""
    import msgpack

    header = data[place.start : place.start + 20]  # sizes of name and description, type, "AMDGPU"
    size = struct.unpack_from("<I", header, 4)[0]
    metadata = msgpack.unpackb(data[place.start + 20 : place.start + 20 + size], strict_map_key=False)
    for _ in range(rng.choice([1, 1, 2, 4])):
        owner, key = rng.choice(list(_places(metadata)))
        others = [0, 1, -1, 7, 1 << 20, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 1, -(1 << 63), 1e308,
                  float("nan"), None, True, "", "global_buffer", "by_value", "hidden_none", "\0" * 40, b"\xff", [], {},
                  [[]] * 50, "x" * 5000]  # fmt: skip
        if rng.random() < 0.2:
            del owner[key]
            if not list(_places(metadata)):
                break
        else:
            owner[key] = rng.choice(others)
    new = msgpack.packb(metadata)
    note = header[:4] + struct.pack("<I", len(new)) + header[8:] + new + b"\0" * (-len(new) % 4)
    result = bytearray(data) + b"\0" * (-len(data) % 4)
    at = len(result)
    result += note
    table, entries = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    for entry in range(table, table + 56 * entries, 56):
        if struct.unpack_from("<I", data, entry)[0] == 4:  # PT_NOTE
            struct.pack_into("<Q", result, entry + 8, at)
            struct.pack_into("<Q", result, entry + 32, len(note))
    table, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    for entry in range(table, table + 64 * count, 64):
        if struct.unpack_from("<I", data, entry + 4)[0] == 7:  # SHT_NOTE
            struct.pack_into("<QQ", result, entry + 24, at, len(note))
    return bytes(result)


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every value of nested maps and lists, as its owner and its key there."""
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], (dict, list)) and node[key]:
            yield from _places(node[key])


# ---------------------------------------------------------------- what reads them


def surfaces(good: Build, data: bytes, sizes: str, folder: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    """Everything that a code object goes through: a name, and what to call for its exit code and last line."""
    spec, target = good.spec.path, good.spec.target.name
    path = folder / "damaged.hsaco"
    path.write_bytes(data)
    words = ["-t", target, "-D", sizes]
    static = ",".join(w for w in sizes.split(",") if w.split("=")[0] in good.spec.defines)
    program = good.spec.program
    grid = str(max(1, program.grid.count or 1))
    plain = ["--grid", grid, "--block", str(program.threads), "--budget", str(BUDGET), "--schedules", "2"]
    plain += ["--arg", "u64[4096]=zeros:out"]
    yield "find a compiler", partial(_discovery, good, data)
    yield "launch", partial(_launch, data)
    build = ["build", str(spec), "-t", target, "--emit", "report", "-o", str(folder)]
    yield "build", partial(_command, [*build, *(["-D", static] if static else [])], data)
    yield "run", partial(_command, ["run", str(spec), *words], data)
    odd = sum(data) % 2  # what is dear is tried in turns
    if odd:
        yield "predict", partial(_command, ["predict", str(spec), *words, "--json"], data)
    else:
        yield "report", partial(_command, ["report", str(spec), "-t", target, "-o", str(folder / "report.html")], data)
    yield "sanitize", partial(_command, ["sanitize", str(path), *plain, *["--json"] * odd], None)


def _command(words: list[str], data: bytes | None) -> str:
    """A command line; where `data` is given, the compiler makes that."""
    from unittest import mock

    from typer.testing import CliRunner

    from tkgen.build import compiling
    from tkgen.cli import app
    from tkgen.execute import launch as launching
    from tkgen.machine_check import verdict

    compiled, launch = compiling.compile_device, launching.emulate_launch

    def damaged(*args: Any, **options: Any) -> Any:
        return replace(compiled(*args, **options), hsaco=data)

    with contextlib.ExitStack() as patches:
        if data is not None:
            patches.enter_context(mock.patch.object(compiling, "compile_device", damaged))
            patches.enter_context(mock.patch.object(launching, "emulate_launch", partial(launch, budget=BUDGET)))
            patches.enter_context(mock.patch.object(verdict, "BUDGET", 10 * BUDGET))
        result = CliRunner().invoke(app, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in CODES, f"exit code {result.exit_code}"
    said = result.stdout if "--json" in words else result.output
    assert said.strip(), "nothing was said"
    if "--json" in words:
        json.loads(said)
    return f"{result.exit_code} {' '.join(result.output.split())[-300:]}"


def _discovery(good: Build, data: bytes) -> str:
    """A compiler that makes damaged code."""
    from unittest import mock

    from tkgen.toolchain import discover

    host = discover.Host({**os.environ, "TKGEN_CACHE": ""}, zig=discover.this_host().zig)
    compiled = discover.compile_device

    def damaged(*args: Any, **options: Any) -> Any:
        return replace(compiled(*args, **options), hsaco=data)

    candidate = next(iter(discover.candidates(host)))
    with mock.patch.object(discover, "compile_device", damaged):
        attempt = discover.probe(candidate, good.spec.target, host)
    assert attempt.compiler is None and attempt.reason, attempt
    return f"3 {attempt.reason}"


def _launch(data: bytes) -> str:
    """The emulator itself, under the referee and without data, and the disassembly of what it finds."""
    import numpy as np

    from tkgen.emulate import Buffer, Bytes, EmulateError, Hollow, launch, load

    try:
        code = load(data)
        if not code.kernels:
            return "2 no kernel"
        kernel = code.kernels[0]
        said = ""
        for hollow in (False, True):
            buffer = Buffer(Hollow(4096) if hollow else np.zeros(1024, np.uint32))
            args = [buffer if a.size == 8 else Bytes(bytes(a.size), 1) for a in kernel.explicit_arguments]
            outcome = launch(
                code, kernel=kernel.name, grid=(2, 1, 1), block=(64, 1, 1), args=args, budget=BUDGET, watch=True
            )
            said = "; ".join(str(f) for f in outcome.findings[:3])
            code.line(code.text[0])
        return f"1 {said}"
    except EmulateError as error:
        return f"2 {error}"


# ---------------------------------------------------------------- processes


@dataclass(frozen=True)
class Trial:
    """Outcome of a mutant: the output of each surface, or the failure."""

    seed: int
    spec: str
    kind: str
    said: dict[str, str]
    failure: str
    seconds: float
    megabytes: float


def made(seed: int) -> tuple[tuple[str, str, str], str, bytes]:
    """The spec, the kind and the bytes of a seed's mutant."""
    rng = random.Random(seed)
    chosen = SPECS[seed % len(SPECS)]
    kind, data = mutant(built(*chosen).hsaco, rng)
    return chosen, kind, data


def attempt(seed: int) -> Trial:
    """A mutant through all surfaces, in its own process."""
    chosen, kind, data = made(seed)
    start = time.perf_counter()
    reading, writing = os.pipe()
    before = _resident()
    child = os.fork()
    if not child:
        os.close(reading)
        with contextlib.suppress(BaseException), os.fdopen(writing, "w") as pipe:
            _child(chosen, data, lambda entry: print(json.dumps(entry), file=pipe, flush=True))
        os._exit(0)
    os.close(writing)
    status, usage = _waited(child, start + SECONDS)
    with os.fdopen(reading) as pipe:
        entries = [json.loads(line) for line in pipe if line.endswith("\n")]
    seconds, megabytes = time.perf_counter() - start, usage - before
    said = {name: text for name, text, _ in entries if text is not None}
    bad = [f"{name}: {problem}" for name, _, problem in entries if problem]
    if status == -signal.SIGALRM:
        bad.append(f"more than {SECONDS} s, in what follows {list(said)[-1:]}")
    elif status:
        bad.append(f"the process ended with {status}, in what follows {list(said)[-1:]}")
    if megabytes > MEGABYTES:
        bad.append(f"{megabytes:.0f} MB")
    return Trial(seed, chosen[0], kind, said, "\n".join(bad), seconds, megabytes)


def _resident() -> float:
    """Megabytes that this process has resident."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


def _waited(child: int, until: float) -> tuple[int, float]:
    """The exit status of a process, the signal as a negative number, and its most resident megabytes."""
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), usage.ru_maxrss / 1024
        if time.perf_counter() > until:
            os.kill(child, signal.SIGKILL)
            _, _, usage = os.wait4(child, 0)
            return -signal.SIGALRM, usage.ru_maxrss / 1024
        time.sleep(0.005)


def _child(chosen: tuple[str, str, str], data: bytes, tell: Callable[[tuple[str, str | None, str]], None]) -> None:
    with tempfile.TemporaryDirectory(prefix="tkgen-mutant-") as folder:
        for name, call in surfaces(built(*chosen), data, chosen[2], Path(folder)):
            try:
                tell((name, call(), ""))
            except BaseException as error:
                frames = traceback.extract_tb(error.__traceback__)[-4:]
                places = ", ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames)
                tell((name, None, f"{type(error).__name__}: {error} ({places})"))


def table(trials: Sequence[Trial]) -> str:
    """Mutants by kind, exit codes by surface, the most of time and memory."""
    kinds = Counter(t.kind for t in trials)
    lines = [f"{'mutants':<24}{len(trials):>8}", *(f"  {kind:<22}{n:>8}" for kind, n in sorted(kinds.items()))]
    for name in dict.fromkeys(name for t in trials for name in t.said):
        codes = Counter(t.said[name].split()[0] for t in trials if name in t.said)
        lines.append(f"{name:<24}" + "  ".join(f"exit {code}: {n}" for code, n in sorted(codes.items())))
    lines.append(f"{'most seconds':<24}{max(t.seconds for t in trials):>8.1f}")
    lines.append(f"{'most megabytes':<24}{max(t.megabytes for t in trials):>8.0f}")
    lines.append(f"{'failures':<24}{sum(bool(t.failure) for t in trials):>8}")
    return "\n".join(lines)


def prepare() -> None:
    """Load what every mutant needs before processes are forked: one thread, a compiler, the emulator's core."""
    import torch

    import tkgen.predict
    import tkgen.report
    import tkgen.sanitize
    from tkgen.emulate import native

    assert tkgen.predict and tkgen.report and tkgen.sanitize
    torch.set_num_threads(1)
    native.core()
    for chosen in SPECS:
        parts(built(*chosen).hsaco)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--show", action="store_true", help="this one seed: what each command says")
    options = parser.parse_args()
    prepare()
    if options.show:
        trial = attempt(options.seed)
        print(json.dumps(asdict(trial), indent=2))
        return int(bool(trial.failure))
    trials = []
    for seed in range(options.seed, options.seed + options.count):
        trials.append(attempt(seed))
        if trials[-1].failure:
            print(f"seed {seed} ({trials[-1].spec}, {trials[-1].kind}): {trials[-1].failure}", flush=True)
    print(table(trials))
    return int(any(t.failure for t in trials))


if __name__ == "__main__":
    sys.exit(main())
