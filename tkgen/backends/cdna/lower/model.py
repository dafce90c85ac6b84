"""The generated C++ as data: what the templates print. Expressions are C++ text, everything else is structure.

An `origin` is the spec lines that something comes from.
"""

from __future__ import annotations

from dataclasses import dataclass

from tkgen.backends.cdna.lower.origins import NOWHERE, Origins
from tkgen.backends.cdna.lower.statements import Statement


@dataclass(frozen=True)
class Constant:
    """`constexpr int NAME = expression;  // comment`"""

    name: str
    expression: str
    comment: str = ""
    origin: Origins = NOWHERE


@dataclass(frozen=True)
class GlobalTensor:
    """A member of the argument struct: `name` of type `gl<cpp, batch, depth, rows, cols>`; -1 where dynamic."""

    name: str
    cpp: str
    extents: tuple[str, str, str, str]
    origin: Origins
    policy: str = ""  # the template argument that says how it uses the caches


@dataclass(frozen=True)
class Groups:
    """Ragged rows, or a ragged contraction: the local that walks over groups, and what its constructor takes, as C++.

    `index` is the local of the group's number, `first` and `rows` those of its first place and how many it has. Where
    the contraction is ragged, `steps` is how many K-steps a group takes. `counted`: the body names `grid_rows`.
    """

    offsets: str
    count: str
    size: str
    index: str
    first: str
    rows: str
    steps: str
    counted: bool
    origin: Origins


@dataclass(frozen=True)
class Offsets:
    """Argument of a kernel of equations that the host can check: a tensor of "offsets", "lengths" or "pages". Fields:
    its name in the spec; as C++ its member in the arguments, the number of groups or table entries, and the length that
    they divide or the number of pages.
    """

    name: str
    member: str
    count: str
    size: str
    kind: str
    origin: Origins


@dataclass(frozen=True)
class Zeroed:
    """An output that is set before the launch: its name, the number of its elements as C++, and the word that each of
    them starts as, 0 for any type."""

    name: str
    elements: str
    word: str = "0"


@dataclass(frozen=True)
class ScalarMember:
    """A run-time number in the argument struct."""

    name: str
    cpp: str
    origin: Origins


@dataclass(frozen=True)
class Size:
    """A grid extent or a number of K-steps that is known only at run time, over the struct's tensors.

    It is a `local` of the kernel, too, where the kernel's body names it.
    """

    name: str
    expression: str
    local: bool
    origin: Origins


@dataclass(frozen=True)
class Scope:
    """Code of the waves of one role.

    `condition` is None where all waves of the block run it. `loop_bound` is the C++ bound of the steady loop.
    `declared` are positions of a wave and its registers; `before` and `after` are the barriers of phases around
    everything else.
    """

    role: str
    condition: str | None
    comment: str
    declared: tuple[Statement, ...]
    before: tuple[Statement, ...]
    prologue: tuple[Statement, ...]
    body: tuple[Statement, ...]
    unroll: int
    loop_bound: str
    loop_origin: Origins
    epilogue: tuple[Statement, ...]
    after: tuple[Statement, ...]
    origin: Origins


@dataclass(frozen=True)
class Check:
    """A requirement on run-time sizes: raises when `condition` holds."""

    condition: str
    message: str
    origin: Origins


@dataclass(frozen=True)
class FileModel:
    """A generated file: namespace `name`, Python module `module`, which is the spec's own name for the kernel."""

    name: str
    module: str
    header: tuple[str, ...]
    spec: str
    target: str
    constants: tuple[Constant, ...]
    tensors: tuple[GlobalTensor, ...]
    scalars: tuple[ScalarMember, ...]
    grid: str
    grid_origin: Origins
    waves_per_simd: int
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class KernelModel(FileModel):
    """The file of a kernel of matrix products."""

    grid_rows: str
    grid_cols: str
    sizes: tuple[Size, ...]
    grid_kind: str  # as in a spec: linear, persistent, split_k, stream_k
    steps: str  # the number of K-steps that a block sums at a stretch
    step_count: str  # the type that counts the K-steps of all tiles of a stream-K grid: int, or int64_t
    zeroed: tuple[Zeroed, ...]  # outputs that must be zero before the launch, where blocks add to them
    shared: tuple[Statement, ...]
    partial: int  # numbers in LDS that waves hand each other in reductions
    shared_bytes: int
    shared_origin: Origins
    launch_origin: Origins
    matrices: str  # of the batch, as C++; empty where there is none
    empty: str  # the condition that the batch has none, where only run time knows
    batch: tuple[Statement, ...]
    groups: Groups | None
    part: str  # the index among whose places the contraction is divided
    views: tuple[Statement, ...]
    remap: tuple[str, ...]
    remap_origin: Origins
    waves: int
    functions: tuple[str, ...]  # the C++ of those of its equations
    scopes: tuple[Scope, ...]
