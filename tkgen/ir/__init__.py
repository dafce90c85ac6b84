"""The typed program (`program`), its operations (`ops`) and the dataflow graph (`graph`)."""
