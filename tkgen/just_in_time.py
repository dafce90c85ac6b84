"""Kernels that are built when they are called: a spec as a Python function (`tkgen.jit`).

>>> softmax = tkgen.jit("specs/rows/softmax.tk")
>>> y = softmax(torch.randn(64, 1000).bfloat16())  # built for 64 rows of 1000
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch._subclasses import FakeTensor

from tkgen.api import load
from tkgen.backends import protocol
from tkgen.diagnostics import SpecError
from tkgen.diagnostics.python_strings import PythonString, dedented, find
from tkgen.diagnostics.text import suggestion
from tkgen.execute.operator import MOST_PREPARED, STORED, operator, parameter, prepared, signature, sizes_of
from tkgen.ir.types import ACCESS_BYTES
from tkgen.ops.kernels import architecture, emulated_target
from tkgen.pipeline import RESOLVE, SCHEDULE, Request, run
from tkgen.tune.results import TunedShape, add, fingerprint, read

if TYPE_CHECKING:
    from tkgen.tune.trial import Trial

SPEC = re.compile(r"(\s*#[^\n]*\n|\s)*(kernel|sequence|target)\b")
Tensors: TypeAlias = torch.Tensor | tuple[torch.Tensor, ...]
Source: TypeAlias = str | os.PathLike[str] | Callable[..., Any]


def jit(
    source: Source | None = None,
    *,
    target: str | None = None,
    tune: bool | Mapping[str, Sequence[int]] = False,
    tuned: str | os.PathLike[str] | None = None,
) -> Any:
    """A function of tensors that builds a spec when it is called with new sizes.

    `source` is the text of a spec, the path of one, or a Python function that has a spec as its docstring or returns
    one; without it, this is a decorator. The function takes the inputs of the spec and then its scalars, by position or
    by name, and by name the sizes of dimensions and parameters; a decorated function takes them in the order of its own
    parameters, which have the names that the spec has. It returns the output, or a tuple of them.

    A dimension that has a number in the spec gets the size that the tensors have: there is a build for each. One that
    is `dynamic` stays so. Tensors on a GPU are computed there; those on the CPU by the emulator, for `target`, the
    first target of the spec, or gfx942.

    `tune` searches the parameters at each new size, and keeps what it finds in the file `tuned` (without it, the name
    of the kernel and `.tuned.json`, beside the file that has the spec); a mapping has the values to try. Without a
    `tune` clause the numbers of the spec are searched on AMD targets, as `tkgen tune` offers them.

    Raises:
        TypeError: `source` is neither text, nor a path, nor a function.
    """
    caller = sys._getframe(1).f_code.co_filename
    if source is None:
        return lambda function: Jit(function, target, tune, tuned, caller)
    return Jit(source, target, tune, tuned, caller)


@dataclass(frozen=True)
class _Text:
    """The text of a spec, as it is parsed: the name it has as a file, and its place in a Python file, if any."""

    text: str
    name: str
    folder: Path
    place: PythonString | None

    def checked(self, work: Callable[[], Any]) -> Any:
        """The result of `work`. Raises SpecError with diagnostics that point to the Python file."""
        try:
            return work()
        except SpecError as error:
            if self.place is None:
                raise
            raise SpecError(list(map(self.place.moved, error.diagnostics))) from None

    def load(self, defines: Mapping[str, int | None], target: str | None) -> protocol.Spec:
        """The spec with these sizes. Raises SpecError."""
        return run(Request(self.name, dict(defines), target, (self.folder,), self.text), SCHEDULE)


@dataclass(frozen=True)
class _Face:
    """The arguments of a spec before its sizes are known: its program, and its dimensions and parameters."""

    program: Any
    names: frozenset[str]
    orders: dict[object, _Order] = field(default_factory=dict)

    @cached_property
    def places(self) -> tuple[str, ...]:
        """The inputs and then the scalars."""
        return tuple(each.name for each in (*self.program.reads, *self.program.scalars))

    @cached_property
    def static(self) -> frozenset[str]:
        """The dimensions that have numbers."""
        return frozenset(d.name for d in self.program.dims if d.size is not None)

    def order(self, name: str, at: Mapping[str, int], defaults: tuple[Any, ...], strict: bool) -> _Order:
        """The order of a call whose arguments have the positions `at`, in the name of a function.

        Raises:
            TypeError: an argument is missing, or one is none of the spec, where it is `strict`.
        """
        program = self.program
        unknown = [n for n in at if n not in self.places and n not in self.names]
        if unknown and strict:
            scalars = ", ".join(s.name for s in program.scalars)
            near = suggestion(unknown[0], {*self.places, *self.names})
            takes = f"its inputs are {', '.join(t.name for t in program.reads)}" + (
                scalars and f", its scalars {scalars}"
            )
            sizes = ", ".join(sorted(self.names))
            raise TypeError(f"{name} takes no `{unknown[0]}`{near}: {takes}, its dimensions and parameters {sizes}")
        needed = (*program.reads, *(s for s in program.scalars if s.default is None))
        if missing := [each.name for each in needed if each.name not in at]:
            raise TypeError(f"{name}: {missing[0]} is missing")
        scalars_at = tuple((s.name, at[s.name]) for s in program.scalars if s.name in at)
        numbers = tuple((n, at[n]) for n in sorted(self.names) if n in at and n not in self.places)
        return _Order(tuple(at[t.name] for t in program.reads), scalars_at, numbers, defaults)


@dataclass(frozen=True)
class _Order:
    """The positions of what a spec takes among the values of a call, after which come `defaults`."""

    inputs: tuple[int, ...]
    scalars: tuple[tuple[str, int], ...]
    numbers: tuple[tuple[str, int], ...]
    defaults: tuple[Any, ...]


@dataclass(frozen=True)
class _Call:
    """One call: the text, the inputs in order, scalars by name, and the numbers of dimensions and parameters."""

    text: _Text
    face: _Face
    inputs: tuple[torch.Tensor, ...]
    scalars: Mapping[str, float]
    numbers: tuple[tuple[str, int], ...]
    outs: tuple[torch.Tensor, ...]  # the memory that is given for outputs, if it is


class Jit:
    """A spec as a function of tensors, as `jit` describes it; `build` has the build that such a call uses."""

    def __init__(
        self,
        source: Source,
        target: str | None,
        tune: bool | Mapping[str, Sequence[int]],
        tuned: str | os.PathLike[str] | None,
        caller: str,
    ) -> None:
        self.function = source if callable(source) else None
        self.target, self.tune, self.tuned = target, bool(tune), tuned
        self.ranges = tune if isinstance(tune, Mapping) else {}
        self.signature: inspect.Signature | None = None
        self._text: _Text | None = None
        self._faces: dict[tuple[str, str | None], _Face] = {}
        self._texts: dict[str, _Text] = {}
        self._builds: dict[object, tuple[protocol.Build, Callable[..., Tensors]]] = {}
        self._known: dict[object, tuple[protocol.Build, Callable[..., Tensors]]] = {}
        self._lock = Lock()
        if self.function is not None:
            code = inspect.unwrap(self.function).__code__
            self._file, self._lines = code.co_filename, _lines(self.function)
            self.__name__, self.__doc__ = self.function.__name__, self.function.__doc__
            self.__wrapped__, self.signature = self.function, inspect.signature(self.function)
            if SPEC.match(self.__doc__ or ""):
                self._text = self._located(self.__doc__ or "")
        elif isinstance(source, str) and "\n" in source:
            self._file, self._lines = caller, None
            self.__name__ = "spec"
            self._text = self._located(source)
        elif isinstance(source, str | os.PathLike):
            path = Path(source)
            self._file, self.__name__ = str(path), path.stem
            self._text = _Text(path.read_text(encoding="utf-8"), str(path), path.parent, None)
        else:
            raise TypeError(f"jit takes the text or the path of a spec, or a function, not {type(source).__name__}")
        # What is here is Python for torch.compile, too: it sees the operators that a call comes to.
        self._call = torch.compiler.allow_in_graph(lambda *args, **kwargs: self._called(args, kwargs))

    def __call__(self, *args: Any, **kwargs: Any) -> Tensors:
        """The output of the kernel, or a tuple of them. `out` is memory for it: a tensor, or a tuple of them.

        Raises:
            TypeError: an argument that the spec does not have, or none where it needs one.
            ValueError: types, shapes, sizes or devices that the kernel cannot do.
            SpecError: the spec is wrong, or wrong at these sizes; it points to the file that has the string.
            ToolchainError: there is no compiler, or it fails.
        """
        return self._call(*args, **kwargs)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<tkgen.jit {self.__name__}>"

    def build(self, *args: Any, **kwargs: Any) -> protocol.Build:
        """The build that a call with these arguments uses. Raises as a call."""
        return self._built(self._bound(args, kwargs))[0]

    # ------------------------------------------------------------ the text

    def _located(self, string: str) -> _Text:
        """The text of a string of the Python file."""
        if string not in self._texts:
            name = f"<{self.__name__}>"
            place = find(string, name, self._file, self._lines)
            folder = Path(self._file).parent
            self._texts[string] = _Text(dedented(string), name, folder, place)
        return self._texts[string]

    def _face(self, text: _Text, target: str | None) -> _Face:
        key = text.text, target
        if key not in self._faces:
            request = Request(text.name, {}, target, (text.folder,), text.text)
            resolved = text.checked(lambda: run(request, RESOLVE))
            self._faces[key] = _Face(text.checked(resolved.program), resolved.parsed.names)
        return self._faces[key]

    # ------------------------------------------------------------ a call

    def _called(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensors:
        call = self._bound(args, kwargs)
        build, compute = self._built(call)
        given = {parameter(name): value for name, value in call.scalars.items()}
        if not call.outs:
            return compute(*call.inputs, **given)
        if _direct(build, call.inputs, call.outs):
            values = tuple(call.scalars.get(s.name, s.default) for s in build.spec.program.scalars)
            prepared(build, call.inputs)(call.inputs, values, call.outs)
        else:
            made = compute(*call.inputs, **given)
            for to, value in zip(call.outs, (made,) if isinstance(made, torch.Tensor) else made, strict=True):
                to.copy_(value)
        return kwargs["out"]  # type: ignore[no-any-return]

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Call:
        """The call that arguments mean. Raises TypeError where they mean none, SpecError for a wrong spec."""
        if "out" in kwargs:
            kwargs = dict(kwargs)
            out = kwargs.pop("out")
            outs = (out,) if isinstance(out, torch.Tensor) else tuple(out)
        else:
            outs = ()
        values = (*args, *kwargs.values())
        text = self._text if self._text is not None else self._returned(args, kwargs)
        face = self._face(text, self._target(values))
        key = len(args), tuple(kwargs)
        order = face.orders.get(key)
        if order is None:
            order = face.orders[key] = self._order(face, *key)
        values += order.defaults
        return _Call(
            text, face, tuple([values[n] for n in order.inputs]), {name: values[n] for name, n in order.scalars},
            tuple([(name, values[n]) for name, n in order.numbers]), outs,
        )  # fmt: skip

    def _order(self, face: _Face, count: int, names: Sequence[str]) -> _Order:
        """The order of a call with `count` values and others by name. Raises TypeError where there is none."""
        named, defaults = {name: n for n, name in enumerate(names, count)}, dict[str, Any]()
        if self.signature is not None:
            try:
                bound = self.signature.bind(*range(count), **named)
            except TypeError as error:
                raise TypeError(f"{self.__name__}: {error}") from None
            at = dict(bound.arguments)
            left = {p.name: p.default for p in self.signature.parameters.values() if p.name not in at}
            defaults = {name: value for name, value in left.items() if value is not inspect.Parameter.empty}
            at |= {name: n for n, name in enumerate(defaults, count + len(names))}
            return face.order(self.__name__, at, tuple(defaults.values()), strict=self._text is not None)
        if count > len(face.places):
            takes = f"{len(face.places)} arguments ({', '.join(face.places)})"
            raise TypeError(f"{self.__name__} takes {takes}, not {count}")
        at = dict(zip(face.places, range(count), strict=False))
        if twice := at.keys() & named.keys():
            raise TypeError(f"{self.__name__} has two values for `{min(twice)}`")
        return face.order(self.__name__, at | named, (), strict=True)

    def _returned(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Text:
        """The text that the function returns for these arguments. Raises TypeError where it returns none."""
        assert self.function is not None
        text = self.function(*args, **kwargs)
        if not isinstance(text, str):
            kind = type(text).__name__
            raise TypeError(f"{self.__name__} has no spec: its docstring is none, and it returned {kind}, not a text")
        return self._located(text)

    def _target(self, values: Sequence[Any]) -> str | None:
        """The target for these tensors; None if the spec decides. Raises ValueError for another GPU."""
        device = next((value.device for value in values if isinstance(value, torch.Tensor)), None)
        if device is None or device.type != "cuda":
            return self.target or emulated_target()
        found = architecture(device)
        if self.target not in (None, found):
            raise ValueError(f"{self.__name__} is for {self.target}, and {device} is {found}")
        return found

    def _built(self, call: _Call) -> tuple[protocol.Build, Callable[..., Tensors]]:
        """The build of a call and its operator. Raises as a call."""
        target = self._target(call.inputs)
        tensors = signature((*call.inputs, *call.outs))
        key = call.text.text, target, call.numbers, tensors
        try:
            return self._known[key]
        except KeyError:
            pass
        except TypeError:  # sizes that are symbols, while torch.compile traces
            tensors = None
        sizes = self._sizes(call)
        static = {name: int(size) for name, size in sizes.items() if self.tune or name in call.face.static}
        defines = {**static, **dict(call.numbers)}
        chosen = call.text.text, target, tuple(sorted(defines.items()))
        with self._lock:
            if chosen not in self._builds:
                with ThreadPoolExecutor(1) as alone:  # where torch.compile traces nothing
                    self._builds[chosen] = alone.submit(self._make, call, target, defines, sizes).result()
            found = self._builds[chosen]
        if tensors is not None:
            if len(self._known) >= MOST_PREPARED:
                self._known.clear()
            self._known[key] = found
        return found

    def _sizes(self, call: _Call) -> dict[str, int]:
        """The sizes of the tensors by dimension. Raises TypeError and ValueError."""
        program, outs = call.face.program, call.outs
        if outs and len(outs) != len(program.outputs):
            names = ", ".join(t.name for t in program.outputs)
            raise ValueError(f"{self.__name__} has {len(program.outputs)} outputs ({names}), not {len(outs)}")
        empty = {d for d in program.dims if d.size is None}
        known = {name: number for name, number in call.numbers if name in call.face.static}
        tensors = zip((*program.reads, *program.outputs), (*call.inputs, *outs), strict=False)
        return sizes_of(self.__name__, list(tensors), empty, known)

    # ------------------------------------------------------------ a build

    def _make(
        self, call: _Call, target: str | None, defines: Mapping[str, int], sizes: Mapping[str, int]
    ) -> tuple[protocol.Build, Callable[..., Tensors]]:
        text = call.text
        if self.tune:
            text, defines = self._tuned(call, target, defines, sizes)
        build: protocol.Build = text.checked(lambda: text.load(defines, target).check().build())
        program = build.spec.program
        identity = (*(k.code for k in build.kernels), *(d.size for d in program.dims))
        digest = hashlib.sha256(repr(identity).encode()).hexdigest()[:10]
        return build, operator(build, name=f"{program.name}_{digest}")

    def _tuned(
        self, call: _Call, target: str | None, defines: Mapping[str, int], sizes: Mapping[str, int]
    ) -> tuple[_Text, Mapping[str, int]]:
        """The text and the defines that are fastest at these sizes: of the file, else of a search.

        Raises:
            TuneError, NothingFits: nothing of the spec varies, or no candidate is right.
        """

        text, program = call.text, call.face.program
        spec = text.checked(lambda: text.load(defines, target).check())
        dims = {d.name for d in program.dims}
        shape = {**sizes, **defines}
        known = TunedShape(program.name, fingerprint(text.text), spec.target.name, shape, {}, 0.0, False)
        path = self._file_of_results(program.name)
        found = next((each for each in read(path) if each.shape == known.shape), None)
        if found is None:
            device = "gpu" if call.inputs[0].is_cuda else "emulator"
            winner, written = self._searched(text, spec, defines, {n: shape[n] for n in shape if n in dims}, device)
            measured = winner.gpu_seconds is not None
            found = replace(known, values=winner.values, seconds=winner.rank, measured=measured, text=written)
            add(path, found)
        if found.text:
            return replace(text, text=found.text, place=None), defines
        return text, {**defines, **found.values}

    def _searched(
        self, text: _Text, spec: protocol.Spec, defines: Mapping[str, int], sizes: Mapping[str, int], device: str
    ) -> tuple[Trial, str]:
        """The winner of a search, and its text where the spec says nothing of what to tune: then its numbers vary.

        Raises:
            TuneError, NothingFits: nothing of the spec varies, or no candidate is right.
        """
        from tkgen import tune as tuner
        from tkgen.tune.offers import searched
        from tkgen.tune.space import Space

        fixed = {n: v for n, v in defines.items() if n not in sizes}
        with TemporaryDirectory() as folder:
            copy = Path(folder) / f"{spec.name}.tk"
            copy.write_text(text.text, encoding="utf-8")
            roots: tuple[Path, ...] = (text.folder,)
            files: tuple[Path, ...] = (copy,)
            said = any(variant.axes for variant in Space.of(files, self.ranges, fixed, roots).variants)
            if not said:
                own = load(copy, defines, spec.target.name, roots)
                files = searched(copy, own, roots)
            if not files:
                advice = "add a line `tune NAME in 64, 128`, or pass `tune={...}` with values of its parameters"
                raise tuner.TuneError(f"{self.__name__} has nothing to tune: {advice}")
            request = tuner.Request(
                files, fixed, self.ranges, sizes, spec.target.name, include_roots=roots, device=device
            )
            outcome = tuner.tune(request)
        return outcome.winner, "" if said else outcome.winner_spec

    def _file_of_results(self, kernel: str) -> Path:
        if self.tuned is not None:
            return Path(self.tuned)
        file = Path(self._file)
        return (file.parent if file.is_file() else Path()) / f"{kernel}.tuned.json"


def _direct(build: protocol.Build, inputs: Sequence[torch.Tensor], outs: Sequence[torch.Tensor]) -> bool:
    """Return True if a kernel may write these outputs itself: their memory is dense, and no input's."""
    program = build.spec.program
    if torch.is_grad_enabled() and any(t.requires_grad for t in inputs):
        return False
    if torch.compiler.is_compiling() or any(isinstance(t, FakeTensor) for t in (*inputs, *outs)):
        return False
    taken = {t.untyped_storage().data_ptr() for t in inputs}
    return all(
        out.is_contiguous()
        and out.device == inputs[0].device
        and spec.dtype not in STORED
        and out.data_ptr() % ACCESS_BYTES == 0
        and out.untyped_storage().data_ptr() not in taken
        for spec, out in zip(program.outputs, outs, strict=True)
    )


def _lines(function: Callable[..., Any]) -> range | None:
    """The numbers of the lines of a function in its file, where its source is known."""
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return None
    return range(first, first + len(lines))
