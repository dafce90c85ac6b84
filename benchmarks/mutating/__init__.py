"""Changes to schedules and to C++, and the referees of them: the emulator, models, recorded steps."""
