"""Explains why a text does not parse, with a hint for the usual mistakes.

Each function gives a message, a place and help (or None).
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lark import Token

    from spark_jobs.cxl.syntax.ast import Place

Mistake = tuple[str, "Place", str | None]


def terminals(names: str) -> frozenset[str]:
    """A set of the grammar's terminals."""
    return frozenset(names.split())


_RESERVED = terminals(
    "LET EMIT FILTER DISTINCT TRACE USE FN _BY AS IF _THEN _ELSE MATCH AND OR NOT TRUE FALSE NULL NOW"
)
#: Tokens that may end an operand. Only a previous comparison can make another one an error there.
_OPERAND_ENDS = terminals(
    "NAME QUOTED MEMBER INT FLOAT DECIMAL STRING DATE TRUE FALSE NULL NOW IT OUTER RPAR RSQB RBRACE"
)
DATE_HELP = "write dates as #YYYY-MM-DD#; a comment that starts with a digit needs a space after `#`"
_CLOSURE = "a closure is written `it => …`; its parameter is always `it`, and it can only be an argument of a method"
_CHOICE = "a choice is written `if … then … else …` or `match { condition => value, _ => default }`"
_QUOTES = 'write texts in straight quotes: "…"'
#: The probable meaning of a character that begins no token.
_CHARACTERS = {
    "&": "boolean logic is written in words: use `and`; texts are joined with `+`",
    "|": "boolean logic is written in words: use `or`; texts are joined with `+`",
    "!": "boolean logic is written in words: use `not` (`!=` is written without a space)",
    ";": "statements need no separator: leave the `;` out or start a new line",
    "?": "a default is written `value ?? default`, a choice `if … then … else …`",
    "@": "there is no `@` in CXL",
    "^": "there is no `^` in CXL; multiply instead",
    "~": 'there is no `~` in CXL; use `.matches("…")` for patterns',
    "\\": "lines go on by themselves after an operator or inside parentheses; leave the `\\` out",
    **dict.fromkeys(
        "\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}\N{DOUBLE LOW-9 QUOTATION MARK}", _QUOTES
    ),
    **dict.fromkeys(
        "\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}\N{SINGLE LOW-9 QUOTATION MARK}", _QUOTES
    ),
    **dict.fromkeys(
        "\N{LEFT-POINTING DOUBLE ANGLE QUOTATION MARK}\N{RIGHT-POINTING DOUBLE ANGLE QUOTATION MARK}", _QUOTES
    ),
    **dict.fromkeys(
        "\N{EN DASH}\N{EM DASH}\N{MINUS SIGN}\N{NON-BREAKING HYPHEN}", "write the minus of the keyboard, `-`"
    ),
    **dict.fromkeys("\N{MULTIPLICATION SIGN}\N{MIDDLE DOT}", "write `*`"),
    "\N{DIVISION SIGN}": "write `/`",
    "\N{GREATER-THAN OR EQUAL TO}": "write `>=`",
    "\N{LESS-THAN OR EQUAL TO}": "write `<=`",
    "\N{NOT EQUAL TO}": "write `!=`",
    "\N{HORIZONTAL ELLIPSIS}": "write out what the dots stand for",
}
_LABELS = {
    "_ASSIGN": "'='",
    "_THEN": "'then'",
    "_ARROW": "'=>'",
    "_LBRACE": "'{'",
    "_IN": "'in' between binding and source",
    "LPAR": "'('",
    "_DOT": "'.'",
    "MEMBER": "a name",
    "NAME": "a name",
    "_COLON": "':'",
}
#: The kind of name expected after a word.
_NAMES = {
    "LET": "variable name",
    "EMIT": "output field name",
    "META": "metadata key",
    "_DOT": "field or method name",
    "_COLONCOLON": "module member",
    "_BY": "field name",
    "USE": "module path",
    "AS": "alias name",
    "FN": "function name",
    "DOLLAR": "system namespace",
    "_EACH": "emit_each binding name",
}


