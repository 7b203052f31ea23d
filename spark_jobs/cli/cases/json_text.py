"""Values of cases as JSON in which numbers keep the digits that the case has."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

from spark_jobs.cxl import values
from spark_jobs.plan.reading import scalars

#: A Float as YAML spells it: sign, digits before and after the point, exponent.
_SPELLED = re.compile(r"([-+]?)0*([0-9]*)\.?([0-9]*)((?:[eE][-+]?[0-9]+)?)")


def json_text(value: Any) -> str:
    """A value of a case, or of a record, as JSON on one line.

    >>> json_text({"total": Decimal("12.50"), "tags": ["a", None]})
    '{"total": 12.50, "tags": ["a", null]}'
    """
    match value:
        case dict():
            return "{" + ", ".join(f"{json_text(str(key))}: {json_text(each)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(json_text, value)) + "]"
        case Decimal():
            return values.decimal_text(value)
        case scalars.WrittenFloat():
            return spelled(value)
        case _:
            return json.dumps(value, ensure_ascii=False)


def spelled(number: scalars.WrittenFloat) -> str:
    """A number of a case as JSON spells it, with all its digits: `12.50` stays, `.5` is 0.5."""
    found = _SPELLED.fullmatch(number.text)
    if found is None:  # not a number, or an infinity
        return json.dumps(float(number))
    sign, whole, fraction, exponent = found.groups()
    point = f".{fraction}" if fraction else "" if exponent else ".0"
    return f"{sign.strip('+')}{whole or '0'}{point}{exponent}"
