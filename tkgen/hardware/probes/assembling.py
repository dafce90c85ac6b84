"""The probes that a target has: those whose text its assembler takes as the instruction that they name."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tkgen.emulate import load, native
from tkgen.emulate.decode import decode
from tkgen.hardware.assembly import SECONDS, code_of
from tkgen.hardware.probes import matrix, memory, scalar, vector
from tkgen.hardware.probes.frame import kernel
from tkgen.hardware.probes.probe import Probe
from tkgen.targets import Target
from tkgen.toolchain.compile import assemble_commands
from tkgen.toolchain.compiler import Compiler, ToolchainError
from tkgen.toolchain.process import run_tool

_ERROR: Final = re.compile(r"^out\.s:(\d+):\d+: error", re.MULTILINE)
_BY_REGISTER: Final = "CDNA2"  # a kernel must itself say where its scratch is
NOT_PROBED: Final = {
    r"s_(getpc|setpc|swappc|call)_b64": "jumps by addresses, which differ from machine to machine",
    r"s_(setreg|set_gpr_idx|sethalt|trap|sendmsg|endpgm|barrier|waitcnt|sleep|setprio|wakeup|nop|icache|incperf|decperf"
    r"|ttrace|set_valu|cbranch_cdbg)\w*": "acts on the wave and has no result",
    r"v_(nop|clrexcp)": "has no result",
    r"s_(memtime|memrealtime)": "reads a clock",
    r"ds_gws\w*": "waits for other blocks",
    r"(s_dcache|buffer_(inv|wb))\w*": "acts on caches and has no result",
    r"ds_nop": "has no result",
}
"""Instructions without a probe, by a pattern of their names, and why."""


def names() -> frozenset[str]:
    """The mnemonics of all instructions that the emulator executes."""
    return frozenset(native.operations())


def candidates() -> list[Probe]:
    """Probes in all spellings, whatever target has them."""
    known = names()
    return [p for module in (vector, matrix, scalar, memory) for p in module.probes(known)]


def for_target(target: Target, compiler: Compiler) -> list[Probe]:
    """The probes that the target has. Raises ToolchainError where the assembler cannot be run."""
    taken = _assembled(candidates(), target, compiler)
    code = load(code_of(_listing(taken, target), target, compiler))
    start, size = code.text
    program = decode(code.image[start : start + size], target.name)
    at, found = iter(program.starts()), []
    for probe in taken:
        mnemonics = [program.mnemonic(next(at)) for _ in _instructions(probe)]
        if probe.name in mnemonics and not (target.architecture == _BY_REGISTER and "scratch_" in probe.text):
            found.append(probe)
    return list({p.text: p for p in found}.values())


def _instructions(probe: Probe) -> list[str]:
    return [line for line in probe.text.splitlines() if not line.rstrip().endswith(":")]


def _listing(probes: Iterable[Probe], target: Target) -> str:
    """A kernel with the bare instructions of all probes, as code that is only read."""
    frame = kernel([], target.name)
    lines = "\n".join(p.text for p in probes)
    return frame.replace("probes:\n", f"probes:\n{lines}\n", 1)


def _assembled(probes: Sequence[Probe], target: Target, compiler: Compiler) -> list[Probe]:
    """The probes whose text the assembler takes."""
    with tempfile.TemporaryDirectory(prefix="tkgen-") as folder:
        work = Path(folder)
        text, first = [f'.amdgcn_target "amdgcn-amd-amdhsa--{target.name}"', ".text"], []
        for probe in probes:
            first.append(len(text) + 1)
            text += probe.text.splitlines()
        (work / "out.s").write_text("\n".join(text) + "\n", encoding="utf-8")
        command = (*assemble_commands(compiler, target)[0], "-c", "-ferror-limit=0")
        done = run_tool(tuple(dict.fromkeys(command)), cwd=work, timeout=SECONDS)
    refused = {int(line) for line in _ERROR.findall(done.stderr + done.stdout)}
    if not done.ok and not refused:
        raise ToolchainError(f"the assembler cannot be run: {done.stderr.strip()}", command=command)
    return [p for p, line in zip(probes, first, strict=True) if not refused & set(_lines_of(p, line))]


def _lines_of(probe: Probe, first: int) -> range:
    return range(first, first + len(probe.text.splitlines()))


def reason_without(name: str) -> str:
    """Why an instruction has no probe; an empty text where it should have one."""
    return next((why for pattern, why in NOT_PROBED.items() if re.fullmatch(pattern, name)), "")
