"""Everything between C++ text and machine code: find a compiler, compile, read what came out, keep it."""
