"""A loop of the proof as text: its rings and meetings, and what each agent does before it, in a pass, and behind it."""

from __future__ import annotations

from tkgen.proof.program import Arrive, Await, Commit, Do, Drain, Fence, Loop, Meet, Step


def loop_text(loop: Loop) -> str:
    """The loop, an agent after the other."""
    lines = [f"ring {ring}, {slots} slot{'s' * (slots != 1)}" for ring, slots in loop.slots.items()]
    lines += [f"meeting {m.name}, {m.arrivals} arrival{'s' * (m.arrivals != 1)}" for m in loop.meetings]
    for agent in loop.agents:
        lines.append(agent.name)
        for part, steps in (("before", agent.prologue), ("pass", agent.body), ("behind", agent.epilogue)):
            if steps:
                lines += [f"  {part}", *(f"    {step_text(step)}" for step in steps)]
    return "\n".join(lines)


def step_text(step: Step) -> str:
    """A step in a line."""
    match step:
        case Do(stream=stream, meeting=meeting):
            return f"{step}{f' by {stream}' * bool(stream)}{f' for {meeting}' * bool(meeting)}"
        case Arrive(meeting=meeting, count=count, bytes=expected):
            return f"arrive {meeting}{f' {count} times' * (count != 1)}{f', {expected} to come' * bool(expected)}"
        case Await(meeting=meeting, phase=phase):
            return f"await {meeting} phase {phase}"
        case Meet(meeting=meeting, count=count):
            return f"meet {meeting}{f' {count} times' * (count != 1)}"
        case Commit(stream=stream):
            return f"commit {stream}"
        case Drain(stream=stream, left=left, reads_only=reads_only):
            return f"drain {stream} to {left}{', reads alone' * reads_only}"
        case Fence(source=source, target=target):
            return f"fence {source} to {target}"
