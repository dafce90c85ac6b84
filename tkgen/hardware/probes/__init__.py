"""Probes: single instructions on edge values, many to a kernel, with everything they write stored.

`vector`, `matrix`, `scalar` and `memory` have the probes of all instructions that the emulator executes; `frame` makes
a kernel of some; `assembling` leaves out what the target's assembler refuses; `judge` compares two runs.
"""
