"""Everything that runs a kernel: launches on the emulator and on a GPU, what must come out, operators, suites."""
