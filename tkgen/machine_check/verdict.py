"""Watch the launches that stand for all, and keep what they showed. See the package."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tkgen.diagnostics import Diagnostic
from tkgen.packages import install_line
from tkgen.toolchain.cache import Cache, cache_key

if TYPE_CHECKING:
    from tkgen.backends.cdna.spec import Spec
    from tkgen.emulate import Finding, Outcome
    from tkgen.emulate.code_object import CodeObject
    from tkgen.machine_check.launches import Watched
    from tkgen.machine_check.words import Seen

RIGHT, WRONG, UNCHECKED = "right", "wrong", "not checked"
BUDGET: Final = 1 << 26  # instructions of a block until it counts as endless, 16 of passes that repeat as one
LONG: Final = 8192  # K-steps of a block; fewer never take so many instructions
ENDLESS: Final = ("endless", "deadlock")  # kinds of findings, where the budget is spent
TOO_LARGE: Final = "watch-limit"
NOT_FOLLOWED: Final = "data-dependent"


@dataclass(frozen=True)
class Verdict:
    """The verdict on a code object: the watched launches and the findings.

    `outcome` is `right`, `wrong` or `not checked`, which `reason` then explains. `steps` are the K-steps of the tiles
    watched, `instructions` those executed, waves counted apart; `seconds` is what it took when it was done, which for a
    verdict from the cache (`cached`) was earlier.
    """

    outcome: str
    reason: str = ""
    launches: int = 0
    blocks: int = 0
    steps: tuple[int, ...] = ()
    alike: bool = False
    instructions: int = 0
    seconds: float = 0.0
    cached: bool = False
    diagnostics: tuple[Diagnostic, ...] = field(default=(), repr=False)

    @property
    def summary(self) -> str:
        """One line for people."""
        if self.outcome == UNCHECKED:
            return f"machine code not checked: {self.reason}"
        if self.outcome == WRONG:
            return f"machine code wrong: {len(self.diagnostics)} findings"
        took = f"{self.seconds:.2f} s" + (", from the cache" if self.cached else "")
        blocks = f"{self.blocks} block{'s' if self.blocks != 1 else ''} watched"
        return f"machine code right: {blocks}, {self.instructions:,} instructions, {took}"

    def to_json(self) -> dict[str, object]:
        """Plain data, without the diagnostics."""
        plain = asdict(self)
        del plain["diagnostics"]
        return plain | {"seconds": round(self.seconds, 3)}


NOT_ASKED: Final = Verdict(UNCHECKED, "it was left out")


def warm() -> None:
    """Load what `watch` needs: the emulator's core, compiled on first use, and tables. Errors are left to `watch`."""
    with suppress(ImportError):
        from tkgen.emulate import EmulateError, native
        from tkgen.emulate.decode import decode

        with suppress(EmulateError):
            native.core()
            decode(b"", "gfx942")


def watch(spec: Spec[Any], hsaco: bytes, kernel: str, store: Cache | None = None) -> Verdict:
    """The verdict on the machine code of `spec`; `right` ones are kept in `store`, by code, launches and emulator."""
    start = time.perf_counter()
    try:
        from tkgen.emulate import EmulateError, load, native
    except ModuleNotFoundError as error:
        return Verdict(UNCHECKED, f"the emulator needs {error.name}: {install_line('emulate')}")
    try:
        native.core()
        watching = Watching.of(spec, kernel)
        key = cache_key("machine check", version(), hsaco, kernel, repr(watching.wanted))
        kept = store.get(key) if store is not None else None
        if kept is not None and (known := _read(kept)) is not None:
            return known
        verdict = _watched(watching, load(hsaco), start)
    except EmulateError as error:  # no compiler for the core, or a launch that it cannot start
        return Verdict(UNCHECKED, str(error))
    if store is not None and verdict.outcome == RIGHT:
        store.put(key, {"verdict": json.dumps(verdict.to_json()).encode()})
    return verdict


