"""The back ends, a package each: from a typed kernel to machine code of one family of GPUs."""
