"""The clauses of a spec around its equations: names resolved, expressions evaluated, operands and fragments derived.

`names` holds declarations and problems, `sizes` evaluates expressions, `declarations`, `waves`, `dataflow`, `clauses`
and `written` read the statements of their kind, `said` reads the clauses that every kernel has, `matrix` makes the
program of sums of products. No later stage holds a node of the AST.
"""
