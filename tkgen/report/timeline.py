"""The pipeline in predicted cycles: what every wave of a compute unit does and waits for, drawn to scale.

The timing model's events (`tkgen.predict.events`), with instructions of one operation joined to one bar, and named by
the operation that they execute. The same as a trace for Perfetto or Chrome: `trace`.

>>> found = timeline(build, profile(build))
>>> found.bars[0].text, found.bars[0].start
('load A[0]', 12.0)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tkgen.predict.events import Event, Recording, Track
from tkgen.report.places import Places, known_lines
from tkgen.report.texts import Rows, texts
from tkgen.toolchain.isa import classify

if TYPE_CHECKING:
    from tkgen.backends import protocol
    from tkgen.build import Build
    from tkgen.predict import Profile

SHOWN_PASSES = 2  # of the steady loop
LONGEST = 24000.0  # cycles that are shown of code without a loop
LONG_PASS = 8000  # cycles; of longer passes one is shown
# Instructions of one operation are one bar unless the wave or the unit does something else for so many cycles.
_GAP: Mapping[Track, float] = {Track.MFMA: 0, Track.VECTOR: 12, Track.LDS: 64, Track.MEMORY: 64, Track.IDLE: 0}
_KINDS = {
    "lds read": "read", "lds write": "write", "global load": "load", "global to lds": "copy", "global store": "store",
    "global": "store", "mfma": "multiply",
}  # fmt: skip


@dataclass(frozen=True)
class Bar:
    """Something that lasts from cycle `start` to `end`.

    `track` is one of `tkgen.predict.events.Track`, `kind` what it does there (`read`, `multiply`, ...). `text` names
    the operation, or what is waited for, by `cause` and operation; `line` is the row of its spec line, 0 for none;
    `count` are its instructions. A wait at a barrier ends when wave `by` comes, -1 elsewhere. Waves count over all
    resident blocks.
    """

    track: str
    kind: str
    wave: int
    start: float
    end: float
    text: str
    line: int
    count: int
    by: int
    cause: str = ""


@dataclass(frozen=True)
class WaveTime:
    """One wave in `SHOWN_PASSES` of the steady loop: shares of the time it spends waiting, for what, mostly for whom.

    `barrier` includes the time for wave `latest` (-1: none), who comes last most; `multiplying` is the share in which
    its SIMD's matrix unit works for it.
    """

    wave: int
    simd: int
    role: str
    multiplying: float
    lds: float
    memory: float
    barrier: float
    latest: int


@dataclass(frozen=True)
class Timeline:
    """A full compute unit from the start of its blocks to the end of the passes that are shown.

    `loop` is the part of the steady loop to look at first, `passes` where block 0 begins its passes. Wave w is wave
    w mod `waves` of its block, and on SIMD w mod `simds`. Cycles are of an engine clock of `clock_mhz`.

    `names` are those of a block's waves, `units` of each SIMD's matrix unit (empty without one), `places` of the SIMDs,
    as they are shown. `known` says what is not known of a `core` that no model follows instruction by instruction.
    """

    simds: int
    waves: int
    blocks: int
    roles: tuple[str, ...]
    clock_mhz: float
    loop: tuple[float, float]
    passes: tuple[float, ...]
    end: float
    bars: tuple[Bar, ...]
    times: tuple[WaveTime, ...]
    names: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    core: str = "compute unit"
    known: str = ""


def timeline(build: Build, profile: Profile) -> Timeline:
    """The timeline of a build's profile, to the end of the steady passes that are shown."""
    recording, names = profile.recording, _Names(build)
    loop = _loop(recording)
    bars = [bar for bar in _bars(recording.events, names) if bar.start < loop[1]]
    tiles = build.spec.tiles
    role_of = {wave: role.name for role in tiles.block.roles for wave in tiles.agents(role)}
    roles = tuple(role_of[w] for w in range(recording.waves))
    first = [p for p in recording.passes[: recording.waves] if len(p) == max(map(len, recording.passes))]
    return Timeline(
        simds=recording.simds,
        waves=recording.waves,
        blocks=recording.blocks,
        roles=roles,
        clock_mhz=round(profile.prediction.clock_mhz or 0.0, 1),
        loop=loop,
        passes=tuple(min(starts) for starts in zip(*first, strict=True) if min(starts) <= loop[1]),
        end=loop[1],
        bars=tuple(bars),
        times=tuple(_times(recording, bars, loop, roles)),
        names=tuple(f"wave {n}" for n in range(recording.waves)),
        units=tuple(f"SIMD {n} · MFMA" for n in range(recording.simds)),
        places=tuple(f"SIMD {n}" for n in range(recording.simds)),
    )


