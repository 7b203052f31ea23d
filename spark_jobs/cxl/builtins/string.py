"""String methods. Characters are Unicode scalar values everywhere."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from spark_jobs.cxl import failure, types, values
from spark_jobs.cxl.builtins import array_kernels as arrays
from spark_jobs.cxl.builtins import conversion_kernels as kernels
from spark_jobs.cxl.builtins.declare import BY_VALUE, Anything, Array, Bool, Int, NoKernel, String, method

#: Unicode's White_Space property; Python's `strip()` would take the separators U+001C to U+001F as well.
WHITE_SPACE = "".join(
    map(chr, [*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000])
)
#: The largest text, in bytes, that `repeat` and the padding methods make.
LIMIT_BYTES = 10_485_760
#: A word, apostrophes within it included.
_WORD = re.compile(r"[^\W_](?:['’]?[^\W_])*")


def _cased(ascii_kernel: str, body: Any) -> Any:
    """A kernel for the ASCII rows; the others get Unicode's full mapping, which Arrow does not have (`ß` is `SS`)."""

    def kernel(pc: Any, text: Any) -> Any:
        plain = getattr(pc, ascii_kernel)
        is_ascii = pc.string_is_ascii(text)
        if pc.all(is_ascii, min_count=0).as_py():
            return plain(text)
        other = pc.invert(is_ascii).fill_null(False)
        return arrays.where(other, lambda some: arrays.by_value(body, some, types.STRING)[0], text, plain(text))

    return kernel


@method(arrow=_cased("ascii_upper", str.upper))
def upper(text: String) -> String:
    """The text in upper case, by Unicode's full mapping.

    >>> "hello world".upper()
    "HELLO WORLD"
    >>> "straße".upper()
    "STRASSE"
    """
    return text.upper()


@method(arrow=_cased("ascii_lower", str.lower))
def lower(text: String) -> String:
    """The text in lower case, by Unicode's full mapping.

    >>> "Hello World".lower()
    "hello world"
    """
    return text.lower()


@method(arrow=lambda pc, text: pc.utf8_trim(text, characters=WHITE_SPACE))
def trim(text: String) -> String:
    r"""The text without white space at both ends.

    >>> "\t hello  ".trim()
    "hello"
    """
    return text.strip(WHITE_SPACE)


@method(arrow=lambda pc, text: pc.utf8_ltrim(text, characters=WHITE_SPACE))
def trim_start(text: String) -> String:
    """The text without white space at its start.

    >>> "  hello  ".trim_start()
    "hello  "
    """
    return text.lstrip(WHITE_SPACE)


@method(arrow=lambda pc, text: pc.utf8_rtrim(text, characters=WHITE_SPACE))
def trim_end(text: String) -> String:
    """The text without white space at its end.

    >>> "  hello  ".trim_end()
    "  hello"
    """
    return text.rstrip(WHITE_SPACE)


@method(arrow=lambda pc, text: pc.utf8_reverse(text))
def reverse(text: String) -> String:
    """The characters in reverse order.

    >>> "hello".reverse()
    "olleh"
    """
    return text[::-1]


@method(name="length", arrow=lambda pc, text: pc.cast(pc.utf8_length(text), "int64"))
def string_length(text: String) -> Int:
    """The number of characters.

    >>> "naïve".length()
    5
    """
    return len(text)


@method(arrow=lambda pc, text, prefix: pc.starts_with(text, pattern=arrays.constant(prefix)))
def starts_with(text: String, prefix: String) -> Bool:
    """Whether the text begins with `prefix`.

    >>> "hello world".starts_with("hello")
    true
    """
    return text.startswith(prefix)


@method(arrow=lambda pc, text, suffix: pc.ends_with(text, pattern=arrays.constant(suffix)))
def ends_with(text: String, suffix: String) -> Bool:
    """Whether the text ends with `suffix`.

    >>> "report.csv".ends_with(".csv")
    true
    """
    return text.endswith(suffix)


