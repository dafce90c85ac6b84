"""The proof that no interleaving of a block's agents races, hangs, or mistakes one phase of a barrier for another.

`program` is the form it works on, `clock` what is known to be complete where, `faults` what is wrong, `passes` how
often loops are unrolled, `rotation` makes iterations shorter; `terms` compares what is stored with what is meant;
`ring` places the barriers of a pipeline.
"""
