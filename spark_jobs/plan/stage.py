"""A stage of planning: a function from values to a value, with what it needs of the stages before it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from spark_jobs.diagnostics.diagnostic import Diagnostics


@dataclass(frozen=True)
class Stage:
    """A stage.

    Args:
        makes: the name of its value.
        run: gets the values that its parameters name, and tells problems where one of them is `found`.
        after: what else has to be there before it.
        after_errors: whether it runs when problems have been found, as far as there is what it needs.
    """

    makes: str
    run: Callable[..., Any]
    after: tuple[str, ...] = ()
    after_errors: bool = False

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """The names of the values that it gets."""
        return tuple(inspect.signature(self.run).parameters)


def run(stages: Iterable[Stage], given: Mapping[str, Any], found: Diagnostics) -> dict[str, Any]:
    """All values that could be made: a stage runs unless errors or a stage that did not run are in its way.

    Args:
        stages: in their order.
        given: values that are there before the first.
        found: all that was found so far, to which stages add.
    """
    made = dict(given)
    for stage in stages:
        if made.keys() >= {*stage.needs, *stage.after} and (stage.after_errors or not found.has_errors):
            made[stage.makes] = stage.run(**{name: made[name] for name in stage.needs})
    return made
