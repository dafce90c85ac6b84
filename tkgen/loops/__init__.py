"""Kernels whose loop multiplies what it made of products, end to end: what such a spec is and how it is built.

Attention is one: products of products, with values carried from pass to pass. `tkgen.schedule.loops` says where values
live, `tkgen.schedule.loop_steps` what waves do and why no interleaving gets it wrong, `tkgen.backends.cdna.lower.loops`
writes the C++. A spec is one of equations (`tkgen.rows`), launched, watched, run and compared as all of these are.
"""

from tkgen.loops.build import LoopBuild
from tkgen.loops.spec import LoopSpec

__all__ = ["LoopBuild", "LoopSpec"]
