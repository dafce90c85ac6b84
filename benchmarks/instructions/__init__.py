"""Every instruction of the emulator beside AMD's pseudo-code (`benchmarks/opcodes.py`)."""
