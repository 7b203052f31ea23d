"""Functions of SQL, Python, Spark and spreadsheets, with their equivalents in CXL."""

from __future__ import annotations

import re

from spark_jobs.cxl.syntax import ast

#: Methods of other languages, with their counterparts in CXL. `value` stands for the receiver.
METHODS = {
    "fuzzy_match": "value.trim().lower() == other.trim().lower()",
    "strip": ".trim()",
    "lstrip": ".trim_start()",
    "rstrip": ".trim_end()",
    "ltrim": ".trim_start()",
    "rtrim": ".trim_end()",
    "len": ".length()",
    "size": ".length()",
    "count": ".length()",
    "to_upper": ".upper()",
    "uppercase": ".upper()",
    "toUpperCase": ".upper()",
    "ucase": ".upper()",
    "to_lower": ".lower()",
    "lowercase": ".lower()",
    "toLowerCase": ".lower()",
    "lcase": ".lower()",
    "substr": ".substring(start, length)",
    "slice": ".substring(start, length)",
    "startswith": ".starts_with(prefix)",
    "endswith": ".ends_with(suffix)",
    "includes": ".contains(part)",
    "replace_all": ".replace(old, new)",
    "lpad": ".pad_left(width, fill)",
    "rpad": ".pad_right(width, fill)",
    "zfill": '.pad_left(width, "0")',
    "match": ".matches(pattern)",
    "regex": ".matches(pattern)",
    "search": ".find(pattern)",
    "extract": ".capture(pattern, group)",
    "coalesce": "value ?? default",
    "if_null": "value ?? default",
    "ifnull": "value ?? default",
    "nvl": "value ?? default",
    "default": "value ?? default",
    "is_not_null": "not value.is_null()",
    "is_blank": ".trim().is_empty()",
    "typeof": ".type_of()",
    "int": ".to_int()",
    "to_integer": ".to_int()",
    "parse_int": ".try_int()",
    "to_number": ".to_float()",
    "float": ".to_float()",
    "str": ".to_string()",
    "as_string": ".to_string()",
    "toString": ".to_string()",
    "as_date": ".to_date()",
    "parse_date": ".to_date(format)",
    "to_timestamp": ".to_datetime()",
    "strftime": ".format_date(format)",
    "format_datetime": ".format_date(format)",
    "date_add": ".add_days(n)",
    "date_diff": ".diff_days(other)",
    "datediff": ".diff_days(other)",
    "add_weeks": ".add_days(7 * n)",
    "ceiling": ".ceil()",
    "absolute": ".abs()",
    "mod": "the operator `%`",
    "get": '["key"]',
    "has": 'not value["key"].is_null()',
    "delete": ".remove_field(key)",
    "put": ".set(path, value)",
    "all": "not values.any(it => not …)",
    "first": "[0]",
    "concat_ws": ".join(delimiter)",
    "char_length": ".length()",
    "initcap": ".title_case()",
    "proper": ".title_case()",
    "capitalize": ".title_case()",
    "regexp_replace": ".regex_replace(pattern, replacement)",
    "replace_regex": ".regex_replace(pattern, replacement)",
    "sub": ".regex_replace(pattern, replacement)",
    "gsub": ".regex_replace(pattern, replacement)",
    "regexp_extract": ".capture(pattern, group)",
    "regexp_like": ".find(pattern)",
    "regexp_matches": ".find(pattern)",
    "instr": ".contains(part)",
    "position": ".contains(part)",
    "charindex": ".contains(part)",
    "translate": ".replace(old, new)",
    "nullif": ".null_if(other)",
    "isnull": ".is_null()",
    "isna": ".is_null()",
    "notnull": "not value.is_null()",
    "notna": "not value.is_null()",
    "greatest": ".max(other)",
    "least": ".min(other)",
    "pow": ".power(exponent)",
    "sqrt": ".square_root()",
    "title": ".title_case()",
    "truncate": '.truncate_to("month")',
    "square": ".power(2)",
    "trunc": ".floor()",
    "sign": "if value < 0 then -1 else 1",
    "dateadd": ".add_days(n)",
    "timestampdiff": ".diff_days(other)",
    "date_sub": ".add_days(-n)",
    "months_between": ".diff_months(other)",
    "date_trunc": '.truncate_to("month")',
    "to_char": '.format("%Y-%m")',
    "date_format": '.format("%Y-%m")',
    "date_part": ".year()",
    "today": "now.to_date()",
    "current_date": "now.to_date()",
    "curdate": "now.to_date()",
    "getdate": "now",
    "current_timestamp": "now",
    "sysdate": "now",
    "row_number": "$window.row_number()",
    "rank": "$window.rank()",
    "lag": "$window.lag(column)",
    "lead": "$window.lead(column)",
    "try_cast": ".try_int()",
    "boolean": ".to_bool()",
    "date": ".to_date()",
    "hash": ".sha256()",
    "sha1": ".sha256()",
    "sha2": ".sha256()",
    "iif": "if condition then value else other",
    "decode": "match value { a => b, _ => c }",
    "case": "match { condition => value, _ => other }",
    "print": ".debug(label)",
    "isdigit": "not value.try_int().is_null()",
    "isnumeric": "not value.try_float().is_null()",
    "is_numeric": "not value.try_float().is_null()",
    "ljust": ".pad_right(width, fill)",
    "rjust": ".pad_left(width, fill)",
    "padstart": ".pad_left(width, fill)",
    "padend": ".pad_right(width, fill)",
    "replaceall": ".replace(old, new)",
    "asint": ".to_int()",
    "parseint": ".to_int()",
    "parsefloat": ".to_float()",
    "string": ".to_string()",
    "bool": ".to_bool()",
    "indexof": ".contains(part)",
    "charat": ".substring(start, 1)",
    "fillna": "value ?? default",
    "strptime": ".to_date(format)",
    "isoformat": ".to_string()",
    "type": ".type_of()",
    "cast": "the methods `.to_int()`, `.to_float()`, `.to_string()` and `.to_date()`",
    "astype": "the methods `.to_int()`, `.to_float()`, `.to_string()` and `.to_date()`",
    "otherwise": "if condition then value else other",
}
_NO_CHANCE = "a run that is repeated has to give the same records"
_NO_KEY = f"{_NO_CHANCE}: make a key of columns, `value.sha256()`"
_PARTS = "write `$1.substring(start, length)`: the first character has place 0"
_IF = "write `if $1:condition then $2:value else $3:other`"
_MATCH = "write `match $1 { 1 => value, _ => other }`"
_LOOKUP = 'a combine node looks records up: `where: "orders.id == customers.id"`'
_COLLECT = 'write `collect($1)` in an aggregate node, and `.join(",")` downstream of it'
_CONVERT = "a value is converted by a method: `.to_int()`, `.to_float()`, `.to_string()`, `.to_date()`"
_PLAIN = "a field is read by its name alone, without a function"
_NUMBER = "write `not $1.try_float().is_null()`"
_ISO_WEEK = 'write `$1.format_date("%V").to_int()`, the week of ISO 8601'
_WEEKDAY = 'write `$1.format_date("%u").to_int()`: Monday is 1'
_LAST_DAY = 'write `$1.truncate_to("month").add_months(1).add_days(-1)`'
_STATISTICS = "there is none in CXL: aggregates are sum, avg, weighted_avg, min, max, count, first, last, any, collect"
_MATHEMATICS = "there is none in CXL, which has `+ - * / %`, `.power(x)`, `.square_root()`, `.abs()` and rounding"
_PARSE = "write `$1.to_date($2:format)` with codes such as `%Y-%m-%d`"
_NESTED = 'members of nested values are read as `$1["key"]`; a JSON source gives such values'
#: Answers to calls of functions: `$1` and so on stand for the call's arguments if these are names or constants,
#: otherwise for the word after the colon.
_CALLS = {
    **dict.fromkeys(("substr", "substring", "mid"), _PARTS),
    **dict.fromkeys(("if", "iif", "when"), _IF),
    **dict.fromkeys(("choose", "switch"), _MATCH),
    **dict.fromkeys(("vlookup", "xlookup", "hlookup", "lookup", "index"), _LOOKUP),
    **dict.fromkeys(("string_agg", "listagg", "group_concat", "array_agg", "textjoin"), _COLLECT),
    **dict.fromkeys(("sumif", "sumifs"), "write `sum(if condition then value else 0)` in an aggregate node"),
    **dict.fromkeys(("countif", "countifs"), "write `sum(if condition then 1 else 0)` in an aggregate node"),
    **dict.fromkeys(("averageif", "averageifs"), "write `avg(if condition then value else null)` in an aggregate node"),
    **dict.fromkeys(("average", "mean"), "write `avg($1)` in an aggregate node"),
    **dict.fromkeys(("median", "mode", "stddev", "stdev", "variance", "var", "percentile"), _STATISTICS),
    **dict.fromkeys(("log", "ln", "log10", "exp", "sin", "cos", "tan", "pi"), _MATHEMATICS),
    **dict.fromkeys(("uuid", "uuid4", "newid", "gen_random_uuid", "generate_uuid"), _NO_KEY),
    **dict.fromkeys(("random", "rand", "randbetween"), _NO_CHANCE),
    **dict.fromkeys(("isnumber", "isnumeric", "is_numeric", "is_number"), _NUMBER),
    **dict.fromkeys(("isblank", "is_blank", "isempty"), "write `$1.trim().is_empty()`"),
    **dict.fromkeys(("weekday", "dayofweek", "day_of_week"), _WEEKDAY),
    **dict.fromkeys(("weeknum", "weekofyear", "isoweeknum", "week"), _ISO_WEEK),
    **dict.fromkeys(("eomonth", "last_day"), _LAST_DAY),
    **dict.fromkeys(("strptime", "str_to_date", "datevalue", "parse_datetime"), _PARSE),
    **dict.fromkeys(("json_extract", "get_json_object", "json_value"), _NESTED),
    **dict.fromkeys(("explode", "unnest"), "write `emit each item in $1 { … }`: each element becomes a record"),
    **dict.fromkeys(("col", "column"), _PLAIN),
    **dict.fromkeys(("ascii", "chr", "char", "ord", "soundex", "levenshtein"), "there is none in CXL"),
    "lit": "a constant is written as it is, without a function",
    "convert": _CONVERT,
    "iferror": "`.try_int()`, `.try_float()` and `.try_date()` give null for what does not convert: `… ?? $2:other`",
    "date_trunc": "write `$2:value.truncate_to($1)`",
    "sumproduct": "write `sum($1:a * $2:b)` in an aggregate node",
    "concatenate": "write `$1 + $2:other`",
    "substitute": "write `$1.replace($2:old, $3:new)`",
    "text": 'write `$1.format("0.00")`',
    "value": "write `$1.to_float()`",
    "number": "write `$1.to_float()`",
    "split_part": "write `$1.split($2:delimiter)[0]`: the first part has place 0",
    "nvl2": "write `if $1.is_null() then $3:other else $2:value`",
    "quarter": "write `(($1.month() + 2) / 3).floor()`",
    "age": "write `now.to_date().diff_years($1)`",
    "exists": "write `not $1.is_null()`",
    "and": "write `condition and condition`",
    "or": "write `condition or condition`",
    "not": "write `not condition`",
    "xor": "write `$1:condition != $2:condition`, with parentheses around each",
}
_ARGUMENT = re.compile(r"\$(\d)(?::(\w+))?")


