"""Kernel arguments in a line of text each, for `--arg`:

    bf16[256,192]=randn          a buffer and what is in it; randn*4 is four times as large
    C:f32[256,256]=nan:out       named C in findings; every byte must be written
    u32[64]=zeros{3: 7, 5: 0x10} elements 3 and 5, counted in the order of memory, have other values
    B:bf16[192,256]=randn:in     a store into it is a finding
    i32=7                        a number
    {bf16[256,192]=randn, i64=1} a struct passed by value
    gl(bf16[256,192]=randn)      a ThunderKittens tensor with four run-time extents: pointer, then b, d, r, c as size_t
    gl(bf16[256,192]=randn, rc)  one whose rows and columns alone are known at run time
    desc(f16[256,192]=randn)     a tensor descriptor of Triton's, with the parameters that Triton makes of it
    i32=7, i32=9                 two arguments

or lines of them in a file, for `--args`, or as a Python function in a file of the user's, for `--args-from`.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tkgen.emulate import Arg, Buffer, Kernel, Outcome, Scalar, Struct

Check = Callable[[Outcome, Sequence[Arg]], str]
"""What is wrong with the numbers a launch left, in words; empty where they are right."""

# 8-bit floats, and what torch calls them.
SMALL: Final = {
    "fp8": "float8_e4m3fn", "bf8": "float8_e5m2", "fp8_fnuz": "float8_e4m3fnuz", "bf8_fnuz": "float8_e5m2fnuz",
}  # fmt: skip
# Elements as numpy stores them; bf16 and 8-bit floats as their bits.
_ELEMENTS: Final[dict[str, Any]] = {
    "bf16": np.uint16, "f16": np.float16, "f32": np.float32, "f64": np.float64,
    "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16,
    "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64,
    **dict.fromkeys(SMALL, np.uint8),
}  # fmt: skip
_FILLS: Final = ("randn", "rand", "zeros", "ones", "nan", "arange")
_RANDOM: Final = ("randn", "rand")
_ROLES: Final = ("in", "out", "inout")
_MAX_BYTES: Final = 1 << 32  # of all buffers of a launch


class ArgumentError(ValueError):
    """An argument that cannot be understood or made; the message says where and what may stand there."""


@dataclass(frozen=True, eq=False)
class Output(Buffer):
    """A buffer of which the kernel must write every byte."""


@dataclass(frozen=True)
class Descriptor:
    """A tensor descriptor of Triton's, until it is known which parameters stand for it (`triton`)."""

    buffer: Buffer
    extents: tuple[int, ...]


@dataclass(frozen=True)
class Arguments:
    """Makes the arguments of one launch afresh, the same each time; `check` judges what the launch left in them.

    `drawn` makes them with the random numbers of another seed; None where they are the user's own.
    """

    make: Callable[[], Sequence[Arg]]
    check: Check | None = None
    drawn: Callable[[int], Sequence[Arg]] | None = None

    def of(self, seed: int) -> Sequence[Arg]:
        """Those of a seed, where they have one."""
        return self.drawn(seed) if self.drawn else self.make()


def parse(texts: Iterable[str], seed: int = 0) -> Arguments:
    """The arguments that `texts` describe. Raises ArgumentError."""
    makers = [maker for text in texts for maker in _Parser(text).whole()]
    total = sum(maker.size for maker in makers)
    if total > _MAX_BYTES:
        raise ArgumentError(f"the buffers take {total} bytes; a launch may have {_MAX_BYTES}")

    def make(seed: int = seed) -> Sequence[Arg]:
        generator = np.random.default_rng(seed)
        return [maker.make(generator) for maker in makers]

    make()  # what numpy refuses, it refuses here
    return Arguments(make, drawn=make)


# ---------------------------------------------------------------- the language


@dataclass(frozen=True)
class _Maker:
    make: Callable[[np.random.Generator], Any]  # an Arg, or a Descriptor
    size: int  # bytes of buffers
    extents: tuple[int, ...] = field(default=())


_TOKEN: Final = re.compile(r"\s*(0x[0-9a-fA-F]+|-?\d+\.?\d*(?:[eE][+-]?\d+)?|-?(?:inf|nan)\b|[A-Za-z_]\w*|\S)")