@dataclass(frozen=True)
class Watching:
    """The launches of a kernel that stand for all, found once for any code of it."""

    spec: Spec[Any]
    kernel: str
    wanted: tuple[Watched, ...]

    @classmethod
    def of(cls, spec: Spec[Any], kernel: str) -> Watching:
        """Those of the kernel of `spec`, which is called `kernel` in its code object."""
        from tkgen.machine_check import launches, tile_sorts

        wanted = tile_sorts.launches(spec) if spec.program.contraction is None else launches.launches(spec.plan)
        return cls(spec, kernel, tuple(wanted))

    def observed(self, code: CodeObject, *, first_finding: bool = False) -> Observed:
        """Run the launches in turn, until one has findings; with `first_finding` only until the first one.

        Raises EmulateError where a launch cannot start.
        """
        from tkgen.emulate import Kind
        from tkgen.machine_check import words

        run = partial(_run, self.spec, code, self.kernel, first_finding=first_finding)
        seen: list[words.Seen] = []
        instructions = blocks = 0
        alike = True
        steps: set[int] = set()
        undecided = {TOO_LARGE, NOT_FOLLOWED, *ENDLESS, Kind.BLOCK_RACE.value}
        reason = ""
        for of in self.wanted:
            outcome = run(of, (of.first,))
            outcomes = [outcome]
            rest = (*of.edges, *of.others) if outcome.block_dependent else of.edges
            enough = first_finding and any(f.kind.value not in undecided for f in outcome.findings)
            if rest and not _cut(of, outcome) and not enough:
                outcomes.append(run(of, rest, watched=outcome.block_dependent or self.spec.decides))
            alike &= not outcome.block_dependent
            blocks += 1 + len(rest)
            instructions += sum(o.instructions for o in outcomes)
            # Blocks beyond the grid go on with tiles that others begin with.
            real = of.blocks <= of.launch.blocks
            cut = any(_cut(of, o) for o in outcomes)
            large = any(f.kind.value == TOO_LARGE for o in outcomes for f in o.findings)
            lost = next((f for o in outcomes for f in o.findings if f.kind.value == NOT_FOLLOWED), None)
            left_out = {TOO_LARGE, NOT_FOLLOWED, *(() if real else (Kind.BLOCK_RACE.value,)), *(ENDLESS if cut else ())}
            findings = [f for o in outcomes for f in o.findings if f.kind.value not in left_out]
            seen += [words.Seen(finding, of.launch.extents, of.steps) for finding in findings]
            steps |= {of.steps} if of.steps else set()
            if seen:
                break
            if cut:
                reason = _too_long(of)
            elif large:
                reason = "a block touches more memory than the referee can watch"
            elif lost is not None:
                reason = _unfollowed(lost)
            if reason:
                break
        return Observed(tuple(seen), reason, blocks, tuple(sorted(steps)), alike, instructions)


@dataclass(frozen=True)
class Observed:
    """The findings of the launches, or the `reason` why they do not decide; the other fields as in a verdict."""

    seen: tuple[Seen, ...]
    reason: str
    blocks: int
    steps: tuple[int, ...]
    alike: bool
    instructions: int


def _watched(watching: Watching, code: CodeObject, start: float) -> Verdict:
    from tkgen.machine_check import words

    observed = watching.observed(code)
    if observed.reason:
        return Verdict(UNCHECKED, observed.reason)
    found = tuple(words.diagnostics(watching.spec, code, observed.seen))
    return Verdict(
        WRONG if found else RIGHT,
        launches=len(watching.wanted),
        blocks=observed.blocks,
        steps=observed.steps,
        alike=observed.alike,
        instructions=observed.instructions,
        seconds=time.perf_counter() - start,
        diagnostics=found,
    )


def _run(
    spec: Spec[Any], code: CodeObject, kernel: str, of: Watched, blocks: tuple[int, ...],
    watched: bool = True, *, first_finding: bool = False,
) -> Outcome:  # fmt: skip
    """Some blocks of a launch without data; on zeros, where it decides by data."""
    import numpy as np

    from tkgen.emulate import Buffer, Hollow, launch
    from tkgen.execute.arguments import packed

    buffers, held = {}, of.launch.held()
    for tensor in spec.program.arguments:
        size = of.launch.bytes(tensor)
        data: object = np.zeros(size, np.uint8) if spec.decides else Hollow(size)
        if tensor in held:  # where blocks go, and addresses, depend on it
            data = np.array(held[tensor], dtype=np.int32)
        buffers[tensor.name] = Buffer(data, tensor.name, tensor in spec.program.outputs)
    return launch(
        code,
        kernel=kernel,
        grid=of.launch.grid,
        beyond=of.blocks,
        block=of.launch.block,
        args=[packed(of.launch, buffers, of.scalars)],
        blocks=blocks,
        watch=watched,
        budget=BUDGET,
        first_finding=first_finding,
    )


def _too_long(of: Watched) -> str:
    """The reason why a launch was not watched to its end."""
    return f"a block of {of.work:,} K-steps goes on after the {BUDGET:,} instructions that are watched of it"


def _unfollowed(finding: Finding) -> str:
    """Why code that decides by its data was not checked: the run has none, and stops there."""
    return f"`{finding.first.text}` at {finding.first.address:#x} depends on data, which this check runs without"


def _cut(of: Watched, outcome: Outcome) -> bool:
    """Return True if a block was stopped that may not be an endless one."""
    return of.work > LONG and any(f.kind.value in ENDLESS for f in outcome.findings)


def _read(entry: dict[str, bytes]) -> Verdict | None:
    """A verdict from the cache; None where it is none."""
    try:
        plain = json.loads(entry["verdict"])
        return Verdict(**(plain | {"steps": tuple(plain["steps"]), "cached": True}))
    except (KeyError, TypeError, ValueError):
        return None


@cache
def version() -> str:
    """Return a digest of everything beside code and launches that decides a verdict: the emulator and the watching
    code.
    """
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for path in sorted([*folder.glob("*.py"), *(folder.parent / "emulate").rglob("*")]):
        if path.suffix in (".py", ".h", ".cpp"):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()
