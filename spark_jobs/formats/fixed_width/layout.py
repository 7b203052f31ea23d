"""The layout of fixed-width records according to a format schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.formats.rules import declared as rules

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Layout types whose fields hold numbers.
NUMBERS = frozenset({"integer", "int", "float", "decimal", "number"})
#: Layout types of date and date-time fields.
TIMES = frozenset({"date", "datetime", "date_time"})
#: Layout types of truth values.
FLAGS = frozenset({"boolean", "bool"})
#: Types that can have digits after a decimal point.
_SCALED = frozenset({"float", "decimal", "number"})
#: Properties that must agree for fields of one name in all kinds of records, since they become one column.
_OF_COLUMNS = ("type", "alias", "format", "enum", "precision")


@dataclass(frozen=True)
class Field:
    """A field of a record.

    Args:
        name: the name of the field in the files.
        column: the name of its column in outputs.
        start: where it begins, in bytes from 0.
        width: how many bytes it has.
        type: its type in the layout; None where nothing is said.
        justify: `left` or `right`; None where nothing is said.
        pad: the character that fills it.
        trim: whether fillers and blanks around a value are cut off on reading.
        truncation: what happens to a text that is too long on writing; None where nothing is said.
        format: the form of its dates.
        default: the text that stands for nothing; None where nothing does.
        scale: how many of its digits stand after a decimal point that is not written.
    """

    name: str
    start: int
    width: int
    type: str | None = None
    justify: str | None = None
    pad: str = " "
    trim: bool = True
    truncation: str | None = None
    format: str | None = None
    default: str | None = None
    scale: int = 0
    column: str = ""

    @property
    def end(self) -> int:
        """The position after the last character of the field."""
        return self.start + self.width

    @property
    def is_number(self) -> bool:
        """Whether the values of the field are numbers."""
        return self.type in NUMBERS

    @property
    def is_flag(self) -> bool:
        """Whether it holds truth values."""
        return self.type in FLAGS

    @property
    def is_time(self) -> bool:
        """Whether it holds dates or date-times."""
        return self.type in TIMES


@dataclass(frozen=True)
class Kind:
    """A kind of records.

    Args:
        fields: its fields.
        tag: the text by which its records are known; None where there is only one kind.
    """

    fields: tuple[Field, ...]
    tag: str | None = None

    @property
    def end(self) -> int:
        """The end of its last field, exclusive."""
        return max((field.end for field in self.fields), default=0)


@dataclass(frozen=True)
class Kinds:
    """The kinds of records of a file.

    Args:
        kinds: one, or several.
        tags: where the tag of each record stands, from and until; None where there is one kind.
        column: the column of outputs that has the tag; None where nothing says which.
    """

    kinds: tuple[Kind, ...]
    tags: tuple[int, int] | None = None
    column: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all fields, each once, in order."""
        return tuple(dict.fromkeys(field.name for kind in self.kinds for field in kind.fields))

    @property
    def end(self) -> int:
        """The number of bytes of a record that are inspected."""
        return max(*(kind.end for kind in self.kinds), self.tags[1] if self.tags else 0, 0)


def kinds_of(layout: Any) -> Kinds:
    """The kinds of records of a layout without problems, in plain form."""
    known = dict(layout)
    if "records" not in known:
        return Kinds((Kind(fields_of(known.get("fields_", ()))),))
    records = [dict(one) for one in known["records"]]
    kinds = tuple(Kind(fields_of(one["fields"]), one["tag"].strip()) for one in records)
    found = _tag_of(dict(known["discriminator"]), kinds)
    assert found is not None
    return Kinds(kinds, *found)


def _tag_of(discriminator: dict[str, Any], kinds: tuple[Kind, ...]) -> tuple[tuple[int, int], str | None] | None:
    """The place of tags, and the column that has them; None if the kinds disagree about it."""
    if "field" in discriminator:
        named = [one for kind in kinds for one in kind.fields if discriminator["field"] in (one.column, one.name)]
        places = {(one.start, one.end) for one in named}
        return (places.pop(), named[0].column) if len(named) == len(kinds) and len(places) == 1 else None
    start = discriminator.get("start", 0)
    place = (start, start + discriminator["width"])
    names = [{one.column for one in kind.fields if (one.start, one.end) == place} for kind in kinds]
    common = set.intersection(*names) if names else set()
    return place, min(common) if common else None


