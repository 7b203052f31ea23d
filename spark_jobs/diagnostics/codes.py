"""Every diagnostic's code, once. Each has a page of the same name in `explain/`.

The numbers are the book's where it has one. A title names the problem, never the remedy.
"""

from __future__ import annotations

from functools import cache

from spark_jobs.diagnostics.diagnostic import Code, Severity

# The file
E000 = Code("E000", "the file is not a YAML document that a pipeline could be")
E005 = Code("E005", "unknown key")
E006 = Code("E006", "required key is missing")
E007 = Code("E007", "value does not fit its key")
E008 = Code("E008", "key is written twice")
E009 = Code("E009", "environment variable is not defined")

# The graph
E001 = Code("E001", "two nodes have one name")
E002 = Code("E002", "node reads itself")
E003 = Code("E003", "cycle, or a window that cannot be placed")
E004 = Code("E004", "input is not declared")
E010 = Code("E010", "dot in a node's name")
E011 = Code("E011", "log directive's `every` is not usable")
E012 = Code("E012", "pipeline has no source")
E013 = Code("E013", "route's branches are not distinct")
E014 = Code("E014", "path template is not usable")
E015 = Code("E015", "variable's name or declaration is not usable")
E_SEC_001 = Code("E-SEC-001", "path leaves the pipeline's folder")

# Compositions, channels, workspaces
E101 = Code("E101", "composition file is not usable")
E102 = Code("E102", "composition's port does not fit")
E103 = Code("E103", "composition or its parameter is not declared")
E104 = Code("E104", "composition's port or parameter is missing")
E105 = Code("E105", "composition's parameter has an unfit value")
E106 = Code("E106", "expanded node has the name of another")
E107 = Code("E107", "composition calls itself, or an override has another type")
E108 = Code("E108", "composition's body reads the enclosing pipeline")
E109 = Code("E109", "channel of a composition overrides variables")
E110 = Code("E110", "channel variable has a reserved name")
E111 = Code("E111", "channel names a source that is not declared, or a composition has no nodes")
E112 = Code("E112", "channel file is not usable")
E340 = Code("E340", "clinker.toml is not usable")

# Schemas and scopes
E150B = Code("E150b", "window reads a field that the input does not have")
E150C = Code("E150c", "window reads a source that is not there yet")
E150D = Code("E150d", "window has no input to range over")
E150E = Code("E150e", "window reads an array")
E153 = Code("E153", "correlation key is not in the schema")
E154 = Code("E154", "watermark column is not in the schema")
E155 = Code("E155", "watermark column is no date")
E156 = Code("E156", "time window over a source without watermark")
E15Y = Code("E15Y", "streaming aggregate leaves out a correlation key")
E164 = Code("E164", "init-phase node is read at run time")
E171 = Code("E171", "variable is read before it is written")
E172 = Code("E172", "source variable is ambiguous after a merge or combine")
E173 = Code("E173", "composition's body reads a variable that is not exposed")
E174 = Code("E174", "composition's variables do not fit the pipeline's")
E175 = Code("E175", "init phase reads a variable of the run")
E200 = Code("E200", "CXL program does not compile")
E201 = Code("E201", "source has no schema")
E210 = Code("E210", "more than one file matcher, or an aggregate that cannot be taken apart")
E211 = Code("E211", "source has no file matcher")
E212 = Code("E212", "glob pattern is not valid")
E213 = Code("E213", "regular expression is not valid")
E214 = Code("E214", "duration is not valid")
E215 = Code("E215", "size is not valid")
E216 = Code("E216", "source matches no file")
E217 = Code("E217", "columns of a file do not fit its source")
E218 = Code("E218", "take_first and take_last exclude each other")
E219 = Code("E219", "network source has a file matcher")
E220 = Code("E220", "network source has a format that no response has")
E221 = Code("E221", "network source could not be read")
E222 = Code("E222", "header has none of the declared columns")

