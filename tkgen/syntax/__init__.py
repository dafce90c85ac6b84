"""From source text to the abstract syntax tree: `parser`, `ast`; and back to text: `format`, `dump`."""