class _Parser:
    """One argument's text, read token by token."""

    def __init__(self, text: str):
        self.text = text
        self.tokens = [(m[1], m.start(1)) for m in _TOKEN.finditer(text)]
        self.at = 0

    def whole(self) -> list[_Maker]:
        makers = [self.argument(outermost=True)]
        while self.accept(","):
            makers.append(self.argument(outermost=True))
        if self.at < len(self.tokens):
            raise self.error("the end")
        return makers

    # ------------------------------------------------------------ tokens

    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at][0] if at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def expect(self, token: str) -> None:
        if self.peek() != token:
            raise self.error(f"`{token}`")
        self.at += 1

    def accept(self, token: str) -> bool:
        if self.peek() == token:
            self.at += 1
            return True
        return False

    def error(self, expected: str) -> ArgumentError:
        column = self.tokens[self.at][1] + 1 if self.at < len(self.tokens) else len(self.text) + 1
        found = f"`{self.peek()}`" if self.peek() else "its end"
        return ArgumentError(f"argument `{self.text}`, column {column}: expected {expected}, found {found}")

    # ------------------------------------------------------------ rules

    def argument(self, outermost: bool = False) -> _Maker:
        if self.peek() == "{":
            return self.struct()
        if self.peek() == "gl" and self.peek(1) == "(":
            return self.tensor()
        if outermost and self.peek() == "desc" and self.peek(1) == "(":
            return self.descriptor()
        name = ""
        if self.peek(1) == ":" and self.peek() not in _ELEMENTS:
            name = self.take()
            self.expect(":")
            if not re.fullmatch(r"[A-Za-z_]\w*", name):
                self.at -= 2
                raise self.error("a name")
        kind = self.peek()
        if kind not in _ELEMENTS:
            raise self.error(f"a type ({', '.join(_ELEMENTS)}), `{{` or `gl(`")
        self.at += 1
        if kind in SMALL and self.peek() != "[":
            raise self.error("the extents of a buffer")
        return self.buffer(kind, name) if self.peek() == "[" else self.scalar(kind, name)

    def struct(self) -> _Maker:
        self.expect("{")
        members = [self.argument()]
        while self.accept(","):
            members.append(self.argument())
        self.expect("}")
        return _Maker(lambda g: Struct([m.make(g) for m in members]), sum(m.size for m in members))

    def tensor(self) -> _Maker:
        self.expect("gl")
        self.expect("(")
        data = self.argument()
        if not 1 <= len(data.extents) <= 4:
            raise self.error("a buffer of 1 to 4 extents before this")
        axes = "bdrc"
        if self.accept(","):
            axes = self.peek()
            if not axes or not re.fullmatch("b?d?r?c?", axes):
                raise self.error("run-time extents, some of b, d, r, c in this order")
            self.at += 1
        self.expect(")")
        extents = dict(zip("bdrc", (1,) * (4 - len(data.extents)) + data.extents, strict=True))
        return _Maker(lambda g: Struct([data.make(g), *(Scalar("u64", extents[a]) for a in axes)]), data.size)

    def descriptor(self) -> _Maker:
        self.expect("desc")
        self.expect("(")
        data = self.argument()
        if not data.extents:
            raise self.error("a buffer before this")
        self.expect(")")
        return _Maker(lambda g: Descriptor(data.make(g), data.extents), data.size)

    def scalar(self, kind: str, name: str) -> _Maker:
        value = self.scalar_value(kind) if self.accept("=") else 0
        return _Maker(lambda g: Scalar(kind, value, name), 0)

    def scalar_value(self, kind: str) -> int | float:
        """A number that a type holds."""
        value = self.number()
        if kind.startswith(("f", "bf")):
            return value
        limits = np.iinfo(_ELEMENTS[kind])
        if value != value or value in (float("inf"), -float("inf")) or value != int(value):
            raise ArgumentError(f"argument `{self.text}`: {kind} holds integers")
        if not limits.min <= value <= limits.max:
            raise ArgumentError(f"argument `{self.text}`: {int(value)} does not fit {kind}")
        return int(value)

    def number(self) -> int | float:
        token = self.peek()
        try:
            value = int(token, 0) if re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", token) else float(token)
        except ValueError:
            raise self.error("a number") from None
        self.at += 1
        return value

    def buffer(self, kind: str, name: str) -> _Maker:
        extents = self.extents()
        count = 1
        for extent in extents:
            count *= extent
        size = count * np.dtype(_ELEMENTS[kind]).itemsize
        fill: str | float = "zeros"
        if self.accept("="):
            fill = self.take() if self.peek() in _FILLS else self.number()
        role = "inout"
        factor = self.number() if fill in _RANDOM and self.accept("*") else 1
        single = self.elements(kind, count) if self.accept("{") else {}
        if self.accept(":"):
            role = self.peek()
            if role not in _ROLES:
                raise self.error(f"one of {', '.join(_ROLES)}")
            self.at += 1
        if size > _MAX_BYTES:
            raise ArgumentError(f"argument `{self.text}`: {size} bytes; a launch may have {_MAX_BYTES}")

        def make(generator: np.random.Generator) -> Arg:
            data = filled(kind, count, fill, generator, factor)
            for place, value in single.items():
                data[place] = value
            data = data.reshape(extents)
            held = kind if kind in ("bf16", *SMALL) else ""  # numpy has no such type
            if role == "out":
                return Output(data, name, format=held)
            return Buffer(data, name, writable=role != "in", format=held)

        return _Maker(make, size, tuple(extents))

    def elements(self, kind: str, count: int) -> dict[int, Any]:
        """Single elements of a buffer, by their position in memory, as numpy stores them."""
        found = {}
        while True:
            if not re.fullmatch(r"\d{1,12}", self.peek()) or int(self.peek()) >= count:
                raise self.error(f"the number of an element, 0..{count - 1}")
            place = int(self.take())
            self.expect(":")
            value = self.scalar_value(kind)
            found[place] = filled(kind, 1, value, np.random.default_rng())[0]
            if self.accept("}"):
                return found
            self.expect(",")

    def extents(self) -> list[int]:
        self.expect("[")
        found = []
        while True:
            if not re.fullmatch(r"\d{1,12}", self.peek()):
                raise self.error("an extent")
            found.append(int(self.take()))
            if self.accept("]"):
                return found
            self.expect(",")


