r"""Methods with regular expressions: RE2's dialect, in which `\w \d \s \b` are ASCII."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any

from spark_jobs.cxl import failure, patterns, types
from spark_jobs.cxl.builtins import array_kernels as arrays
from spark_jobs.cxl.builtins.declare import BY_VALUE, Bool, Int, String, method
from spark_jobs.cxl.builtins.string import LIMIT_BYTES

#: A regular expression; a literal is checked when the program is compiled.
Pattern = Annotated[str, types.STRING, patterns.complaint]


@method(
    arrow=lambda pc, text, pattern: pc.match_substring_regex(text, pattern=rf"\A(?:{arrays.constant(pattern)})\z"),
    fails=True,
)
def matches(text: String, pattern: Pattern) -> Bool:
    """Whether the whole text matches the pattern.

    >>> "abc123".matches("^[a-z]+[0-9]+$")
    true
    >>> "abc123".matches("[a-z]+")
    false
    """
    return patterns.compiled(pattern).fullmatch(text) is not None


@method(arrow=lambda pc, text, pattern: pc.match_substring_regex(text, pattern=arrays.constant(pattern)), fails=True)
def find(text: String, pattern: Pattern) -> Bool:
    """Whether some part of the text matches the pattern.

    >>> "hello world 42".find("[0-9]+")
    true
    """
    return patterns.compiled(pattern).search(text) is not None


def _capture(pc: Any, text: Any, pattern: Any, group: Any) -> Any:
    expression, number = arrays.constant(pattern), arrays.constant(group)
    named = patterns.with_named_group(expression, max(number or 0, 0)) if expression is not None else None
    if named is None:
        return arrays.by_value(lambda value: capture(value, expression, number), text, types.STRING)
    found = pc.struct_field(pc.extract_regex(text, pattern=named), 0)
    # Arrow gives an empty text for a group that took no part in the match, as for one that matched nothing.
    empty = pc.fill_null(pc.equal(pc.binary_length(found), 0), False)
    if not pc.any(empty, min_count=0).as_py():
        return found
    exact = arrays.by_value(lambda value: capture(value, expression, number), text.filter(empty), types.STRING)[0]
    return pc.replace_with_mask(found, empty, exact)


@method(arrow=_capture, nulls="receiver", fails=True, result=lambda arguments: types.STRING.or_null())
def capture(text: String, pattern: Pattern, group: Int = 0) -> String:
    """The text of a group in the first match; group 0 is the whole match.

    Null without a match, for a group that took no part and for one that does not exist; a negative or null group is 0.

    >>> "order-12345".capture("order-([0-9]+)", 1)
    "12345"
    """
    if pattern is None:
        return None
    found = patterns.compiled(pattern).search(text)
    number = max(group or 0, 0)
    if found is None or number > found.re.groups:
        return None  # type: ignore[return-value]
    return found.group(number)  # type: ignore[no-any-return]


#: A reference to a group, or a backslash, in a replacement.
_REFERENCE = re.compile(r"\\(?:([0-9])|(\\))")


def _replacement_complaint(text: str) -> str | None:
    """The mistake in the text that replaces matches; None if it is well formed."""
    if "\\" in _REFERENCE.sub("", text):
        return r"a backslash stands before the number of a group (`\1`) or another backslash"
    return None


#: The text that replaces a match; a literal is checked when the program is compiled.
Replacement = Annotated[str, types.STRING, _replacement_complaint]


@method(arrow=BY_VALUE, fails=True)
def regex_replace(text: String, pattern: Pattern, replacement: Replacement) -> String:
    r"""The text with every match of the pattern replaced; ours.

    `\1` to `\9` in the replacement stand for the groups of the match, `\0` for all of it, and `\\` for a backslash.
    A group that took no part is empty.

    >>> "tel. 030 / 12 34".regex_replace("[^0-9]+", "")
    "0301234"
    >>> "2024-03-15".regex_replace("([0-9]+)-([0-9]+)-([0-9]+)", "\\3.\\2.\\1")
    "15.03.2024"
    """
    if _replacement_complaint(replacement) is not None:
        raise failure.Failure(f"invalid replacement: {_replacement_complaint(replacement)}", value=replacement)
    expression = patterns.compiled(pattern)
    wanted = [int(number) for number, _ in _REFERENCE.findall(replacement) if number]
    if wanted and max(wanted) > expression.groups:
        raise failure.Failure(f"the pattern has no group {max(wanted)}", value=pattern)
    pieces, at = [], 0
    for found in expression.finditer(text):
        pieces.append(text[at : found.start()])
        pieces.append(_REFERENCE.sub(partial(_referred, found), replacement))
        at = found.end()
    made = "".join((*pieces, text[at:]))
    if (size := len(made.encode("utf-8", "surrogatepass"))) > LIMIT_BYTES:
        raise failure.text_too_large(size, LIMIT_BYTES)
    return made


def _referred(found: Any, sign: re.Match[str]) -> str:
    """The text that a reference in a replacement stands for."""
    return "\\" if sign[2] else found.group(int(sign[1])) or ""
