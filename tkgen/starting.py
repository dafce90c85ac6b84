"""A first spec, from a handful of answers or from another spec, for `tkgen new`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tkgen.backends.cdna.lower.names import IDENTIFIER
from tkgen.ir.types import DTYPE_NAMES
from tkgen.syntax.loader import read_source
from tkgen.syntax.parser import parse_spec

LAYOUTS = ("AB", "ABt", "AtB", "AtBt")

# What `tkgen new` asks for, in its order: the field of `Answers`, and the question.
QUESTIONS: Mapping[str, str] = MappingProxyType(
    {
        "layout": f"layout of the product ({', '.join(LAYOUTS)})",
        "dtype": f"element type of A and B ({', '.join(DTYPE_NAMES)})",
        "size": "size: M x N x K",
        "block": "block: rows x columns x K-step",
        "waves": "waves: rows x columns",
        "buffers": "LDS buffers of each operand",
    }
)

TEMPLATE = """# {name}: C = {product} in {dtype}, a first version made by `tkgen new`.
# Change one line at a time; `tkgen watch {name}.tk` checks, builds and runs it at every save.
kernel {name}
  dims M = {m}, N = {n}, K = {k}
  global A : {dtype}[{a}]
  global B : {dtype}[{b}]
  global C : f32[M, N]

  block {rows} x {cols} step {step}
  waves {waves}
  shared A, B buffers {buffers}
  accumulate C : f32 tile {tile} x {tile}
  store C
"""


@dataclass(frozen=True)
class Answers:
    """The answers from which a first spec is written."""

    name: str
    layout: str = "ABt"
    dtype: str = "bf16"
    size: str = "8192 x 8192 x 8192"
    block: str = "128 x 128 x 64"
    waves: str = "2 x 2"
    buffers: int = 2


def usual(name: str, dtype: str = "bf16") -> Answers:
    """Answers that make a kernel; elements of four bytes get half the K-step, for the tiles to fit in LDS."""
    answers = Answers(name, dtype=dtype)
    return replace(answers, block="128 x 128 x 32") if dtype == "f32" else answers


def checked(field: str, answer: str) -> str | int:
    """An answer to the question for `field`, as `Answers` takes it. Raises ValueError where its form is wrong."""
    answer = answer.strip()
    match field:
        case "layout" if answer not in LAYOUTS:
            raise ValueError(f"the layout is one of {', '.join(LAYOUTS)}, not `{answer}`")
        case "dtype" if answer not in DTYPE_NAMES:
            raise ValueError(f"the type is one of {', '.join(DTYPE_NAMES)}, not `{answer}`")
        case "size" | "block":
            three(answer, f"the {field}")
        case "waves" if not re.fullmatch(r"[1-9]\d{0,3}(\s*x\s*[1-9]\d{0,3})?", answer, re.ASCII):
            raise ValueError(f"the waves are `4 x 2` or `8`, not `{answer}`")
        case "buffers":
            if not re.fullmatch(r"[1-9]\d{0,3}", answer, re.ASCII):
                raise ValueError(f"the buffers are a number such as 2, not `{answer}`")
            return int(answer)
    return answer


def collected(
    name: str, given: Mapping[str, object | None], ask: Callable[[str, str, str], str] | None = None
) -> Answers:
    """Answers from those `given`, and for the others from `ask(field, question, default)`, or the usual ones.

    Raises:
        ValueError: an answer of the wrong form.
    """
    values: dict[str, Any] = {}
    for field, question in QUESTIONS.items():
        default = str(getattr(usual(name, values.get("dtype", "bf16")), field))
        answer = given.get(field)
        if answer is None:
            answer = default if ask is None else ask(field, question, default)
        values[field] = checked(field, str(answer))
    return Answers(name, **values)


def path_of(directory: Path, name: str) -> Path:
    """The file of a new kernel. Raises ValueError where nothing can be called so, or the file is there."""
    if not IDENTIFIER.match(name):
        raise ValueError(f"`{name}` cannot name a kernel: letters, digits and _ only")
    path = directory / f"{name}.tk"
    if path.exists():
        raise ValueError(f"{path} is there already")
    return path


def bundled_specs() -> Path:
    """The folder of the specs that come with tkgen: package data, or the checkout's."""
    here = Path(__file__).parent
    return here / "specs" if (here / "specs").is_dir() else here.parent / "specs"


def renamed(source: str, name: str) -> str:
    """The text of a spec - a file, or the name of one that comes with tkgen - with its kernel called `name`.

    Raises:
        ValueError: no spec of that name comes with tkgen.
        SpecError: it cannot be read, or is no spec.
    """
    path = Path(source)
    if path.suffix != ".tk":
        path = next(bundled_specs().glob(f"**/{source}.tk"), bundled_specs() / f"{source}.tk")
        if not path.exists():
            raise ValueError(f"no spec `{source}` comes with tkgen: `tkgen specs` lists them")
    span, text = parse_spec(path).name.span, read_source(path).text
    return text[: span.start] + name + text[span.end :]


def three(text: str, what: str) -> tuple[int, int, int]:
    """Three numbers of `128 x 128 x 64`. Raises ValueError."""
    number = r"\s*([1-9]\d{0,11})\s*"
    match = re.fullmatch(rf"{number}[x,]{number}[x,]{number}", text, re.ASCII)
    if match is None:
        raise ValueError(f"{what} is three numbers such as `128 x 128 x 64`, not `{text}`")
    m, n, k = map(int, match.groups())
    return m, n, k


def spec_text(answers: Answers) -> str:
    """The spec that `answers` describe; whether it can be built is for the checks to say.

    Raises:
        ValueError: an answer of the wrong form.
    """
    for field in QUESTIONS:
        checked(field, str(getattr(answers, field)))
    m, n, k = three(answers.size, "the size")
    rows, cols, step = three(answers.block, "the block")
    waves = [int(w) for w in re.findall(r"\d+", answers.waves)]
    transposed_a, transposed_b = "At" in answers.layout, answers.layout.endswith("Bt")
    return TEMPLATE.format(
        name=answers.name, dtype=answers.dtype, m=m, n=n, k=k, rows=rows, cols=cols, step=step,
        product=f"{'At' if transposed_a else 'A'} {'Bt' if transposed_b else 'B'}",
        a="K, M" if transposed_a else "M, K", b="N, K" if transposed_b else "K, N",
        waves=" x ".join(map(str, waves)), buffers=answers.buffers, tile=_tile(rows, cols, waves),
    )  # fmt: skip


def _tile(rows: int, cols: int, waves: list[int]) -> int:
    """The largest fragment that fills the block: of each wave's part, or dealt out to waves without a grid."""
    for tile in (32, 16):
        fragments = (rows // tile) * (cols // tile)
        whole = rows % tile == cols % tile == 0
        if len(waves) == 2:
            whole = rows % (waves[0] * tile) == cols % (waves[1] * tile) == 0
        if whole and fragments % waves[0] == 0:
            return tile
    return 16
