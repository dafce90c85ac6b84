"""From the typed program to what each wave executes: `plan(program, target)` is the way in.

`presets` orders one iteration, `explicit` takes it from a `schedule` block, `barriers` places barriers,
`pipeline` clips it into prologue, loop and epilogue, `epochs` finds what no barrier or wait orders.
"""

from tkgen.schedule.plan import Plan, plan

__all__ = ["Plan", "plan"]
