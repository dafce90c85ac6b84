"""One sentence per finding, in the terms of somebody who writes kernels."""

from __future__ import annotations

from tkgen.emulate import native
from tkgen.emulate.findings import Access, Kind, Space

# What is said of one instruction, which stands for the braces.
OF_AN_INSTRUCTION = {
    Kind.UNKNOWN_INSTRUCTION: "the emulator does not know {}",
    Kind.BAD_JUMP: "execution leaves the code after {}",
    Kind.TRAP: "{} stops the wave",
    Kind.UNSUPPORTED: "the emulator does not support what {} asks for",
    Kind.DATA_DEPENDENT: "what {} does depends on data, which this launch is without",
    Kind.ILLEGAL_OPERAND: "{} has an operand that does not exist",
}


def describe(
    kind: Kind,
    first: Access,
    second: Access | None,
    space: Space,
    offset: int,
    buffer: str | None,
    size: int,
    lane: int,
    other_lane: int,
    record: native.Launch,
) -> str:
    """The message of a finding."""
    where = f"byte {offset} of {buffer or space.value}"
    register = f"{'v' if offset < 256 else 'a'}{offset % 256}" if space is Space.VGPR else f"s{offset}"
    match kind:
        case Kind.RACE:
            assert second is not None
            return _race(first, second, space, where)
        case Kind.LANE_RACE:
            return f"lanes {other_lane} and {lane} of wave {first.wave} write different values to {where} at once"
        case Kind.DIVERGENT_BARRIER:
            return (
                f"wave {first.wave} meets a barrier without lane {lane}, which goes on behind it: the barrier counts "
                "waves, so the lane passed it without having come there"
            )
        case Kind.WAIT_STATES:
            assert second is not None
            return _wait_states(first, second, _scalar_name(register), lane, size)
        case Kind.BLOCK_RACE:
            assert second is not None
            return (
                f"two blocks touch {where}: one {second.access}, another {first.access} it, and blocks are not ordered"
            )
        case Kind.UNINITIALISED_LDS:
            return f"lane {lane} of wave {first.wave} reads {size} bytes of LDS, of which byte {offset} was not written"
        case Kind.UNINITIALISED_REGISTER:
            return f"{register} is used in lane {lane}, but nothing ever wrote it"
        case Kind.LDS_OUT_OF_BOUNDS:
            return f"lane {lane} accesses {size} bytes at LDS byte {offset}; the block has {record.lds_bytes} bytes"
        case Kind.GLOBAL_OUT_OF_BOUNDS:
            near = f"{offset} bytes after the start of {buffer}" if buffer else f"address 0x{offset:x}"
            return f"lane {lane} {first.access} {size} bytes at {near}, outside of every buffer"
        case Kind.READ_ONLY_WRITE:
            return f"lane {lane} writes {where}, which is read-only"
        case Kind.SCRATCH_OUT_OF_BOUNDS:
            return (
                f"lane {lane} accesses {size} bytes at scratch byte {offset}; there are {record.scratch_bytes} per lane"
            )
        case Kind.MISALIGNED:
            return f"lane {lane} accesses {size} bytes at {where}, which is not aligned"
        case Kind.READ_BEFORE_WAIT | Kind.OVERWRITE_BEFORE_WAIT:
            return _before_wait(kind, second, space, register, where)
        case Kind.BARRIER_COUNT | Kind.BUDGET | Kind.DEADLOCK:
            return _no_end(kind, first, second, record.budget)
        case Kind.WATCH_LIMIT:
            return "the block touches more memory than the referee can watch: run fewer K-steps, or without the referee"
        case _:
            return OF_AN_INSTRUCTION[kind].format(f"`{first.text}` at 0x{first.address:x}")


def _no_end(kind: Kind, first: Access, second: Access | None, budget: int) -> str:
    """Why not all waves come to their end."""
    if kind is Kind.BUDGET:
        return f"still running after {budget} instructions of the block: an endless loop?"
    if kind is Kind.DEADLOCK and second is None:
        return f"wave {first.wave} waits at a barrier of the grid for blocks that never come to it: a deadlock"
    assert second is not None
    if kind is Kind.DEADLOCK:
        return (
            f"wave {first.wave} still loops after {budget} instructions of the block, while wave {second.wave} waits "
            "for it at a barrier: a deadlock"
        )
    return (
        f"wave {first.wave} waits at its barrier {first.epoch + 1}, but wave {second.wave} has ended after "
        f"{second.epoch}: a barrier does not wait for waves that have ended"
    )


def _wait_states(first: Access, second: Access, register: str, needed: int, missing: int) -> str:
    states = f"{needed} wait state{'s' if needed != 1 else ''}"
    return (
        f"{first.text.split()[0]} comes too early for {register}: it needs {states} after {second.text.split()[0]}, "
        f"{missing} {'are' if missing != 1 else 'is'} missing, and the hardware does not wait by itself"
    )


def _scalar_name(register: str) -> str:
    """Scalar registers that have names of their own."""
    return {"s106": "vcc", "s124": "m0", "s126": "exec"}.get(register, register)


def _race(first: Access, second: Access, space: Space, where: str) -> str:
    verb = f"wave {second.wave} {second.access} {where} and wave {first.wave} {first.access} it"
    done = "not waited for" if second.done is None else f"done in epoch {second.done}"
    return (
        f"{verb} without a barrier between: wave {second.wave}'s access is of epoch {second.epoch}"
        f"{f' ({done})' if space is Space.LDS else ''}, wave {first.wave}'s of epoch {first.epoch}"
    )


def _before_wait(kind: Kind, second: Access | None, space: Space, register: str, where: str) -> str:
    if space is Space.LDS:
        assert second is not None
        if second.text.startswith(("ds_", "flat_")):
            doing = {"reads": "read", "writes": "write"}.get(second.access, "update")
            return f"{where} is loaded into from memory while its {doing} of epoch {second.epoch} is still under way"
        verb = "is read" if kind is Kind.READ_BEFORE_WAIT else "is written"
        return f"{where} {verb} while the direct-to-LDS load of epoch {second.epoch} into it is still under way"
    verb = "read" if kind is Kind.READ_BEFORE_WAIT else "overwritten"
    return (
        f"{register} is {verb} while a load into it is still under way: an s_waitcnt is missing or waits for too little"
    )