def bad_characters(text: str, position: int, inside: str) -> tuple[int, Mistake]:
    """A character that begins no token: where lexing goes on, and the mistake; `inside` is the innermost bracket."""
    character = text[position]
    if character in "\"'":
        end = _line_end(text, position)
        return end, ("unterminated string", (position, end), f"close the string with {character} on the same line")
    if character == "`":
        end = _line_end(text, position)
        return end, ("unterminated quoted name", (position, end), "close the name with ` on the same line")
    if character == "#":
        end = _line_end(text, position)
        return end, ("unterminated date literal", (position, end), DATE_HELP)
    end = position + 1
    while end < len(text) and text[end] == character:
        end += 1
    shown = text[position:end] if character.isprintable() else f"U+{ord(character):04X}"
    help_text = _CHARACTERS.get(character) or _unseen(character)
    if character == ":":
        help_text = _colon(text, position, inside)
    if help_text is None and character.isidentifier():
        help_text = "write names with characters other than A to Z, digits and `_` in backticks, and text in quotes"
    return end, (f"unexpected character '{shown[:20]}'", (position, end), help_text)


def _unseen(character: str) -> str | None:
    """A message about a character that looks like a blank or is invisible."""
    if character.isprintable():
        return None
    name = unicodedata.name(character, "").lower()
    article = "an" if name[:1] in "aeiou" else "a"
    is_blank = unicodedata.category(character) == "Zs"
    what = f"this is {article} {name}" if name else "this is a control character"
    return f"{what}; use an ordinary space" if is_blank else f"{what}, which nobody sees; delete it"


def _colon(text: str, position: int, inside: str) -> str:
    if text[position + 1 : position + 2] == "=":
        return "write `=`"
    if inside == "_LSQB":
        return "parts are cut out with `.substring(start, length)`"
    if inside in ("_LBRACE", "MAP_OPEN"):
        return "the arms of a match are written `pattern => value`"
    if re.search(r"\blambda\b", text[max(0, position - 100) : position]):
        return _CLOSURE
    return "a choice is written `if … then … else …`; members of modules are written `alias::name`"


def unexpected(
    text: str, token: Token, previous: Token | None, accepted: set[str], brackets: Sequence[Token]
) -> Mistake:
    """The problem for a token that is not allowed at its place.

    Args:
        text: the program.
        token: the token.
        previous: the token before it.
        accepted: the terminals that could stand here.
        brackets: the brackets that are open.
    """
    place = _place(text, token)
    found = _found(token)
    special = _special(text, token, previous, accepted)
    if special:
        return special[0], place, special[1]
    expected = _expected(previous, accepted, brackets)
    if expected is None:
        return f"unexpected {found}", place, _hint(text, token, previous)
    if expected == "expression" and previous is not None and previous.type == "FILTER":
        return "filter requires a predicate expression", place, "write the condition after `filter`"
    return f"expected {expected}, found {found}", place, _hint(text, token, previous)


def _before(text: str, token: Token) -> str:
    """The text before a token, as far as it may show a habit."""
    end = token.start_pos or 0
    return text[max(0, end - 500) : end]


def _line_end(text: str, position: int) -> int:
    found = re.compile(r"[\r\n]").search(text, position)
    return found.start() if found else len(text)


def _place(text: str, token: Token) -> Place:
    start = token.start_pos or 0
    if token.type == "$END":
        start = len(text.rstrip())
        return start, start
    if token.type in ("_NL", "LINE_END"):
        return start, start
    return start, token.end_pos or start


def _found(token: Token) -> str:
    if token.type == "$END":
        return "the end of the program"
    if token.type in ("_NL", "LINE_END"):
        return "the end of the line"
    shown = str(token) if len(token) <= 30 else f"{token[:27]}…"
    return f"reserved word '{shown}'" if token.type in _RESERVED else f"'{shown}'"