def trace(whole: protocol.Build, product: str, recordings: Sequence[Recording]) -> dict[str, Any]:
    """All events of a build's kernels for Perfetto or chrome://tracing, one microsecond there for a cycle here.

    A process is a SIMD. Its matrix unit has a thread, each wave one for what it does or waits for and one for its
    vector work. Accesses to memory overlap, so they are asynchronous events; an arrow leads from the wave that comes
    last to a barrier to those that have waited for it. Of several kernels each has processes of its own, and begins
    where what is written down of the one before ends.
    """
    events: list[dict[str, Any]] = []
    begin = 0.0
    kernels = whole.kernels
    for place, (build, recording) in enumerate(zip(kernels, recordings, strict=True)):
        of = f"{build.spec.name}: " if len(kernels) > 1 else ""
        for event in _events(recording, _Names(build), of):
            event["pid"] += place * recording.simds
            if "id" in event:
                event["id"] = event["id"] * len(kernels) + place
            if "ts" in event:
                event["ts"] += begin
            events.append(event)
        begin += recording.end
    known = {"kernel": whole.spec.name, "product": product, "one microsecond": "one cycle"}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": known}


def _events(recording: Recording, names: _Names, of: str) -> Iterator[dict[str, Any]]:
    """Yield the events of one kernel for a trace viewer; the names of its processes begin with `of`."""
    bars = list(_bars(recording.events, names))
    slices = _slices(bars)
    yield from _named(recording, of)
    for number, bar in enumerate(bars):
        pid, wave = bar.wave % recording.simds, _thread(bar.wave)
        about = {"name": bar.text or bar.kind, "cat": bar.track, "pid": pid, "args": {"instructions": bar.count}}
        span = {"ph": "X", "ts": bar.start, "dur": bar.end - bar.start}
        if bar.track in (Track.LDS.value, Track.MEMORY.value):
            yield about | {"tid": wave, "ph": "b", "id": number, "ts": bar.start}
            yield about | {"tid": wave, "ph": "e", "id": number, "ts": bar.end}
        elif bar.track in (Track.MFMA.value, Track.IDLE.value):
            yield about | {"tid": 0, "name": f"wave {bar.wave}: {about['name']}"} | span
        elif bar.track == Track.VECTOR.value:
            yield about | {"tid": wave + 1} | span
        if bar.by >= 0 and bar.end > bar.start:
            yield from _arrow(number, bar, slices.get(bar.by, []), recording.simds)
    for w, found in slices.items():
        for start, end, bar in found:
            about = {"name": bar.text or bar.kind, "cat": bar.track, "args": {"instructions": bar.count}}
            yield about | {"pid": w % recording.simds, "tid": _thread(w), "ph": "X", "ts": start, "dur": end - start}


def _thread(wave: int) -> int:
    """The number of a wave's thread; the next is that of its vector work."""
    return 2 * wave + 1


def _slices(bars: Sequence[Bar]) -> dict[int, list[tuple[float, float, Bar]]]:
    """Return the work and the waits of each wave in order; a multiply ends at the latest where the wave goes on."""
    own = (Track.MFMA.value, Track.WAIT.value, Track.BARRIER.value)
    by_wave: dict[int, list[Bar]] = {}
    for bar in bars:
        if bar.track in own and bar.end > bar.start:
            by_wave.setdefault(bar.wave, []).append(bar)
    return {
        wave: [
            (bar.start, min(bar.end, after.start if after else bar.end), bar)
            for bar, after in zip(found, [*found[1:], None], strict=True)
        ]
        for wave, found in by_wave.items()
    }


def _arrow(number: int, bar: Bar, last: Sequence[tuple[float, float, Bar]], simds: int) -> Iterator[dict[str, Any]]:
    """From what the last wave did before it came to the barrier, to the wait of another one that ends then."""
    before = [span for span in last if span[0] < bar.end]
    if before:
        start, end, _ = before[-1]
        at = max(start, min(end, bar.end) - 0.01)  # an arrow is tied to the slice that it begins or ends in
        arrow = {"name": "released", "cat": "barrier", "id": number}
        yield arrow | {"ph": "s", "ts": at, "pid": bar.by % simds, "tid": _thread(bar.by)}
        finish = max(bar.start, bar.end - 0.01)
        yield arrow | {"ph": "f", "bp": "e", "ts": finish, "pid": bar.wave % simds, "tid": _thread(bar.wave)}


def _named(recording: Recording, of: str) -> Iterator[dict[str, Any]]:
    """The names of processes, which begin with `of`, and threads."""

    def name(what: str, pid: int, tid: int, text: str) -> dict[str, Any]:
        return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": text}}

    for simd in range(recording.simds):
        yield name("process_name", simd, 0, f"{of}SIMD {simd}")
        yield name("thread_name", simd, 0, "matrix unit")
    for wave in range(recording.waves * recording.blocks):
        block = f", block {wave // recording.waves}" if recording.blocks > 1 else ""
        text = f"wave {wave % recording.waves}{block}"
        yield name("thread_name", wave % recording.simds, _thread(wave), text)
        yield name("thread_name", wave % recording.simds, _thread(wave) + 1, f"{text}: vector")


def positions(build: Build) -> dict[int, int]:
    """The number of each instruction of the kernel, by its address in dwords."""
    from tkgen.emulate import load
    from tkgen.emulate.decode import decode

    code = load(build.hsaco)
    starts = decode(code.code, code.target).starts()
    return {start: i for i, start in enumerate(starts[: len(build.function.instructions)])}