@method(arrow=lambda pc, text, part: pc.match_substring(text, pattern=arrays.constant(part)))
def contains(text: String, part: String) -> Bool:
    """Whether the text contains `part`.

    >>> "hello world".contains("lo wo")
    true
    """
    return part in text


def _replace(pc: Any, text: Any, old: Any, new: Any) -> Any:
    pattern = arrays.constant(old)
    if pattern == "":
        raise NoKernel
    return pc.replace_substring(text, pattern=pattern, replacement=arrays.constant(new))


@method(arrow=_replace)
def replace(text: String, old: String, new: String) -> String:
    """The text with every `old` replaced by `new`, literally.

    An empty `old` matches between all characters and at both ends.

    >>> "foo-bar-baz".replace("-", "_")
    "foo_bar_baz"
    """
    return text.replace(old, new)


def _substring(pc: Any, text: Any, start: Any, length: Any) -> Any:
    first = max(arrays.constant(start) or 0, 0)
    count = arrays.constant(length)
    if count is None or count < 0:
        return pc.utf8_slice_codeunits(text, start=first)
    return pc.utf8_slice_codeunits(text, start=first, stop=min(first + count, 2**62))


@method(arrow=_substring, nulls="receiver")
def substring(text: String, start: Int, length: Int = None) -> String:  # type: ignore[assignment]
    """The characters from `start` (0-based) on, at most `length` of them.

    A negative or null start is 0; a negative, null or missing length means the rest.

    >>> "hello world".substring(6)
    "world"
    >>> "hello world".substring(0, 5)
    "hello"
    >>> "hello".substring(-2, 2)
    "he"
    """
    first = max(start or 0, 0)
    return text[first:] if length is None or length < 0 else text[first : first + length]


def _left(pc: Any, text: Any, count: Any) -> Any:
    size = arrays.constant(count)
    return (
        arrays.filled(len(text), None, types.STRING) if size < 0 else pc.utf8_slice_codeunits(text, start=0, stop=size)
    )


@method(arrow=_left, result=lambda arguments: types.STRING.or_null())
def left(text: String, count: Int) -> String:
    """The first `count` characters, the whole text when there are fewer, null when `count` is negative.

    >>> "hello world".left(5)
    "hello"
    >>> "hello".left(-1)
    null
    """
    return text[:count] if count >= 0 else None  # type: ignore[return-value]


def _right(pc: Any, text: Any, count: Any) -> Any:
    size = arrays.constant(count)
    if size < 0:
        return arrays.filled(len(text), None, types.STRING)
    if size == 0:
        return pc.utf8_slice_codeunits(text, start=0, stop=0)
    return pc.utf8_slice_codeunits(text, start=-min(size, 2**62))


@method(arrow=_right, result=lambda arguments: types.STRING.or_null())
def right(text: String, count: Int) -> String:
    """The last `count` characters, the whole text when there are fewer, null when `count` is negative.

    >>> "hello world".right(5)
    "world"
    """
    if count < 0:
        return None  # type: ignore[return-value]
    return text[-count:] if count else ""


def _check_size(size: int) -> None:
    if size > LIMIT_BYTES:
        raise failure.text_too_large(size, LIMIT_BYTES)


def _repeat(pc: Any, text: Any, count: Any) -> Any:
    times = arrays.constant(count)
    if times < 0:
        return arrays.filled(len(text), None, types.STRING)
    longest = pc.max(pc.binary_length(text)).as_py() or 0
    if longest * times > LIMIT_BYTES:
        raise NoKernel
    return pc.binary_repeat(text, times)


@method(arrow=_repeat, fails=True, result=lambda arguments: types.STRING.or_null())
def repeat(text: String, count: Int) -> String:
    """The text `count` times; null when `count` is negative. More than 10 MiB is an error.

    >>> "ab".repeat(3)
    "ababab"
    """
    if count < 0:
        return None  # type: ignore[return-value]
    _check_size(len(text.encode("utf-8", "surrogatepass")) * count)
    return text * count


