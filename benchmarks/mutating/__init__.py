"""What the benchmarks change in schedules and in C++, and the referees of it: the emulator, models, recorded steps."""