class _Names:
    """The names of an instruction, by its address: kind, operations or the line of equations, row of the spec."""

    def __init__(self, build: Build):
        self.position = positions(build)
        self.kinds = [classify(x)[0] for x in build.function.instructions]
        self.texts, self.lines = _of_plan(build) if build.spec.plan else _of_equations(build)

    def bar(self, event: Event) -> Bar:
        """The bar of one event."""
        index = self.position.get(event.address, -1)
        kind, text, line = ("", "", 0) if index < 0 else (self.kinds[index], self.texts[index], self.lines[index])
        kind = _KINDS.get(kind, event.track.value)
        if event.track is Track.IDLE:
            kind, text = "idle", event.cause
        elif event.track is Track.WAIT:
            kind, text = "wait", f"{event.cause}: {text}" if text else event.cause
        elif event.track is Track.BARRIER:
            kind, text = "barrier", ""
        elif event.track is Track.VECTOR:
            kind = "vector"
        ends = event.start, event.end
        return Bar(event.track.value, kind, event.wave, *ends, text, line, 1, event.by, event.cause)


def _of_plan(build: Any) -> tuple[list[str], list[int]]:
    """For each instruction the operations that it executes, and the row of the first one's line."""
    rows = Rows(build.spec.program.origins.files)
    places = Places(build.function, build.spec.plan, build.spec.source, f"{build.spec.name}.cpp")
    texts = {s.line: s.text for s in reversed(places.placed)}
    lines = {s.line: rows.of(s.span) for s in reversed(places.placed)}
    return (
        [" + ".join(dict.fromkeys(texts[n] for n in at if n in texts)) for at in places.lines],
        [next((lines[n] for n in at if lines.get(n)), 0) for at in places.lines],
    )


def _of_equations(build: Build) -> tuple[list[str], list[int]]:
    """For each instruction the line of the spec that it executes, without its comment, and that line's row."""
    spec, rows = build.spec, Rows(build.spec.program.origins.files)
    cpp = texts(spec.program.origins, rows, spec.source, None, "").cpp
    known = known_lines(build.function, spec.source, f"{spec.name}.cpp")
    found = [next(iter(cpp[line - 1].spec), 0) if line else 0 for line in known]
    said = [line.text.partition("#")[0].strip() for line in rows.lines]
    return [said[row - 1] if row else "" for row in found], found


def _bars(events: Sequence[Event], names: _Names) -> Iterator[Bar]:
    """Events of one operation joined, in the order of their starts."""
    open_bars: dict[tuple[Track, int], Bar] = {}
    found: list[Bar] = []
    for event in events:
        if event.track in (Track.WAIT, Track.BARRIER) and (Track.VECTOR, event.wave) in open_bars:
            found.append(open_bars.pop((Track.VECTOR, event.wave)))
        bar, key = names.bar(event), (event.track, event.wave)
        last = open_bars.get(key)
        gap = _GAP.get(event.track)
        if last and gap is not None and (last.text, last.kind) == (bar.text, bar.kind) and bar.start - last.end <= gap:
            open_bars[key] = replace(last, end=max(last.end, bar.end), count=last.count + 1)
            continue
        if last:
            found.append(last)
        open_bars[key] = bar
    found += open_bars.values()
    yield from sorted(found, key=lambda b: (b.start, b.wave))


def _loop(recording: Recording) -> tuple[float, float]:
    """The steady passes to look at first; where nothing loops all of the code, or the first cycles of long code."""
    most = max(map(len, recording.passes))
    if most < 2:
        return 0.0, min(recording.end, LONGEST)
    timed = [p for p in recording.passes if len(p) == most]
    warm = min(recording.warm, most - 2)
    begin = min(p[warm] for p in timed)
    length = min(p[warm + 1] for p in timed) - begin
    last = min(warm + (1 if length > LONG_PASS else SHOWN_PASSES), most - 1)
    return begin, min(p[last] for p in timed)


def _times(
    recording: Recording, bars: Sequence[Bar], loop: tuple[float, float], roles: Sequence[str]
) -> Iterator[WaveTime]:
    """Yield the time that each wave spends in the shown iterations, by kind."""
    length = max(loop[1] - loop[0], 1.0)
    for wave in range(recording.waves * recording.blocks):
        spent: dict[str, float] = {}
        waited: dict[int, float] = {}
        for bar in bars:
            cycles = min(bar.end, loop[1]) - max(bar.start, loop[0])
            if bar.wave == wave and cycles > 0:
                key = f"wait {bar.cause}" if bar.track == Track.WAIT.value else bar.track
                spent[key] = spent.get(key, 0.0) + cycles / length
                if bar.by >= 0 and bar.by != wave:
                    waited[bar.by] = waited.get(bar.by, 0.0) + cycles
        yield WaveTime(
            wave,
            wave % recording.simds,
            roles[wave % recording.waves],
            spent.get("MFMA", 0.0),
            spent.get("wait LDS", 0.0),
            spent.get("wait memory", 0.0),
            spent.get("barrier", 0.0),
            max(waited, key=waited.__getitem__, default=-1),
        )
