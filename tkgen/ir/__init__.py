"""From the AST (`resolve`) to the typed program (`types`), its operations (`ops`) and the dataflow graph (`graph`)."""
