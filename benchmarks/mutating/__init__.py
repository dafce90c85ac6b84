"""What `mutation.py` changes in schedules, and the emulator as the referee of it."""