def filled(
    kind: str, count: int, fill: str | float, generator: np.random.Generator, factor: float = 1
) -> npt.NDArray[Any]:
    """`count` elements: random ones in -2 .. 2 for integers, times `factor`; NaN as the largest number there."""
    whole = not kind.startswith(("f", "bf"))
    values: npt.NDArray[Any]
    if fill == "arange":
        values = np.arange(count)
    elif fill == "zeros" or not count:
        values = np.zeros(count)
    elif fill == "ones":
        values = np.ones(count)
    elif fill in ("randn", "rand") and whole:
        values = generator.integers(0 if kind.startswith("u") else -2, 3, count)
    elif fill == "randn":
        values = generator.standard_normal(count, dtype=np.float32)
    elif fill == "rand":
        values = generator.random(count, dtype=np.float32)
    elif fill == "nan" or fill != fill:
        values = np.full(count, np.iinfo(_ELEMENTS[kind]).max if whole else np.nan)
    else:
        values = np.full(count, fill)
    if factor != 1:
        values = values * factor
    if kind == "bf16":
        return to_bf16(values.astype(np.float32))
    if kind in SMALL:
        import torch

        small = torch.from_numpy(values.astype(np.float32)).to(getattr(torch, SMALL[kind]))
        bits: npt.NDArray[Any] = small.view(torch.uint8).numpy()
        return bits
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(_ELEMENTS[kind])


def to_bf16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """The bits of bf16 numbers, rounded to nearest even; NaN stays NaN."""
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


