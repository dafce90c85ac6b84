"""What turns a typed kernel into machine code of one family of GPUs, a package each."""