def _expected(previous: Token | None, accepted: set[str], brackets: Sequence[Token]) -> str | None:
    if "INT" in accepted and "PLUS" not in accepted and "FILTER" not in accepted:
        return "expression"
    before = previous.type if previous is not None else ""
    if accepted & {"NAME", "MEMBER"} and "PLUS" not in accepted and "FILTER" not in accepted:
        return f"{_NAMES.get(before, 'a name')} (identifier)"
    for terminal in ("_THEN", "_ARROW", "_IN", "_LBRACE", "_ASSIGN"):
        if terminal in accepted:
            return _LABELS[terminal]
    if "_COMMA" in accepted and "RPAR" in accepted:
        return "',' or ')'"
    for terminal, shown in (("RPAR", "')'"), ("RSQB", "']'"), ("RBRACE", "'}'")):
        if terminal in accepted and brackets:
            return shown
    if accepted <= {"LPAR", "_DOT"} and accepted:
        return " or ".join(sorted(_LABELS[name] for name in accepted))
    return None


def _special(text: str, token: Token, previous: Token | None, accepted: set[str]) -> tuple[str, str | None] | None:
    """Mistakes that have a message of their own."""
    before = previous.type if previous is not None else ""
    if token.type == "COMPARE" and before in _OPERAND_ENDS:
        return "comparisons are not chainable", "join them with `and`, or put one of them in parentheses"
    if before == "_BY":
        return "distinct by requires a field name", "write `distinct by field`"
    on_use = bool(re.search(r"(^|\n)[ \t]*use[ \t][^\n]*$", _before(text, token)))
    if on_use and token.type == "_COLONCOLON":
        return "use paths use '.' separator, not '::'", "write `use shared.dates`; `::` reads a module's members"
    if on_use and token.type == "STAR":
        return "wildcard imports not supported", "import each module by its name"
    return None


def _hint(text: str, token: Token, previous: Token | None) -> str | None:
    """A hint for an unexpected token if the mistake is a common one."""
    before = previous.type if previous is not None else ""
    hint = _HINTS.get((before, token.type)) or _HINTS.get(("", token.type))
    if hint is not None:
        return hint
    left = _before(text, token)
    for pattern, kinds, found in _HABITS:
        if token.type in kinds and re.search(pattern, left):
            return found
    if token.type == "_ASSIGN":
        return _about_equals(left)
    if token.type in _RESERVED and before in _NAMES:
        return f"`{token}` is a reserved word; choose another name"
    if token.type in _STATEMENTS and before not in _OPERAND_ENDS:
        return f"`{token}` begins a statement, which cannot stand inside an expression"
    if token.type in ("_NL", "$END") and before in _INFIX:
        return "the operator lacks its right side"
    return None


def _about_equals(left: str) -> str:
    start = re.search(r"(^|\n)[ \t]*([A-Za-z_]\w*)[ \t]*$", left)
    if start and start[2] not in ("let", "emit"):
        return f"write `let {start[2]} = …` for a local value or `emit {start[2]} = …` for an output field"
    return "`=` only follows a name in `let` and `emit`; compare with `==`"


