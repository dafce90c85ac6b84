"""Parts of a CDNA spec that the ops of its kernel choose."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tkgen.backends.cdna.lower.origins import Source
from tkgen.backends.form import Form
from tkgen.diagnostics import Diagnostic
from tkgen.diagnostics.text import count_text
from tkgen.targets.model import Resources
from tkgen.toolchain.isa import Function, InstructionMix, instruction_mix, main_loop

if TYPE_CHECKING:
    from tkgen.backends.cdna.spec import Spec

    AnySpec = Spec[Any]


@dataclass(frozen=True, kw_only=True)
class CdnaForm(Form):
    """The stages of kernels with certain ops; the last four are of their machine code."""

    schedule: Callable[[AnySpec], Any]  # what waves do, proven; raises SpecError
    namespace: Callable[[AnySpec], Source]  # the C++, without the file around it
    decides: Callable[[AnySpec], bool] = lambda spec: False  # whether what waves do depends on data
    measured: Callable[[AnySpec, Resources], Iterable[Diagnostic]]  # what the real registers break
    barriers: Callable[[AnySpec], tuple[str, int]]  # of a block, by the name that an `# expect` line has for them
    figures: Callable[[AnySpec, Function], dict[str, object]]  # of reports, beside the resources
    words: Callable[[AnySpec, Function], list[str]]  # the same in a few words, for the line of figures


def loop_mix(function: Function) -> InstructionMix | None:
    """The instruction mix of one iteration of the main loop; None where nothing loops."""
    loop = main_loop(function)
    return None if loop is None else instruction_mix(loop.instructions)


def loop_words(barriers: int, loop: InstructionMix | None) -> list[str]:
    """Barriers, and the instructions of the loop."""
    found = [f"{count_text(barriers, 'barrier')}/step"]
    if loop is not None:
        found.append(
            f"{sum(loop.mfma.values())} MFMA in the loop, {other_per_mfma(loop):.2f} non-MFMA instructions per MFMA"
        )
    return found


def other_per_mfma(mix: InstructionMix) -> float:
    """Instructions that are not MFMAs, per MFMA, as reports show it; 0 without an MFMA."""
    return round(mix.others_per_mfma or 0.0, 3)