def fields_of(written: Any) -> tuple[Field, ...]:
    """The fields of a kind of records without problems; one without a place follows the one before it."""
    found: list[Field] = []
    for one in written:
        found.append(_field(dict(one), found[-1].end if found else 0))
    return tuple(found)


def _field(one: dict[str, Any], at: int) -> Field:
    start, default = one.get("start", at), one.get("default")
    return Field(
        name=one.get("alias", one["name"]),
        start=start,
        width=one["width"] if "width" in one else one["end"] - start,
        type=one.get("type"),
        justify=one.get("justify"),
        pad=one.get("pad", " "),
        trim=one.get("trim", True),
        truncation=one.get("truncation"),
        format=one.get("format"),
        default=None if default is None else rules.text_of(default),
        scale=one.get("scale", 0),
        column=one["name"],
    )


def problems(layout: Any, *, is_written: bool = False) -> Iterator[str]:
    """The problems of a layout's places and fillers. Files are written field by field, without places."""
    known = dict(layout)
    if "records" not in known:
        if not known.get("fields_"):
            yield "the format schema has no fields"
        yield from _of_fields(known.get("fields_", ()), is_written)
        return
    before = 0
    for problem in _of_kinds(known["records"], is_written):
        before += 1
        yield problem
    if not before:
        yield from _of_discriminator(dict(known["discriminator"]), known["records"], is_written)


def _of_fields(fields: Any, is_written: bool) -> Iterator[str]:
    names: set[str] = set()
    for one in map(dict, fields):
        what = f"field `{one['name']}`"
        if one["name"] in names:
            yield f"{what} stands there twice"
        names.add(one["name"])
        if "start" not in one and not is_written:
            yield f"{what}: `start` is missing, the place of its first byte, from 0"
        elif "width" not in one and ("end" not in one or "start" not in one):
            yield f"{what}: `width` is missing, the number of its bytes"
        elif "width" not in one and one["end"] <= one["start"]:
            yield f"{what}: `end` must be greater than `start`"
        if "scale" in one and one.get("type") not in _SCALED:
            yield f"{what}: `scale` is for fields of the type decimal, float or number"
        if isinstance(one.get("default"), tuple):
            yield f"{what}: `default` is one value"
        pad = one.get("pad", " ")
        if len(pad) != 1 or not pad.isascii() or pad in "\r\n":
            yield f"{what}: `pad` must be one ASCII character that is not a line end"


def _of_kinds(records: Any, is_written: bool) -> Iterator[str]:
    """The problems of several kinds of records, except problems of the discriminator."""
    if not records:
        yield "`records` has no kind of records"
    tags: set[str] = set()
    said: dict[str, tuple[Any, ...]] = {}
    for record in map(dict, records):
        tag = record["tag"].strip()
        if tag in tags:
            yield f"two kinds of records have the tag `{tag}`"
        tags.add(tag)
        for problem in _of_fields(record["fields"], is_written):
            yield f"record `{record['id']}`: {problem}"
        for one in map(dict, record["fields"]):
            says = tuple(one.get(key) for key in _OF_COLUMNS)
            if said.setdefault(one["name"], says) != says:
                yield (
                    f"record `{record['id']}`: field `{one['name']}` is a column that another kind of records has too, "
                    f"and {', '.join(_OF_COLUMNS)} differ there"
                )


def _of_discriminator(discriminator: dict[str, Any], records: Any, is_written: bool) -> Iterator[str]:
    """The problems of the discriminator, if everything else is right."""
    if "field" not in discriminator and "width" not in discriminator:
        yield "`discriminator` needs `width` (and `start`), or `field`"
        return
    if "field" in discriminator and ("width" in discriminator or "start" in discriminator):
        yield "`discriminator`: `field` and `start`, `width` exclude each other"
        return
    kinds = tuple(Kind(fields_of(one["fields"]), one["tag"].strip()) for one in map(dict, records))
    found = _tag_of(discriminator, kinds)
    if found is None:
        yield f"`discriminator`: the field `{discriminator['field']}` is not in all kinds of records at the same place"
    elif is_written and found[1] is None:
        yield "`discriminator`: no field has the tag in all kinds of records; name the column in `field`"
    if found is not None:
        long = [kind.tag for kind in kinds if len((kind.tag or "").encode()) > found[0][1] - found[0][0]]
        if long:
            yield f"the tag `{long[0]}` is longer than the discriminator"
