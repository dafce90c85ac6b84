"""`python -m tkgen`."""

from tkgen.cli import main

main()
