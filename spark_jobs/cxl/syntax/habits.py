"""Recognises constructs of SQL, Python and spreadsheets in a program that does not parse: one mistake each.

The grammar finds several mistakes in `cast(x as int)` or `x is not null`, and none of them helps. If the line of a
mistake has such a form, one mistake with CXL's equivalent replaces all mistakes of the line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from spark_jobs.cxl.syntax.ast import Place

#: The conversion method for each type name of other languages.
CONVERSIONS = {
    **dict.fromkeys(("int", "integer", "bigint", "smallint", "tinyint", "long", "int4", "int8", "int64"), "to_int"),
    **dict.fromkeys(("float", "double", "real", "number", "float8", "float64"), "to_float"),
    **dict.fromkeys(("decimal", "numeric"), "to_decimal"),
    **dict.fromkeys(("text", "string", "varchar", "char", "nvarchar", "str"), "to_string"),
    **dict.fromkeys(("bool", "boolean", "bit"), "to_bool"),
    "date": "to_date",
    **dict.fromkeys(("datetime", "timestamp", "timestamptz"), "to_datetime"),
}
#: Longer lines are not looked at, and no more of them.
_MOST_CHARACTERS, _MOST_LINES = 400, 20
_COMMENT = "a comment starts with `#` and goes to the end of its line"
_VALUE = r"(?P<value>[\w.`$]+(?:\([^()\n]*\))?(?:\.\w+\([^()\n]*\))*)"
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'')
_REMARK = re.compile(r"#(?!\d{4}-\d\d-\d\d#)[^\n]*")


@dataclass(frozen=True)
class HabitMatch:
    """A form of another language: the message, its place, and how CXL writes it."""

    message: str
    place: Place
    help: str


@dataclass(frozen=True)
class _Habit:
    """A form and the message about a match; patterns see string literals as blanks, `help` gets the original text."""

    pattern: re.Pattern[str]
    message: str
    help: Callable[[re.Match[str], str], str]


def _habit(pattern: str, message: str, help: str | Callable[[re.Match[str], str], str]) -> _Habit:
    compiled = re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    return _Habit(compiled, message, (lambda found, text: help) if isinstance(help, str) else help)


def _part(found: re.Match[str], text: str, name: str) -> str:
    """The text that a group has matched."""
    start, end = found.span(name)
    return text[start:end].strip()


def _cast(found: re.Match[str], text: str) -> str:
    method = CONVERSIONS.get(found["type"].lower(), "to_string")
    value = _part(found, text, "value")
    receiver = value if re.fullmatch(r"[\w.]+", value) else f"({value})"
    return f"write `{receiver}.{method}()`"


def _choice(found: re.Match[str], text: str) -> str:
    condition, value, other = (_part(found, text, name) for name in ("condition", "value", "other"))
    return f"write `if {condition} then {value} else {other}`"


def _like(found: re.Match[str], text: str) -> str:
    value, negation = _part(found, text, "value"), "not " if found["not"] else ""
    given = _STRING.match(text, found.end())
    wanted = given[0][1:-1] if given else "…"
    inner = wanted.strip("%")
    if given is None or "%" in inner or "_" in inner:
        return f'write `{negation}{value}.matches("…")` with a regular expression: `.*` for `%`, `.` for `_`'
    starts, ends = not wanted.startswith("%"), not wanted.endswith("%")
    if starts and ends:
        return f"write `{value} {'!=' if negation else '=='} {given[0]}`"
    method = "starts_with" if starts else "ends_with" if ends else "contains"
    return f'write `{negation}{value}.{method}("{inner}")`'


def _between(found: re.Match[str], text: str) -> str:
    value, low, high = (_part(found, text, name) for name in ("value", "low", "high"))
    if found["not"]:
        return f"write `{value} < {low} or {value} > {high}`"
    return f"write `{value} >= {low} and {value} <= {high}`"


def _null(found: re.Match[str], text: str) -> str:
    return f"write `{'not ' if found['not'] else ''}{_part(found, text, 'value')}.is_null()`"


def _among(found: re.Match[str], text: str) -> str:
    value, sign, joint = _part(found, text, "value"), "!=" if found["not"] else "==", "and" if found["not"] else "or"
    given = [one.strip() for one in text[found.end() : text.find(")", found.end())].split(",")][:2]
    compared = f" {joint} ".join(f"{value} {sign} {one}" for one in given if one)
    return f"compare with each value: `{compared}`, or use `match`"


def _extract(found: re.Match[str], text: str) -> str:
    return f"write `{_part(found, text, 'value')}.{found['unit'].lower()}()`"


def _within(found: re.Match[str], text: str) -> str:
    return f"write `{_part(found, text, 'value')}.contains({_part(found, text, 'part')})`"


def _named(found: re.Match[str], text: str) -> str:
    return f"write `emit {found['name']} = {_part(found, text, 'value')}`"


def _unnamed(found: re.Match[str], text: str) -> str:
    value = _part(found, text, "value")
    return f"write `emit {value if value.isidentifier() else 'name'} = {value}`"


def _added(found: re.Match[str], text: str) -> str:
    return f"write `emit {found['name']} = {found['name']} {found['sign']} …`"


def _whole_part(found: re.Match[str], text: str) -> str:
    return f"write `({_part(found, text, 'value')} / {_part(found, text, 'other')}).floor()`"


def _small(found: re.Match[str], text: str) -> str:
    return f"words are written in small letters: `{found['word'].lower()}`"


def _found(found: re.Match[str], text: str) -> str:
    negation = "not " if found["not"] else ""
    given = _STRING.match(text, found.end())
    return f"write `{negation}{_part(found, text, 'value')}.find({given[0] if given else 'pattern'})`"


def _windowed(found: re.Match[str], text: str) -> str:
    name = found["name"].lower()
    return f"write `$window.{name}(…)`, with `group_by` and `sort_by` under the transform's `analytic_window`"


def _of_statement(words: str, help_text: str) -> _Habit:
    """A statement of another language, by its first words."""
    pattern = r"\s+".join(words.split())
    return _habit(rf"^[ \t]*{pattern}\b", f"`{words}` is no statement of CXL", help_text)


_HABITS = (
    _habit(
        rf"{_VALUE}\s*//\s*(?P<other>[\d.]+)[ \t]*$|(?!)",
        "`//` is no operator",
        _whole_part,
    ),
    _habit(rf"{_VALUE}\s+div\s+(?P<other>[\w.]+)", "`div` is no operator", _whole_part),
    _habit(r"/\*", "`/*` begins no comment", _COMMENT),
    _habit(r"(?:^|(?<=\s))--(?=\s|$)|^[ \t]*--", "`--` begins no comment", _COMMENT),
    _habit(r"//", "`//` begins no comment", _COMMENT),
    _habit(
        r"\b(?:try_)?cast\s*\(\s*(?P<value>[^()\n]+?(?:\([^()\n]*\))?)\s+as\s+(?P<type>\w+)(?:\s*\([\d, ]*\))?\s*\)?",
        "a value is converted by a method",
        _cast,
    ),
    _habit(
        r"\bcase\s+(?:[\w.]+\s+)?when\b|^\s*when\b[^\n]{1,200}?\bthen\b",
        "`case` is a word of SQL",
        "a choice is written `if … then … else …` or `match { condition => value, _ => default }`",
    ),
    _habit(rf"{_VALUE}\s+(?P<not>not\s+)?i?like\s+", "`like` is a word of SQL", _like),
    _habit(rf"{_VALUE}\s+(?P<not>not\s+)?(?:rlike|regexp|similar\s+to)\s+", "a pattern is tested by a method", _found),
    _habit(rf"{_VALUE}\s*(?P<not>!)?(?:=~|~)\s*", "a pattern is tested by a method", _found),
    _habit(
        rf"{_VALUE}\s+(?P<not>not\s+)?between\s+(?P<low>[^\n]+?)\s+and\s+(?P<high>[^\s)]+)",
        "`between` is a word of SQL",
        _between,
    ),
    _habit(rf"{_VALUE}\s+is\s+(?P<not>not\s+)?(?:null|none)\b", "`is` is no operator", _null),
    _habit(rf"{_VALUE}\s+(?P<not>not\s+)?in\s*[(\[]", "`in` is no operator", _among),
    _habit(
        r"\bextract\s*\(\s*(?P<unit>\w+)\s+from\s+(?P<value>[^()\n]+)\)?",
        "a part of a date is read by a method",
        _extract,
    ),
    _habit(
        r"\bii?f\s*\((?P<condition>[^,\n]+),(?P<value>[^,\n]+),(?P<other>[^,\n]+)\)",
        "`if` is no function",
        _choice,
    ),
    _habit(
        r"(?:=\s*|^\s*)(?P<value>[^=\n]+?)\s+if\s+(?P<condition>(?:(?!\bthen\b)[^\n])+?)\s+else\s+(?P<other>[^\n]+?)\s*$",
        "the condition of a choice stands first",
        _choice,
    ),
    _habit(
        r"\bposition\s*\(\s*(?P<part>[^()\n]+?)\s+in\s+(?P<value>[^()\n]+)\)?",
        "a part is looked for by a method",
        _within,
    ),
    _habit(
        r"(?P<part>\"[^\"\n]*\"|'[^'\n]*')\s+in\s+(?P<value>[\w.]+)", "a part is looked for by a method", _within
    ),
    _habit(r"\b(?P<name>\w+)\s*\([^()\n]*\)\s*over\s*\(", "`over` is a word of SQL", _windowed),
    _habit(
        r"\bcount\s*\(\s*distinct\b",
        "`count(distinct …)` is SQL",
        "put a transform with `distinct by name` upstream of the aggregate, and count its records",
    ),
    _habit(r"\binterval\s+['\"\d]", "`interval` is a word of SQL", "write `day.add_days(1)`, or `.add_months(1)`"),
    _habit(
        r"\bsubstring\s*\([^()\n]*?\bfrom\b",
        "arguments are separated by commas",
        "write `value.substring(start, length)`: the first character has place 0",
    ),
    _habit(r"<>", "`<>` is no operator", "write `!=`"),
    _habit(r"^\s*emit\s+(?P<value>[^=\n]+?)\s+as\s+(?P<name>\w+)\s*$", "`as` names no field", _named),
    _habit(r"^\s*emit\s+\w+\s*=\s*(?P<value>[^\n]+?)\s+as\s+(?P<name>\w+)\s*$", "`as` names no field", _named),
    _habit(r"^\s*emit\s+(?P<value>[A-Za-z_][\w.]*(?:\([^()\n]*\))?)\s*$", "`emit` gives a value a name", _unnamed),
    _habit(r"^\s*emit\s+(?P<name>\w+)\s*(?P<sign>[-+*/])=", "a field gets one value", _added),
    _habit(r"^\s*emit\s+(?P<name>\w+)\s*:\s*(?P<value>[^:=\n][^\n]*)", "a value follows `=`", _named),
    _habit(
        r"^\s*if\b[^\n]*\bemit\s+(?P<name>\w+)",
        "a statement cannot stand inside `if`",
        lambda found, text: f"write `emit {found['name']} = if condition then value else other`",
    ),
    _habit(r"(?-i:\b(?P<word>AND|OR|NOT|THEN|ELSE)\b)", "CXL tells capitals from small letters", _small),
    _of_statement("order by", "records are ordered by `sort_order:` of a source or an output"),
    _of_statement("sort", "records are ordered by `sort_order:` of a source or an output"),
    _of_statement("group by", "records are grouped by `group_by:` of an aggregate node"),
    _of_statement(
        "limit", "`clinker run -n 10` reads the first records; `$window.row_number()` numbers those of a group"
    ),
    _of_statement("drop", "an output leaves columns out: `exclude: [name]`"),
    _of_statement("rename", "write `emit new = old`, or `mapping:` on an output"),
    _of_statement("dedupe", "write `distinct by name`"),
    _of_statement("update", "a transform changes a field: `emit name = value`"),
    _of_statement("insert", "an output writes what its `input:` gives"),
    _of_statement("delete", "write `filter not (…)`: records that do not meet the condition are left out"),
    _of_statement("from", "a node reads what its `input:` names"),
    _of_statement("join", "a combine node joins its inputs: `where: \"a.id == b.id\"`"),
    _of_statement("import", "modules are used with `use`; values have methods"),
    _of_statement("def", "functions stand in modules: `fn name(x) = …`"),
    _of_statement("return", "write `emit name = value`"),
    _of_statement("for", "each element of an array becomes a record with `emit each item in items { … }`"),
    _of_statement("elif", "a choice is a value: `emit name = if … then … else if … then … else …`"),
    _habit(r"^\s*select\b", "`select` is a word of SQL", "write `emit name = value` for each column of the output"),
    _habit(
        r"^\s*where\b", "`where` is a word of SQL", "write `filter condition`: records that do not meet it are left out"
    ),
)  # fmt: skip


def masked(text: str) -> str:
    """The text with strings and comments replaced by blanks of the same length."""
    text = _STRING.sub(lambda found: found[0][0] + " " * (len(found[0]) - 2) + found[0][0], text)
    return _REMARK.sub(lambda found: " " * len(found[0]), text)


def forms(text: str, positions: Iterable[int]) -> Iterator[HabitMatch]:
    """The forms of other languages on the lines of some positions, in the order in which they are looked for."""
    seen = masked(text)
    lines = dict.fromkeys(_line(seen, position) for position in positions)
    short = [(start, end) for start, end in lines if end - start <= _MOST_CHARACTERS][:_MOST_LINES]
    for habit in _HABITS:
        for start, end in short:
            for found in habit.pattern.finditer(seen, start, end):
                first = found.start() + len(found[0]) - len(found[0].lstrip())
                yield HabitMatch(habit.message, (first, max(found.end(), first + 1)), habit.help(found, text))


def _line(text: str, position: int) -> tuple[int, int]:
    """The start and end of the line at a position."""
    end = text.find("\n", position)
    return text.rfind("\n", 0, position) + 1, len(text) if end < 0 else end


def line_of(text: str, position: int) -> int:
    """The number of the line in which a position is, from 0."""
    return text.count("\n", 0, position)