_STATEMENTS = terminals("LET EMIT FILTER DISTINCT TRACE USE FN")
_INFIX = terminals("COMPARE PLUS MINUS STAR SLASH PERCENT COALESCE AND OR")
_BRACES = "check for missing operand or extra closing brace"
#: Hints by the token before and the token; "" stands for any token before.
_HINTS = {
    ("COMPARE", "_ASSIGN"): "compare with `==`",
    ("_ASSIGN", "_ASSIGN"): "a value is given with one `=`",
    ("COMPARE", "COMPARE"): "a comparison has two values: write `==` for equal, `!=` for unequal",
    ("PLUS", "PLUS"): "there is no `++`; add 1",
    ("", "_ARROW"): _CLOSURE,
    ("_ASSIGN", "_NL"): "the value is missing",
    ("_ARROW", "_LBRACE"): "`=>` is followed by an expression, without braces",
    ("DOLLAR", "_LBRACE"): "a field is read by its name alone; system values are written `$pipeline.name`",
    ("MINUS", "COMPARE"): "the arms of a match are written `pattern => value`",
    ("STAR", "STAR"): "there is no power operator; multiply instead",
    ("SLASH", "SLASH"): "a comment starts with `#`",
    ("TRACE", "TRACE"): "the levels are debug, info, warn and error; trace is the default and is not written",
    ("EMIT", "STAR"): "records keep their columns, and `emit` adds some; `columns:` of an output chooses",
    **dict.fromkeys(
        (("PERCENT", "_NL"), ("PERCENT", "$END"), ("PERCENT", "RPAR")),
        "`%` is the remainder of a division; for 20 per cent write `0.2`",
    ),
    ("IF", "_THEN"): "the condition is missing",
    ("", "RBRACE"): _BRACES,
    ("", "RSQB"): _BRACES,
    ("EMIT", "STRING"): "output field names are written without quotes, names with blanks and the like in backticks",
}
#: Habits from other languages: what stands before the token, the tokens it shows at, and the hint.
_HABITS = (
    (r"\bemit\s+each\s+outer\s+$", ("NAME",), "`outer` follows the array: `emit each x in xs outer { … }`"),
    (r"\bemit\s+each\s+\w+\s+in\s+outer\s+$", ("NAME",), "`outer` follows the array: `emit each x in xs outer { … }`"),
    (r"\bnow\s*\($", ("RPAR",), "`now` is a word, not a function: leave the parentheses out"),
    (r"(?:^|[=(,\s])$", ("_DOT",), "a fraction begins with a digit: write `0.5`"),
    (r"\d\.$", ("_NL", "$END", "RPAR", "_COMMA"), "a fraction has digits after its dot: write `1.0`"),
    (r"\(\s*$", ("RPAR",), "the parentheses are empty"),
    (r"", ("RPAR",), _BRACES),
    (r"\b(elif|elsif|elseif)\b", ("_THEN", "_ELSE"), "write `else if`"),
    (r"\b(case|when)\b", ("_THEN", "_ELSE"), _CHOICE),
    (r"\bswitch\b", ("_LBRACE",), _CHOICE),
    (r"\bif\b[^\n]*$", ("_LBRACE",), _CHOICE),
    (r"", ("_LBRACE",), "a map is written `{name: value}`; other braces belong to `match` and `emit each`"),
    (
        r"",
        ("_LSQB",),
        "there are no array literals: write `{a: x, b: y}.values()`; `[ ]` reads an element of the value before it",
    ),
    (r"\blambda\b[^\n]*$", ("NAME",), _CLOSURE),
    (r"\bin\s*\([^()\n]*$", ("_COMMA",), "compare with each value, joined by `or`, or use `match`"),
    (
        r"\bdistinct\s+by\b[^\n]*$",
        ("_COMMA",),
        "`distinct by` takes one field; for several, emit them and write `distinct`",
    ),
    (r"\d$", ("_COMMA",), "a number's fraction follows a dot; statements need no comma"),
    (r"(?:^|\n)\s*emit\s[^\n]*$", ("_COMMA",), "statements need no comma: write an `emit` for each field"),
    (r"", ("_COMMA",), "statements need no comma"),
    (
        r"\b(let|emit)\s+\w+$",
        ("MINUS", "_DOT"),
        "write names with characters other than letters, digits and `_` in backticks",
    ),
    (r"\b(let|emit)\s+\w+\s+$", ("NAME",), "write a name with blanks in backticks"),
    (r"(^|\n)\s*$", ("SLASH",), "a comment starts with `#`"),
    (r"\(.*\S\s+$", ("STRING", "NAME", "INT", "FLOAT", "DECIMAL", "DATE"), "arguments are separated by commas"),
)
