"""Parts of a Hopper spec that the ops of its kernel choose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tkgen.backends.form import Form
from tkgen.backends.protocol import Modelled
from tkgen.ir.launch import Launch
from tkgen.ir.types import ACCESS_BYTES
from tkgen.source import Span

if TYPE_CHECKING:
    from tkgen.backends.hopper.spec import HopperSpec
    from tkgen.backends.hopper.toolchain import Figures

    AnySpec = HopperSpec[Any]


@dataclass(frozen=True, kw_only=True)
class HopperForm(Form):
    """Launch, model and description of kernels with certain ops.

    `modelled` takes a spec and what its method of that name takes. `copies`: the copy engine moves tiles of its layout.
    """

    suffix: str = "cu"
    facts: Callable[[AnySpec], dict[str, object]]  # its plan, as plain data
    words: Callable[[AnySpec, Figures], str]  # the same in words
    modelled: Callable[..., Modelled]
    proof: str = "the plan; its machine code is tested on the GPU"
    copies: bool = True
    aligned_bytes: int = ACCESS_BYTES  # what the first byte of a tensor that threads read themselves is a multiple of
    single: Callable[[AnySpec], frozenset[str]] = lambda spec: frozenset()  # what is copied, and read by threads, too
    filled: Callable[[AnySpec], frozenset[str]] = lambda spec: frozenset()  # operands that threads load in chunks
    blocks: Callable[[Launch[Any]], int] = lambda launch: launch.blocks
    lets_next: Callable[[AnySpec], bool] = lambda spec: False  # begin before it ends, at the place that is best
    one_matrix: Callable[[AnySpec], dict[str, int]] = lambda spec: {}
    judged: Callable[[AnySpec], Span] = lambda spec: spec.program.spans["kernel"]  # what machine code breaks, is said
    room: Callable[[AnySpec], tuple[str, ...]] = lambda spec: ()  # arguments of `check_figures`: registers, and a fix
