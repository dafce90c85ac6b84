"""A file of what searches found: the parameters that are fastest at each shape, for `tkgen.jit` and for builds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tkgen.toolchain.files import write_atomic
from tkgen.tune.errors import TuneError

VERSION = 1


@dataclass(frozen=True)
class TunedShape:
    """The parameters `values` that are fastest for the kernel at `sizes`, all by name, on `target`.

    `spec` is the `fingerprint` of the text that was tuned. A launch takes `seconds`, measured on the device or
    predicted for it. `text` is the spec with the values written into it, where it has no parameters of these names
    (its numbers were searched); else it is empty.
    """

    kernel: str
    spec: str
    target: str
    sizes: Mapping[str, int]
    values: Mapping[str, int]
    seconds: float
    measured: bool
    text: str = ""

    @property
    def shape(self) -> tuple[object, ...]:
        """Everything that it is known by."""
        return self.kernel, self.spec, self.target, tuple(sorted(self.sizes.items()))


def fingerprint(text: str) -> str:
    """A name for the text of a spec: results of another text do not hold for it."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(path: Path) -> tuple[TunedShape, ...]:
    """The results in a file, none where there is no file. Raises TuneError for a file that is something else."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        if plain["version"] != VERSION:
            raise ValueError
        return tuple(TunedShape(**each) for each in plain["shapes"])
    except FileNotFoundError:
        return ()
    except (ValueError, KeyError, TypeError):
        raise TuneError(f"{path} is no file of tuned shapes: remove it, or name another one") from None


def add(path: Path, found: TunedShape) -> None:
    """Put a result into the file, in place of an earlier one for its shape."""
    shapes = {each.shape: each for each in (*read(path), found)}
    plain = {"version": VERSION, "shapes": [asdict(shapes[key]) for key in sorted(shapes, key=repr)]}
    write_atomic(path, json.dumps(plain, indent=1) + "\n")
