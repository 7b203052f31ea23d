"""Files whose footers give Arrow's types of their columns: what is checked of them before a record is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs import limits
from spark_jobs.formats.columns import MISFIT
from spark_jobs.formats.typed import natural
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import pyarrow as pa

    from spark_jobs.formats.columns import FilePlan
    from spark_jobs.formats.format import Reading
    from spark_jobs.scan.files import InputFile


def kinds(schema: pa.Schema, file: InputFile, declared: Collection[str]) -> dict[str, pa.DataType]:
    """The Arrow types of a file's columns by their dotted names.

    Raises:
        FormatError: two columns have one name (E217), or a name is no UTF-8 text.
    """
    found: dict[str, pa.DataType] = {}
    try:
        leaves = list(natural.leaves(schema, declared))
    except UnicodeDecodeError as error:
        raise FormatError(
            "the footer names a column in bytes that are not UTF-8: the file is broken", file.name
        ) from error
    for name, kind in leaves:
        if name in found:
            raise FormatError(f"the footer names column '{name}' twice", file.name, MISFIT)
        found[name] = kind
    return found


def with_tops(fields: Iterable[pa.Field], declared: Collection[str]) -> list[tuple[str, str]]:
    """The leaves of a file, each with the column that it belongs to."""
    return [(field.name, name) for field in fields for name, _ in natural.leaves([field], declared)]


def refuse_unknown(
    title: str, file: InputFile, found: dict[str, pa.DataType], fields: Collection[int | None], texts: Collection[str]
) -> None:
    """Refuse columns that are read and of types that nothing stands for.

    Args:
        title: what the format is called.
        file: the file.
        found: its columns.
        fields: the places of those that are read.
        texts: the names of those that are declared as texts.

    Raises:
        FormatError: there is one (E217).
    """
    for at, (name, kind) in enumerate(found.items()):
        is_text = name in texts and natural.is_bytes(kind)
        if at in fields and not is_text and natural.type_of(kind) is None:
            message = (
                f"column '{name}' is of the {title} type {kind}, which is not supported; "
                "leave it out (`on_unmapped: drop`, and no declaration), or write the file with another type"
                f"{'; declare it as string if its bytes are texts' if natural.is_bytes(kind) else ''}"
            )
            raise FormatError(message, file.name, MISFIT)


def refuse_nothing(file: InputFile, rows: int) -> None:
    """A few bytes can stand for billions of records that have nothing in them, each of which takes time.

    Raises:
        FormatError: they do (E310).
    """
    most = max(limits.EMPTY_RECORDS, limits.EMPTY_RECORDS_PER_BYTE * file.size)
    if rows > most:
        text = f"it has {rows} records in {file.size} bytes, and more than {most} are not read; write several files"
        raise FormatError(text, file.name, "E310")


def needed(wanted: Reading, file_plan: FilePlan) -> set[int]:
    """The columns of a file that must be read: all declared ones are checked in every record."""
    widened = file_plan.columns.widened if wanted.widened else ()
    declared = file_plan.columns.declared[: len(wanted.columns)]
    return {field for field in (*declared, *widened) if field is not None}
