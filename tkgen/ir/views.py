"""The matrices of tensors that a block of a kernel of products works on."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tkgen.ir.equation_text import access_text
from tkgen.ir.equations import Access, Axis
from tkgen.ir.tensors import Dim, Tensor
from tkgen.source import Span


@dataclass(frozen=True)
class View:
    """The matrix (or vector) of a tensor that a block works on: `access` without the indices that only say which one.

    Its rows are as far apart as in the tensor: `matrix` has the extents of the tile's axes, except for the
    last, which is the distance of two rows (a head of [B, N, H, D] is a matrix of N rows that are H D elements long).
    """

    name: str
    access: Access
    matrix: Tensor

    @property
    def tensor(self) -> Tensor:
        """The whole tensor."""
        return self.access.tensor

    @property
    def is_whole(self) -> bool:
        """True if it is the tensor itself."""
        plain = self.matrix.dims == self.tensor.dims and not self.tensor.declared
        return plain and not self.ragged and not self.gathered

    @property
    def placed(self) -> bool:
        """Return True if the positions of its elements are computed from indices of several terms."""
        return any(index.terms for index in self.access.indices)

    @property
    def gathered(self) -> Access | None:
        """The access that gives the indices of its rows, where they are not consecutive."""
        return next((i.through for i in self.access.indices if i.through is not None), None)

    @property
    def ragged(self) -> bool:
        """True if its first dimension is the part of the tensor's that a group has."""
        within = (i.axis is not None and i.axis.within is not None for i in self.access.indices if i.through is None)
        return any(within)

    @property
    def tiled(self) -> tuple[int, ...]:
        """The dimensions of the tensor along which the view extends."""
        return tuple(n for n, i in enumerate(self.access.indices) if i.extends)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of the tile, in the order of the view's dimensions."""
        return self.access.axes

    @property
    def pitch(self) -> tuple[Dim, ...]:
        """The dimensions that lie between two rows: their product is the distance. None where there are no rows, or
        where these are apart from one another by computed distances."""
        return self.tensor.dims[self.tiled[0] + 1 :] if len(self.tiled) == 2 else ()


def view(access: Access, name: str = "") -> View:
    """The view of an access. Raises Unfit where its last dimension is not the tensor's."""
    tensor = access.tensor
    if any(index.terms for index in access.indices):
        own = tuple(axis.dim for axis in access.axes)
        return View(name or tensor.name, access, Tensor(tensor.name, tensor.dtype, own, tensor.span))
    at = [n for n, i in enumerate(access.indices) if i.extends]
    if at and at[-1] != len(tensor.dims) - 1:
        raise Unfit(f"an index of `{tensor.name}` comes after those of its tile, `{access_text(access)}`: tiles go "
                    "along the last dimension", tensor.span)  # fmt: skip
    dims = [tensor.dims[n] if i.through is None or i.axis is None else i.axis.dim
            for n, i in enumerate(access.indices) if n in at]  # fmt: skip
    if len(at) == 2 and at[1] != at[0] + 1:
        between = tensor.dims[at[0] + 1 :]
        sizes = [d.size for d in between if d.size is not None]
        known = len(sizes) == len(between)
        dims[1] = Dim(" * ".join(d.name for d in between), prod(sizes) if known else None, dims[1].span)
    return View(name or tensor.name, access, Tensor(tensor.name, tensor.dtype, tuple(dims), tensor.span))


class Unfit(Exception):
    """Equations of another form: the message says in which way, `span` where."""

    def __init__(self, message: str, span: Span | None, fix: str = ""):
        super().__init__(message)
        self.span, self.fix = span, fix