def method(name: str) -> str | None:
    """The CXL form of another language's method, ignoring case."""
    return METHODS.get(name) or METHODS.get(name.lower())


def as_method(name: str, shown: str) -> str | None:
    """A hint for another language's function that is a method in CXL."""
    written = method(name)
    if written is None or written.startswith("the "):
        return written and f"use {written}"
    return f"write `{shown if written[0] in '.[' else ''}{written.replace('value', shown)}`"


def call(node: ast.FunctionCall) -> str | None:
    """A hint for a call of another language's function, with its arguments. Case is ignored."""
    said = _CALLS.get(node.name.lower())
    return said and _ARGUMENT.sub(lambda found: _shown(node, int(found[1]) - 1, found[2] or "value"), said)


def of_two(node: ast.FunctionCall) -> str | None:
    """A hint for `max(a, b)`: the larger of two values is found by a method."""
    if node.name not in ("min", "max") or len(node.arguments) != 2:
        return None
    return f"of two values it is a method: write `{_shown(node, 0, 'value')}.{node.name}({_shown(node, 1, 'other')})`"


def _shown(node: ast.FunctionCall, place: int, other: str) -> str:
    argument = node.arguments[place] if place < len(node.arguments) else None
    match argument:
        case ast.Name(name=name):
            return name
        case ast.Literal(text=text):
            return text
        case _:
            return other
