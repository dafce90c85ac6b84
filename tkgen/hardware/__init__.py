"""The check of an AMD GPU: specs, instructions, the machine's figures and times, on the GPU and beside the emulator.

`check` runs the items of all sections in a worker process (`worker`), which calls libamdhip64 (`hip`). Results are
kept one file an item (`state`), so that a check continues where it was. `report` writes what was found.
"""
