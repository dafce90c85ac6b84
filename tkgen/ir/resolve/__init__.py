"""What a spec says around its equations: names resolved, expressions evaluated, operands and fragments derived.

`names` holds what is declared and what was found wrong, `sizes` evaluates expressions, `declarations`, `waves`,
`dataflow`, `clauses` and `written` read the statements of their kind, `said` what every kernel has, `matrix` makes the
program of sums of products.
Nothing behind this holds a node of the AST.
"""
