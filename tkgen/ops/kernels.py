"""The kernels behind the operators: specs of this package, built once for each target and sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import torch
from torch.autograd import Function

from tkgen.api import load
from tkgen.backends import protocol
from tkgen.backends.hopper import prepared as hopper
from tkgen.diagnostics import SpecError
from tkgen.execute.operator import MOST_PREPARED, Prepared, prepared, signature
from tkgen.execute.registered import below_autograd, define
from tkgen.targets import DEFAULT_TARGET, load_target

SPECS = Path(__file__).with_name("specs")
NAMESPACE = "tkgen_ops"
HOPPER = "sm_90a"
CAPABILITIES = {(9, 0): HOPPER}  # targets of CUDA's devices
ABSENT = {
    "attention_backward": "attention has no gradient",
    "grouped_linear_weight": "grouped_linear has no gradient of its weights",
}
"""What Hopper has no kernel for, by the beginnings of the names of specs."""
FREE: Mapping[str, int] = MappingProxyType({})  # of a kernel whose sizes are all known at run time
_target: str | None = None
_architectures: dict[torch.device, str] = {}
Tensors: TypeAlias = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Choice:
    """The kernel for some tensors: name or text of a spec, values that it is built for, sizes that no input has."""

    spec: str
    defines: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)


Choose: TypeAlias = Callable[..., Choice]


@contextmanager
def emulated(target: str) -> Iterator[None]:
    """Within it, CPU tensors are computed by the machine code for `target` (else for gfx942), of sm_90a by the C++.

    Raises:
        UnknownTargetError: at the first kernel, where there is no such target.
    """
    global _target
    before, _target = _target, target
    try:
        yield
    finally:
        _target = before


def emulated_target() -> str | None:
    """The target of CPU tensors within `emulated`, None elsewhere."""
    return _target


class Operation:
    """An operator that one kernel computes: its schema has tensors, then scalars of the kernel, then options.

    `like` makes empty tensors like the outputs. `choose` says which spec computes it, and the sizes for which that is
    built, of the tensors and the options; a name alone is that of a spec whose sizes are all known at run time. The
    kernel gets what `seen` makes of the tensors, if that is given: the same elements in other shapes.
    """

    def __init__(
        self,
        schema: str,
        like: Callable[..., Tensors],
        choose: str | Choose,
        gradient: type[Function] | None = None,
        seen: Callable[..., Tensors] | None = None,
    ) -> None:
        takes = schema.partition("(")[2].partition(")")[0].split(", ")
        self.tensors = sum(one.startswith("Tensor ") for one in takes)
        self.rest = self.tensors + sum(one.startswith("float ") for one in takes)
        self.like, self.seen = like, seen
        self.choose: Choose = (lambda *_: Choice(choose)) if isinstance(choose, str) else choose
        self.prepared: dict[object, Prepared] = {}
        hopper.forgotten.append(self.prepared.clear)
        alone = not schema.endswith(")")
        compute, rule = (self._first, self._like_first) if alone else (self.compute, like)
        self.operator, self.keeping = define(f"{NAMESPACE}::{schema}", compute, rule, gradient)

    def __call__(self, wants: bool, *arguments: Any) -> Any:
        """Call the operator; autograd does nothing where `wants` is False, or while gradients are off."""
        if torch.compiler.is_compiling():
            return self.operator(*arguments)
        if wants and torch.is_grad_enabled():
            return self.keeping(*arguments)
        with below_autograd():
            return self.operator(*arguments)

    def compute(self, *arguments: Any) -> Tensors:
        """The outputs; where a size is zero, sums over nothing are all that there is to compute.

        Raises:
            ValueError: types, shapes, sizes or devices that the kernel cannot do, or none for the device's target.
            SpecError: sizes for which the spec cannot be built.
            ToolchainError: there is no compiler, or it fails.
        """
        tensors, options = arguments[: self.tensors], arguments[self.rest :]
        key = _target, options, signature(tensors)
        found = self.prepared.get(key)
        if found is None:
            found = self._prepare(tensors, arguments[self.tensors : self.rest], options)
            if len(self.prepared) >= MOST_PREPARED:
                self.prepared.clear()
            self.prepared[key] = found
        return found(tensors, arguments[self.tensors : self.rest])

    def _prepare(self, tensors: Tensors, numbers: tuple[float, ...], options: tuple[Any, ...]) -> Prepared:
        if any(t.numel() == 0 for t in tensors):
            return lambda given, scalars: tuple([t.zero_() for t in self.like(*given, *scalars, *options)])
        found = self.choose(*tensors, *options)
        build = _built(found.spec, architecture(tensors[0].device), tuple(sorted(found.defines.items())))
        seen = self.seen
        if seen is None:
            return prepared(build, tensors, found.sizes)
        views = seen(*tensors)
        launched = prepared(build, views, found.sizes)
        shapes = [t.shape for t in self.like(*tensors, *numbers, *options)]
        if isinstance(launched, hopper.Prepared) and all(
            view.data_ptr() == t.data_ptr() for view, t in zip(views, tensors, strict=True)
        ):  # then addresses alone are passed, and no view is made
            return replace(launched, made=tuple(m.of(shape) for m, shape in zip(launched.made, shapes, strict=True)))

        def compute(given: Sequence[torch.Tensor], scalars: Sequence[float]) -> Tensors:
            return tuple([t.view(shape) for t, shape in zip(launched(seen(*given), scalars), shapes, strict=True)])

        return compute

    def _first(self, *arguments: Any) -> torch.Tensor:
        return self.compute(*arguments)[0]

    def _like_first(self, *arguments: Any) -> torch.Tensor:
        return self.like(*arguments)[0]


@cache
def _built(name: str, target: str, sizes: tuple[tuple[str, int], ...]) -> protocol.Build:
    if target == HOPPER and (absent := next((said for start, said in ABSENT.items() if name.startswith(start)), "")):
        raise ValueError(f"{absent} on {target}: tkgen.ops has no kernel for it there, those for AMD's GPUs have")
    *faster, last = forms(name, target, dict(sizes))
    for form in faster:
        if _passes(form, target, dict(sizes)):
            build = load(form, dict(sizes), target).check().build()
            if all(part.named_figures()["spills"] == part.named_figures()["scratch"] == 0 for part in build.kernels):
                return build
    return load(last, dict(sizes), target).check().build()


def forms(name: str, target: str, sizes: Mapping[str, int] = FREE) -> tuple[Path | str, ...]:
    """The spec `name`, or of that text, in the forms in which a target takes it, the predicted fastest one first.

    Of what docs/prediction.md says of attention at 4096 queries: in ping-pong its forward pass reaches 619 TFLOP/s on
    gfx942 instead of 572, and on gfx950 1563 instead of 1341, or of 1182 without direct loads; but not for every D.
    Gradients take 0.83 of the time with direct loads. A backward pass must compute the scores of its forward pass bit
    by bit, so both have these, or none. Of what sm_90a executes otherwise it has specs of its own.
    """
    if "\n" in name:  # a text is the only form
        return (name,)
    if target == HOPPER:
        own = SPECS / target / f"{name}.tk"
        return (own if own.is_file() else SPECS / f"{name}.tk",)
    if sizes.get("D", 0) > 128:
        name = name.removesuffix("_atomic")
    path = SPECS / f"{name}.tk"
    if not name.startswith("attention"):
        return (path,)
    plain = path.read_text(encoding="utf-8")
    if sizes.get("D", 0) > 128:
        return (_wide(plain, sizes["D"]),)
    if 16 in load_target(target).direct_load_bytes:
        kind = name.removeprefix("attention").removeprefix("_backward").removesuffix("_atomic")
        backward = (SPECS / f"attention_backward{kind}.tk").read_text(encoding="utf-8")
        if _passes(_direct(backward), target, sizes):
            plain = _direct(plain)
    if name.endswith("_atomic"):  # not for every D
        return (plain, *forms(name.removesuffix("_atomic"), target, sizes))
    if name.startswith("attention_backward") or name.endswith("window"):  # in ping-pong, that spills on gfx950
        return (plain,)
    halves = plain.replace("q in LENGTH by 128\n  waves 4 along q", "q in LENGTH by 256\n  waves 8 along q")
    return halves.replace("  registers Q\n", "  registers Q\n  schedule ping_pong\n"), plain


def _wide(text: str, width: int) -> str:
    """The same kernels for heads of more than 128: fewer keys an iteration, and beyond 192 fewer rows a wave.

    A backward pass of 256 has no room for 32 keys a wave in 512 registers. Its forward pass has base tiles of as
    many rows, so that both sum scores in the same order.
    """
    text = text.replace("j in KEYS by 64", "j in KEYS by 32")
    text = re.sub(r"(shared (?:Q, GO|K, V)) buffers 2(?=\n  (?:shared SHIFT|registers Q, GO))", r"\1", text)
    return re.sub(r"(LENGTH|KEYS) by 128", r"\1 by 64", text) if width > 192 else text


def _direct(text: str) -> str:
    """The same kernels, where what is multiplied goes directly from global memory to LDS."""
    return re.sub(r"(shared (?:K, V|Q, GO) buffers 2)", r"\1 via direct", text)


def _passes(form: Path | str, target: str, sizes: Mapping[str, int]) -> bool:
    try:
        load(form, dict(sizes), target).check()
    except SpecError:
        return False
    return True


def architecture(device: torch.device) -> str:
    """The target of the kernels that compute a device's tensors. Raises ValueError where there are none for it."""
    if device.type != "cuda":
        return _target or DEFAULT_TARGET
    if device not in _architectures:
        _architectures[device] = _architecture(device)
    return _architectures[device]


def _architecture(device: torch.device) -> str:
    if torch.version.hip:
        return str(torch.cuda.get_device_properties(device).gcnArchName).partition(":")[0]
    capability = torch.cuda.get_device_capability(device)
    if capability not in CAPABILITIES:
        raise ValueError(
            f"tkgen.ops has no kernels for the {torch.cuda.get_device_name(device)}, of compute capability "
            f"{'.'.join(map(str, capability))}: they are for AMD's GPUs and for Hopper, which is 9.0"
        )
    return CAPABILITIES[capability]


def matrix(x: torch.Tensor) -> torch.Tensor:
    """All rows of x, [..., D], as [ROWS, D]."""
    return x if x.dim() == 2 else x.reshape(-1, x.shape[-1])


def matrices(*tensors: torch.Tensor) -> Tensors:
    """The rows of each."""
    return tuple([matrix(t) for t in tensors])


def check(name: str, **tensors: torch.Tensor) -> None:
    """Raises ValueError for tensors that are not bf16."""
    for which, tensor in tensors.items():
        if tensor.dtype is not torch.bfloat16:
            raise ValueError(f"{name}: {which} is bf16, not {tensor.dtype}")
