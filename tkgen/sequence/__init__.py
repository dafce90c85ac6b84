"""A spec with several kernels, launched one after the other: what it is, how it is built and run.

    spec = tkgen.load("specs/split_k_gelu.tk")     # a `SequenceSpec`
    build = spec.check().build()                           # each kernel compiled, and watched by the referee
    run(build).ok                                          # on the emulator, against the meaning of all in order

A tensor that one kernel writes and a later one reads is the sequence's own: memory between the kernels.
"""

from tkgen.sequence.build import SequenceBuild
from tkgen.sequence.spec import SequenceSpec

__all__ = ["SequenceBuild", "SequenceSpec"]