def named(args: Sequence[Arg], kernel: Kernel) -> list[Arg]:
    """The same arguments, named after the kernel's parameters where they have no name of their own."""

    def name(arg: Arg, given: str) -> Arg:
        if isinstance(arg, Buffer) and not arg.name:
            return replace(arg, name=given)
        if isinstance(arg, Struct):
            return replace(arg, fields=[name(f, f"member {i + 1} of {given}") for i, f in enumerate(arg.fields)])
        return arg

    def parameter(i: int) -> str:
        known = kernel.explicit_arguments[i].name if i < len(kernel.explicit_arguments) else "#"
        return f"argument {i + 1}" if known.startswith("#") else known.removesuffix(".coerce")

    return [
        replace(arg, name=arg.name or parameter(i)) if isinstance(arg, Scalar) else name(arg, parameter(i))
        for i, arg in enumerate(args)
    ]


def lines_of(path: Path) -> list[str]:
    """The arguments in a file, one or more a line; `#` begins a comment.

    Raises:
        ArgumentError: the file cannot be read, or a line is no argument; the message has its number.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"cannot read arguments from {path}: {error}") from error
    found = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip().removesuffix(",")
        if not text:
            continue
        try:
            _Parser(text).whole()
        except ArgumentError as error:
            raise ArgumentError(f"{path}:{number}: {error}") from error
        found.append(text)
    if not found:
        raise ArgumentError(f"{path} has no arguments")
    return found


# ---------------------------------------------------------------- arguments by a Python function


def from_file(place: str) -> Arguments:
    """The arguments that a function returns, `place` being `FILE.py:FUNCTION` (or FILE.py, for its `arguments`).

    The function takes nothing and returns a list of `tkgen.emulate` arguments; it is called once for each launch. Where
    the file has a function `check(outcome, arguments)`, that judges the numbers: it returns what is wrong, or nothing,
    or asserts.
    """
    file, _, name = place.partition(":")
    module = _module(Path(file))
    make = getattr(module, name or "arguments", None)
    if not callable(make):
        raise ArgumentError(f"{file} has no function {name or 'arguments'}")
    check = getattr(module, "check", None)

    def made() -> Sequence[Arg]:
        args = _called(make, place)
        if not isinstance(args, list | tuple) or not all(hasattr(a, "__dataclass_fields__") for a in args):
            raise ArgumentError(f"{place} must return a list of Buffer, Scalar, Struct or Bytes of tkgen.emulate")
        return list(args)

    made()
    return Arguments(made, _checker(check, file) if callable(check) else None)


def function_of(place: str) -> Callable[..., Any]:
    """The function at `place`, FILE.py:FUNCTION; what it raises is an ArgumentError, but what is not implemented."""
    file, _, name = place.partition(":")
    found = getattr(_module(Path(file)), name, None) if name else None
    if not callable(found):
        raise ArgumentError(f"{place} is not a function: write FILE.py:FUNCTION")

    def called(**given: Any) -> Any:
        try:
            return found(**given)
        except NotImplementedError:
            raise
        except (Exception, SystemExit) as error:
            raise ArgumentError(f"{place} failed: {type(error).__name__}: {error}") from error

    called.__signature__ = inspect.signature(found)  # type: ignore[attr-defined]
    return called


def _module(file: Path) -> object:
    if not file.is_file():
        raise ArgumentError(f"no file {file}")
    spec = importlib.util.spec_from_file_location(f"tkgen_arguments_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ArgumentError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    _called(lambda: spec.loader.exec_module(module), str(file))  # type: ignore[union-attr]
    return module


def _called(function: Callable[[], Any], what: str) -> Any:
    """The user's own code: whatever it raises becomes a message."""
    try:
        return function()
    except (Exception, SystemExit) as error:
        raise ArgumentError(f"{what} failed: {type(error).__name__}: {error}") from error


def _checker(check: Callable[..., Any], file: str) -> Check:
    takes_arguments = len(inspect.signature(check).parameters) > 1

    def judge(outcome: Outcome, args: Sequence[Arg]) -> str:
        try:
            result = check(outcome, args) if takes_arguments else check(outcome)
        except AssertionError as error:
            return str(error) or f"an assertion of {file} failed"
        except Exception as error:
            raise ArgumentError(f"check of {file} failed: {type(error).__name__}: {error}") from error
        if isinstance(result, str):
            return result
        return "" if result is None or result is True else f"check of {file} says {result!r}"

    return judge
