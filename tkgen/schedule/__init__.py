"""From the typed program to what each wave executes: `plan.plan(program, target)` is the way in.

`presets` orders one iteration, `explicit` takes it from a `schedule` block, `barriers` places barriers,
`pipeline` clips it into prologue, loop and epilogue, `epochs` finds what no barrier or wait orders.
"""
