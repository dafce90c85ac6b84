"""Kernels of equations without matrix products, end to end: what a spec of rows is, how it is built, watched and run.

    spec = tkgen.load("specs/rows/softmax.tk")     # a `RowSpec`
    build = spec.check().build()                   # compiled, and watched by the referee
    run(build).ok                                  # on the emulator, against the meaning of the equations
    tkgen.predict.predict(build).share_of_copy

`tkgen.schedule.rows` lays the tile over lanes, `tkgen.backends.cdna.lower.rows` writes the C++, `tkgen.predict`
has the model.
"""

from tkgen.rows.build import RowBuild
from tkgen.rows.spec import RowSpec

__all__ = ["RowBuild", "RowSpec"]
