"""The pipeline in predicted cycles: what every wave of a compute unit does and waits for, drawn to scale.

The timing model's events (`tkgen.predict.events`), with instructions of one operation joined to one bar, and named by
the operation that they carry out. The same as a trace for Perfetto or Chrome: `trace`.

>>> found = timeline(build, profile(build))
>>> found.bars[0].text, found.bars[0].start
('load A[0]', 12.0)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tkgen.predict.events import Event, Recording, Track
from tkgen.report.places import Places
from tkgen.report.texts import Rows
from tkgen.toolchain.isa import classify

if TYPE_CHECKING:
    from tkgen.build import Build
    from tkgen.predict import Profile

SHOWN_PASSES = 2  # of the steady loop
LONG_PASS = 8000  # cycles; of longer passes one is shown
# Instructions of one operation are one bar unless the wave or the unit does something else for so many cycles.
_GAP: Mapping[Track, float] = {Track.MFMA: 4, Track.VECTOR: 12, Track.LDS: 64, Track.MEMORY: 64, Track.IDLE: 4}
_KINDS = {
    "lds read": "read", "lds write": "write", "global load": "load", "global to lds": "copy", "global store": "store",
    "global": "store", "mfma": "multiply",
}  # fmt: skip


@dataclass(frozen=True)
class Bar:
    """Something that lasts from cycle `start` to `end`.

    `track` is one of `tkgen.predict.events.Track`, `kind` what it does there (`read`, `multiply`, ...). `text` names
    the operation, or what is waited for; `line` is the row of its spec line, 0 for none; `count` are its instructions.
    A wait at a barrier ends when wave `by` comes, -1 elsewhere. Waves count over all resident blocks.
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


def timeline(build: Build, profile: Profile) -> Timeline:
    """The timeline of a build's profile, to the end of the steady passes that are shown."""
    recording, names = profile.recording, _Names(build)
    loop = _loop(recording)
    bars = [bar for bar in _bars(recording.events, names) if bar.start < loop[1]]
    roles = tuple(wave.role for w in range(recording.waves) for wave in build.spec.plan.waves if w in wave.waves)
    first = [p for p in recording.passes[: recording.waves] if len(p) == max(map(len, recording.passes))]
    return Timeline(
        simds=recording.simds,
        waves=recording.waves,
        blocks=recording.blocks,
        roles=roles,
        clock_mhz=round(profile.prediction.clock_mhz, 1),
        loop=loop,
        passes=tuple(min(starts) for starts in zip(*first, strict=True) if min(starts) <= loop[1]),
        end=loop[1],
        bars=tuple(bars),
        times=tuple(_times(recording, bars, loop, roles)),
    )


def trace(build: Build, profile: Profile) -> dict[str, Any]:
    """All events for Perfetto or chrome://tracing, one microsecond there for a cycle here.

    A process is a SIMD; its matrix unit has a thread, and so has each wave. Accesses to memory overlap, so they are
    asynchronous events of their wave's thread; an arrow leads from the wave that comes last to those it released.
    """
    recording = profile.recording
    events: list[dict[str, Any]] = list(_named(recording))
    for number, bar in enumerate(_bars(recording.events, _Names(build))):
        unit = bar.track in (Track.MFMA.value, Track.IDLE.value)
        place = {"pid": bar.wave % recording.simds, "tid": 0 if unit else bar.wave + 1}
        args = {"wave": bar.wave, "instructions": bar.count}
        entry = {"name": bar.text or bar.kind, "cat": bar.track, **place, "args": args}
        if bar.track in (Track.LDS.value, Track.MEMORY.value):
            events.append({**entry, "ph": "b", "id": number, "ts": bar.start})
            events.append({**entry, "ph": "e", "id": number, "ts": bar.end})
        else:
            events.append({**entry, "ph": "X", "ts": bar.start, "dur": bar.end - bar.start})
        if bar.by >= 0 and bar.end > bar.start:
            arrow = {"name": "released by", "cat": "barrier", "id": number}
            events.append({**arrow, "ph": "s", "ts": bar.end, "pid": bar.by % recording.simds, "tid": bar.by + 1})
            events.append({**arrow, "ph": "f", "bp": "e", "ts": bar.end, **place})
    about = {"kernel": build.spec.name, "product": profile.prediction.product, "one microsecond": "one cycle"}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}


def _named(recording: Recording) -> Iterator[dict[str, Any]]:
    """The names of processes and threads."""
    for simd in range(recording.simds):
        yield {"ph": "M", "name": "process_name", "pid": simd, "tid": 0, "args": {"name": f"SIMD {simd}"}}
        yield {"ph": "M", "name": "thread_name", "pid": simd, "tid": 0, "args": {"name": "matrix unit"}}
    for wave in range(recording.waves * recording.blocks):
        block = f", block {wave // recording.waves}" if recording.blocks > 1 else ""
        name = f"wave {wave % recording.waves}{block}"
        yield {
            "ph": "M", "name": "thread_name", "pid": wave % recording.simds, "tid": wave + 1, "args": {"name": name}
        }  # fmt: skip


class _Names:
    """What an instruction, by its address, is called: kind, operations, row of the spec."""

    def __init__(self, build: Build):
        from tkgen.emulate import load
        from tkgen.emulate.decode import decode

        code = load(build.hsaco)
        starts = decode(code.code, code.target).starts()
        function, rows = build.function, Rows(build.spec.kernel)
        self.position = {start: i for i, start in enumerate(starts[: len(function.instructions)])}
        self.kinds = [classify(x)[0] for x in function.instructions]
        places = Places(function, build.spec.plan, build.spec.source, f"{build.spec.name}.cpp")
        texts = {s.line: s.text for s in reversed(places.placed)}
        lines = {s.line: rows.of(s.span) for s in reversed(places.placed)}
        self.texts = [" + ".join(dict.fromkeys(texts[n] for n in at if n in texts)) for at in places.lines]
        self.lines = [next((lines[n] for n in at if lines.get(n)), 0) for at in places.lines]

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
        return Bar(event.track.value, kind, event.wave, event.start, event.end, text, line, 1, event.by)


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
    """The steady passes to look at first; all of the code where nothing loops."""
    most = max(map(len, recording.passes))
    if most < 2:
        return 0.0, recording.end
    timed = [p for p in recording.passes if len(p) == most]
    warm = min(recording.warm, most - 2)
    begin = min(p[warm] for p in timed)
    length = min(p[warm + 1] for p in timed) - begin
    last = min(warm + (1 if length > LONG_PASS else SHOWN_PASSES), most - 1)
    return begin, min(p[last] for p in timed)


def _times(
    recording: Recording, bars: Sequence[Bar], loop: tuple[float, float], roles: Sequence[str]
) -> Iterator[WaveTime]:
    """How each wave spends the shown passes."""
    length = max(loop[1] - loop[0], 1.0)
    for wave in range(recording.waves * recording.blocks):
        spent: dict[str, float] = {}
        waited: dict[int, float] = {}
        for bar in bars:
            cycles = min(bar.end, loop[1]) - max(bar.start, loop[0])
            if bar.wave == wave and cycles > 0:
                key = f"wait {bar.text.partition(':')[0]}" if bar.track == Track.WAIT.value else bar.track
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