# Combine
E300 = Code("E300", "combine has too few or too many inputs")
E301 = Code("E301", "name is not usable as a qualifier, or lacks its dollar sign")
E303 = Code("E303", "where is not a Bool")
E304 = Code("E304", "where reads an unknown field")
E305 = Code("E305", "where does not compare the inputs")
E306 = Code("E306", "drive names no input")
E307 = Code("E307", "combine input is not declared")
E308 = Code("E308", "combine body reads an unknown field")
E309 = Code("E309", "combine body emits nothing")
E310 = Code("E310", "memory limit is exceeded")
E311 = Code("E311", "match: collect has a body")
E312 = Code("E312", "memory limit is too small for one batch")
E313 = Code("E313", "combine has no predicate that finds candidates")
E314 = Code("E314", "columns of the inputs differ")
E315 = Code("E315", "merge inputs treat undeclared columns differently")
E316 = Code("E316", "too many dead letters")
E317 = Code("E317", "dead-letter settings of an unknown source")
E318 = Code("E318", "dead-letter setting is out of range")
E319 = Code("E319", "driver record has no match")

# Outputs and storage
E320 = Code("E320", "spill volume cap is exceeded")
E321 = Code("E321", "spill volume is full")
E322 = Code("E322", "two writers have one path")
E323 = Code("E323", "EDIFACT output is split")
E330 = Code("E330", "spill folder is in memory")
E331 = Code("E331", "spill folder is on a network")
E332 = Code("E332", "staging folder is on a network")
E333 = Code("E333", "staging folder is on the source's device")
E334 = Code("E334", "spill and staging share a folder")
E335 = Code("E335", "staged copy is corrupt")
E336 = Code("E336", "staging cap is exceeded")
E337 = Code("E337", "staged copy exists already")
E338 = Code("E338", "X12 output is split")
E400 = Code("E400", "feature does not run yet")

# Warnings
E900 = Code("E900", "a file or folder cannot be read or written")
E901 = Code("E901", "Spark cannot be started or reached")
E902 = Code("E902", "a file is in the way")
E903 = Code("E903", "records do not add up")
E904 = Code("E904", "Spark ended the work")
E905 = Code("E905", "internal error")
E906 = Code("E906", "a group does not fit into a file")
E907 = Code("E907", "an input changed while the run read it")
W002 = Code("W002", "node names differ in case alone", Severity.WARNING)
W003 = Code("W003", "setting has no effect on Spark", Severity.WARNING)
W004 = Code("W004", "node leads to no output", Severity.WARNING)
W005 = Code("W005", "correlation key is declared for the whole pipeline", Severity.WARNING)
W006 = Code("W006", "aggregate has no group_by", Severity.WARNING)
W101 = Code("W101", "composition's body shadows a column that passes through", Severity.WARNING)
W102 = Code("W102", "required parameter has a default", Severity.WARNING)
W103 = Code("W103", "channel setting matches no composition parameter", Severity.WARNING)
W104 = Code("W104", "channel targets another pipeline", Severity.WARNING)
W200 = Code("W200", "comparison with null", Severity.WARNING)
W201 = Code("W201", "arm of a match is never reached", Severity.WARNING)
W202 = Code("W202", "let is never read", Severity.WARNING)
W203 = Code("W203", "condition never changes", Severity.WARNING)
W204 = Code("W204", "metadata key that nothing writes", Severity.WARNING)
W210 = Code("W210", "no file has a declared column", Severity.WARNING)
W211 = Code("W211", "an input grew while the run read it", Severity.WARNING)
W302 = Code("W302", "combine of small inputs needs no partitions", Severity.WARNING)
W205 = Code("W205", "index never finds an element", Severity.WARNING)
W206 = Code("W206", "emit behind an emit each block", Severity.WARNING)
W305 = Code("W305", "combine compares by ranges alone", Severity.WARNING)
W306 = Code("W306", "combine of many inputs has no drive", Severity.WARNING)
W330 = Code("W330", "spill volume is short of space", Severity.WARNING)
W331 = Code("W331", "spill volume cap is nearly used", Severity.WARNING)


@cache
def by_id() -> dict[str, Code]:
    """All codes by their id, in the order of this module."""
    return {code.id: code for code in globals().values() if isinstance(code, Code)}
