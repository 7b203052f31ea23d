"""The envelope of a source's files: checks and binds sections, and types their fields in `$doc`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.cxl import types
from spark_jobs.diagnostics import codes
from spark_jobs.formats import registry
from spark_jobs.formats.format import Section
from spark_jobs.nodes.binding import report
from spark_jobs.nodes.source.model import TransportKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.nodes.binding import BindScope
    from spark_jobs.nodes.source.model import ExtractConfig, SourceConfig


def check(config: SourceConfig, scope: BindScope) -> None:
    """Report sections without a location that their format supports, and an envelope without sections."""
    if config.envelope is not None and config.envelope.sections and not _has_any(config):
        is_network = config.transport.kind is TransportKind.REST
        what = "pages of a network" if is_network else f"{registry.named(config.type).title} files"
        message = f"source '{scope.name}': `envelope` has no effect: {what} have no sections, and `$doc` is null"
        scope.add(codes.W003.at(scope.key_span("config", "envelope"), message, help="remove the key"))
    for name, section in (config.envelope.sections if config.envelope else {}).items():
        path = ("config", "envelope", "sections", name, "extract")
        written = _written(section.extract)
        if len(written) != 1:
            message = f"section '{name}': exactly one of xml_path, json_pointer, segment is needed"
            report(scope, codes.E007, message, *path)
            continue
        ((key, value),) = written
        place = registry.named(config.type).sections
        if place is not None and key != place.key:
            message = f"section '{name}': {config.type} sections are found by `{place.key}`, not by `{key}`"
            report(scope, codes.E007, message, *path, key, help=f"write `{place.key}: …`")
        elif place is not None and place.only is not None and value != place.only:
            message = f"section '{name}': only the segment {place.only} of {config.type} can be a section, not {value}"
            report(scope, codes.E007, message, *path, key)
        elif place is not None and (problem := place.problem(value)) is not None:
            report(scope, codes.E007, f"section '{name}': {problem}", *path, key)


def _written(extract: ExtractConfig) -> list[tuple[str, str]]:
    return [(key, value) for key, value in extract if value is not None]


def _has_any(config: SourceConfig) -> bool:
    """True if files can have sections. Network pages and some formats cannot."""
    return registry.named(config.type).sections is not None and config.transport.kind is not TransportKind.REST


def sections(config: SourceConfig) -> Iterator[Section]:
    """The declared sections; none if files cannot have any."""
    if config.envelope is None or not _has_any(config):
        return
    for name, section in config.envelope.sections.items():
        key, where = next(iter(_written(section.extract)), ("", ""))
        yield Section(name, key, where, tuple(section.fields_.items()))


def documents(config: SourceConfig) -> dict[str, dict[str, types.Type]]:
    """The sections of `$doc` with the types that programs see: declared sections, and those of the format.

    An inner level hides a declared section of the same name, like an inner scope.
    """
    declared = config.envelope.sections if config.envelope else {}
    found = {name: {key: kind.or_null() for key, kind in one.fields_.items()} for name, one in declared.items()}
    for section, names in registry.named(config.type).documents:
        found[section] = dict.fromkeys(names, types.STRING.or_null())
    return found