def _padding(kernel: str) -> Any:
    def pad(pc: Any, text: Any, width: Any, fill: Any) -> Any:
        size, character = arrays.constant(width), (arrays.constant(fill) or " ")[0]
        if size is None or size < 0:
            return arrays.filled(len(text), None, types.STRING)
        if size * 5 > LIMIT_BYTES:
            raise NoKernel
        return getattr(pc, kernel)(text, width=size, padding=character)

    return pad


def _padding_of(text: str, width: int | None, fill: str | None) -> str | None:
    if width is None or width < 0:
        return None
    missing = width - len(text)
    if missing <= 0:
        return ""
    _check_size(missing + len(text.encode("utf-8", "surrogatepass")))
    return (fill or " ")[0] * missing


@method(arrow=_padding("utf8_lpad"), nulls="receiver", fails=True, result=lambda arguments: types.STRING.or_null())
def pad_left(text: String, width: Int, fill: String = " ") -> String:
    """The text, filled up at its start to `width` characters with the first character of `fill`.

    Null when the width is negative or null; a null or empty `fill` is a space. More than 10 MiB is an error.

    >>> "42".pad_left(5, "0")
    "00042"
    >>> "hi".pad_left(6)
    "    hi"
    """
    padding = _padding_of(text, width, fill)
    return None if padding is None else padding + text  # type: ignore[return-value]


@method(arrow=_padding("utf8_rpad"), nulls="receiver", fails=True, result=lambda arguments: types.STRING.or_null())
def pad_right(text: String, width: Int, fill: String = " ") -> String:
    """The text, filled up at its end to `width` characters with the first character of `fill`.

    >>> "hi".pad_right(6, ".")
    "hi...."
    """
    padding = _padding_of(text, width, fill)
    return None if padding is None else text + padding  # type: ignore[return-value]


def _split(pc: Any, text: Any, delimiter: Any) -> Any:
    pattern = arrays.constant(delimiter)
    if pattern == "":
        raise NoKernel
    return pc.split_pattern(text, pattern=pattern)


@method(arrow=_split, result=lambda arguments: types.array_of(types.STRING))
def split(text: String, delimiter: String) -> Array:
    """The parts of the text between delimiters.

    An empty delimiter matches between all characters and at both ends.

    >>> "a,,b".split(",")
    ["a","","b"]
    """
    return text.split(delimiter) if delimiter else ["", *text, ""]


def _concat(pc: Any, text: Any, *others: Any) -> Any:
    parts = [kernels.to_string(pc, other) for other in others if not (arrays.is_constant(other) and not other.is_valid)]
    parts = [part if arrays.is_constant(part) else pc.fill_null(part, "") for part in parts]
    return pc.binary_join_element_wise(text, *parts, "")


@method(arrow=_concat, nulls="receiver")
def concat(text: String, *others: Anything) -> String:
    """The text with the others' texts appended; null arguments are left out.

    >>> "hello".concat(" ", "world")
    "hello world"
    >>> "v".concat(2.5, null, true)
    "v2.5true"
    """
    return text + "".join(map(values.text_of, others))


@method(arrow=BY_VALUE)
def sha256(text: String) -> String:
    """The SHA-256 digest of the text in UTF-8, as 64 hexadecimal digits: a key made of others. Ours.

    >>> "Ada".sha256().left(12)
    "99a563ab2f6e"
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@method(arrow=BY_VALUE)
def md5(text: String) -> String:
    """The MD5 digest of the text in UTF-8, as 32 hexadecimal digits; it protects nothing. Ours.

    >>> "Ada".md5().left(12)
    "1a382809b7c0"
    """
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


@method(arrow=BY_VALUE)
def title_case(text: String) -> String:
    """The text with the first letter of each word as a capital and all others small; ours.

    Words are letters and digits without anything between them, apostrophes included.

    >>> "ADA o'neil-KING".title_case()
    "Ada O'neil-King"
    """
    return _WORD.sub(lambda word: word[0][0].title() + word[0][1:].lower(), text)
