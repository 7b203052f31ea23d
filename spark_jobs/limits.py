"""Limits on what a pipeline and the files that it names may expand to, so that checking takes bounded time and memory.

A small file can stand for very much: aliases, variables, parameters, compositions and modules multiply. Each limit is
far beyond what people write, and whatever exceeds one is reported with its place before it is built.
`docs/semantics/limits.md` has the table for users.
"""

from __future__ import annotations

#: Characters of a pipeline file, a composition, a channel, a format schema.
FILE_CHARACTERS = 32 * 1024 * 1024
#: Levels of nested values in a YAML file, and how many values it may have, as written and with its aliases followed.
FILE_DEPTH = 256
FILE_VALUES = 100_000
FOLLOWED_VALUES = 1_000_000
#: Characters that `${NAME}` may put into one file, and that parameters may put into the bodies of compositions.
FILLED_CHARACTERS = 4 * 1024 * 1024
#: Characters of a composition's parameter.
PARAMETER_CHARACTERS = 64 * 1024
#: Levels of nested compositions, and their calls in a pipeline.
COMPOSITION_DEPTH = 50
COMPOSITION_CALLS = 1_000
#: Nodes of a pipeline, including the nodes of its compositions.
NODES = 5_000
#: Columns of all nodes together: a chain of nodes that each add one has half the square of its length.
NODE_COLUMNS = 2_000_000
#: Columns of a file with a header, and undeclared ones of all files of a source: each costs some kilobytes.
FILE_COLUMNS = 16_384
#: Bytes of a fixed-width record, so far as its format schema says where fields stand.
LAYOUT_BYTES = 64 * 1024 * 1024
#: Digits that a format schema may ask for: no float has as many.
NUMBER_DIGITS = 400
#: A compressed file that unpacks to more bytes than the first may be no larger than so many times its size.
UNPACKED_BYTES = 256 * 1024 * 1024
UNPACKED_RATIO = 1_000
#: Records of a file that have next to no bytes: so many are always read, and so many for each byte of the file.
EMPTY_RECORDS = 50_000_000
EMPTY_RECORDS_PER_BYTE = 1_000
#: Bytes of a module, how deep imports may lead, and how many modules the programs of a pipeline may import.
MODULE_BYTES = 1024 * 1024
MODULE_DEPTH = 50
MODULES = 1_000
#: Parts of expressions that functions and constants of modules put into the programs of a pipeline.
INLINED_EXPRESSIONS = 100_000
