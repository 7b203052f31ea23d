"""The files of a plan's sources, as far as they are known without a run: for checks, estimates and `explain`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes
from spark_jobs.plan import paths
from spark_jobs.scan import connections, matching
from spark_jobs.scan.files import FormatError
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.formats.reader import SourceContext
    from spark_jobs.nodes.source.step import SourceStep
    from spark_jobs.plan.plan import Plan
    from spark_jobs.scan.files import InputFile

#: Refusals of stores and databases: their messages say what to do, and the path is seldom to blame.
_WITH_A_REMEDY = (codes.E910, codes.E911, codes.E912)


@dataclass(frozen=True)
class Discovered:
    """The files of a source in reading order, or the reason why they are unknown.

    A source on a network, or in a database, has none before a run. `about` has other known facts, by name.
    """

    files: tuple[InputFile, ...] = ()
    problem: FormatError | None = None
    is_network: bool = False
    about: Mapping[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> int | None:
        """The files' size; None if that is not known before a run."""
        return None if self.problem or self.is_network else sum(file.size for file in self.files)


def discover(plan: Plan, *, allow_outside: bool = False) -> dict[str, Discovered]:
    """The files of every source that binds, by its name; nothing is opened."""
    found: dict[str, Discovered] = {}
    for name, step in plan.sources.items():
        if step.file_format.is_table:
            found[name] = _tabled(step, plan, allow_outside=allow_outside)
            continue
        if not step.file_format.has_files:
            found[name] = Discovered(is_network=True, problem=_unconnected(step, plan))
            continue
        if step.endpoint is not None or not all(map(location.is_readable, step.match.named)):
            found[name] = Discovered(is_network=True)
            continue
        try:
            matched = matching.match(name, step.match, plan.base_dir, allow_outside=allow_outside, stores=plan.stores)
        except FormatError as error:
            found[name] = Discovered(problem=error)
        else:
            found[name] = Discovered(matched.files)
    return found


def table_place(plan: Plan, step: SourceStep, *, allow_outside: bool = False) -> SourceContext:
    """The place to search for a source whose reader finds its own files."""
    from spark_jobs.formats.reader import SourceContext

    return SourceContext(
        plan.local_folder,
        _table_path(plan, step),
        plan.connections,
        plan.stores.resolved(),
        allow_outside=allow_outside,
        catalogs=plan.catalogs,
    )


def _table_path(plan: Plan, step: SourceStep) -> str:
    """Give the path of a table source; a URI where it is relative to a base folder in a store."""
    path = step.match.path or ""
    return paths.resolve(path, plan.base_dir) if path and isinstance(plan.base_dir, location.Location) else path


def _tabled(step: SourceStep, plan: Plan, *, allow_outside: bool) -> Discovered:
    """The files of a table as it has them now: a run looks again."""
    if not all(map(location.is_readable, step.match.named)):
        return Discovered(is_network=True)
    try:
        reader = step.reader
        files = reader.found(table_place(plan, step, allow_outside=allow_outside))
    except FormatError as error:
        return Discovered(problem=error)
    return Discovered(files, about=reader.about(files, step.columns, step.passes))


def _unconnected(step: SourceStep, plan: Plan) -> FormatError | None:
    """Why a database cannot be asked, as far as that is known without asking it."""
    try:
        connections.find(step.options.connection, plan.connections, plan.local_folder)
    except FormatError as error:
        return error
    return None


def missing(plan: Plan, sources: Mapping[str, Discovered]) -> list[Diagnostic]:
    """A diagnostic for each source whose files are missing or refused, before a run would end with exit 4.

    The same for connections of outputs.
    """
    found: list[Diagnostic] = []
    for name, source in sources.items():
        if source.problem is not None:
            code = codes.by_id().get(source.problem.code or "", codes.E216)
            place = plan.places.get(name, plan.by_name[name].span)
            help = None if code in _WITH_A_REMEDY else "check the path"
            found.append(code.at(place, str(source.problem), help=help))
    for name, step in plan.outputs.items():
        if step.is_in_database:
            try:
                connections.find(step.options.connection, plan.connections, plan.local_folder)
            except FormatError as error:
                found.append(codes.E911.at(plan.places.get(name, plan.by_name[name].span), str(error)))
    return found
