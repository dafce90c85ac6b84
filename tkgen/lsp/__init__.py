"""The language server: `server` speaks the protocol, everything else is plain functions from text to data.

outline     a file statement by statement, whatever is broken in it
names       where names are declared and used; references and renaming through includes
analysis    a file resolved, scheduled and checked as `tkgen check` would, with the text of open buffers
facts       what was derived: sizes, registers, LDS, coordinates, epochs
hover, completion, symbols, edits    what the editor asks for, from those
positions   offsets and the protocol's positions
hot         instructions, cycles and registers of each line, as `tkgen predict` would, on demand
worker      `analysis` in its own process, with a deadline
"""
