"""What a step needs that an earlier job finds out. The order of jobs follows from the needs of their steps.

The set of needs is closed: who plans or runs jobs matches all of them and ends in `assert_never`.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Rows:
    """The records of an input, written down.

    Args:
        node: the node that looks them up.
        input: the name that it gives the input.
        why: how records get there, for `explain`; no part of the identity.
    """

    node: str
    input: str
    why: str = field(default="", compare=False)

    def __str__(self) -> str:
        """The name of the box that writes them."""
        return f"{self.node}#build:{self.input}"


#: What jobs can wait for. Values of variables, counts of inputs and measures of splits will be others.
Need = Rows
