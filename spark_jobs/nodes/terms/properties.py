"""Properties of steps: facts about a bound node that the planner and tasks use without knowing its type.

A step states them as a few values, with defaults for a node that treats each record on its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_jobs.formats.typed.pruning import Test
    from spark_jobs.nodes.aggregate.totals import Totals


@dataclass(frozen=True)
class RecordProperties:
    """Relations between a node's input records and its output records.

    Args:
        preserves_records: output records are input records, with their undeclared columns and their origin.
        group_by: if output records are groups, the fields that the records of a group share; else None.
        partition_by: if each output record depends on a whole partition of the input, the fields that the records of a
            partition share; else None.
        looked_up: the nodes whose records the step reads in addition to its inputs, as `node` or `node.port`.
        inherited_keys: the columns that hold correlation keys of looked-up records, so that the output belongs to their
            groups as well: name, qualifier of the input, column there.
        may_multiply: there may be more output records than input records.
    """

    preserves_records: bool = True
    group_by: tuple[str, ...] | None = None
    partition_by: tuple[str, ...] | None = None
    looked_up: tuple[str, ...] = ()
    inherited_keys: tuple[tuple[str, str, str], ...] = ()
    may_multiply: bool = False

    @property
    def looked_up_nodes(self) -> tuple[str, ...]:
        """The nodes in `looked_up`, each once."""
        return tuple(dict.fromkeys(each.partition(".")[0] for each in self.looked_up))


@dataclass(frozen=True)
class ColumnProperties:
    """A node's treatment of columns.

    Args:
        added: the columns that the step adds to its records, or overwrites, while all others pass through.
        pushed_predicates: the predicates that a record must pass before anything else happens to it. All other
            records are filtered, and have no further effect.
        names_undeclared: the step names columns that no schema declares and that files may have.
        reads_undeclared: the step itself needs undeclared columns of the files.
    """

    added: tuple[str, ...] = ()
    pushed_predicates: tuple[Test, ...] = ()
    names_undeclared: bool = False
    reads_undeclared: bool = False


@dataclass(frozen=True)
class MemberProperties:
    """The `$` members that a node sets, and the `$` members that it reads outside its programs.

    Args:
        sets: the paths of the variables that the step sets.
        reads: the paths of the members that the step reads in addition to the members in its programs.
        counters: the counters of earlier stages that the step reads when its groups are complete.
        reads_origins: programs of the step read the file or the row of records that an earlier job materialized.
    """

    sets: tuple[str, ...] = ()
    reads: frozenset[str] = frozenset()
    counters: Totals | None = None
    reads_origins: bool = False
