"""What `fuzz.py` draws, how it judges it, and what of the language it has drawn."""
