"""Objects that a pattern of URIs matches, listed in pages and by several threads.

A pattern has the meaning that it has for paths: `*`, `?` and `[ab]` stay within a component of the key, `**` crosses
components. The bucket has no patterns. The listing is limited to the prefix of the pattern before its first sign.
"""

from __future__ import annotations

import fnmatch
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from spark_jobs.stores import location as locations
from spark_jobs.stores import opening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from spark_jobs.stores.location import Location
    from spark_jobs.stores.objects import Object, Page, Store
    from spark_jobs.stores.settings import StoreSettings

_Given = TypeVar("_Given")
_Found = TypeVar("_Found")

_THREADS = 16
_SIGNS = re.compile(r"[*?[]")
#: The literal beginning of a regular expression; an escaped character stands for itself.
_LITERAL = re.compile(r"(?:[^\\.^$*+?()\[\]{}|]|\\[^A-Za-z0-9])*")
#: A quantifier changes the character before it.
_QUANTIFIERS = "*?{"


def named(uri: str, stores: StoreSettings) -> Object | None:
    """The object at a URI; None where there is none.

    Raises:
        BadLocation: the URI leads nowhere.
        StoreError: its store refuses.
    """
    place = locations.parse(uri)
    store = opening.store(place.scheme, stores)
    found = store.describe(place)
    if found is None:
        # A list request shows whether the bucket exists and may be listed.
        next(iter(store.pages(place, deep=False)), None)
    return found


def matching(pattern: str, stores: StoreSettings) -> Iterator[Object]:
    """The objects that a pattern matches, each once.

    Raises:
        BadLocation: the pattern leads nowhere.
        StoreError: the store refuses.
    """
    place = locations.parse(pattern)
    return _matching(place.at(""), place.key.split("/"), stores)


def matching_below(folder: Location, pattern: str, stores: StoreSettings) -> Iterator[Object]:
    """The objects that a relative pattern matches below a folder, whose own name has no signs.

    Raises:
        StoreError: the store refuses.
    """
    return _matching(folder, [part for part in pattern.split("/") if part not in ("", ".")], stores)


def searched_below(folder: Location, pattern: Any, stores: StoreSettings, *, deep: bool) -> Iterator[Object]:
    """The objects below a folder in whose names from there on a compiled regular expression finds something.

    Raises:
        StoreError: the store refuses.
    """
    place = folder.at(_start(folder))
    pages = _listed(opening.store(place.scheme, stores), place, deep=deep)
    return (each for page in pages for each in page.objects if pattern.search(each.location.key[len(place.key) :]))


def _start(folder: Location) -> str:
    """Give the prefix of all keys in a folder."""
    return f"{folder.key.rstrip('/')}/" if folder.key else ""


def _matching(place: Location, parts: list[str], stores: StoreSettings) -> Iterator[Object]:
    if not parts:
        return iter(())
    literal = next((number for number, part in enumerate(parts) if _SIGNS.search(part)), len(parts) - 1)
    folder = _start(place) + "".join(f"{part}/" for part in parts[:literal])
    return _descended(opening.store(place.scheme, stores), place, [folder], parts[literal:])


def searched(regex: str, pattern: Any, stores: StoreSettings, *, deep: bool) -> Iterator[Object]:
    """The objects in whose URIs a regular expression finds something, listed from its literal beginning.

    Args:
        regex: it begins with a scheme and a bucket.
        pattern: the same, compiled.
        stores: how stores are reached.
        deep: whether keys may go on after the next slash.

    Raises:
        BadLocation: its beginning leads nowhere.
        StoreError: the store refuses.
    """
    text = regex.removeprefix("^")
    scheme, _, rest = text.partition("://")
    bucket, _, key = rest.partition("/")
    bucket = bucket.replace("\\", "")
    found = _LITERAL.match(key)
    literal = found.group() if found else ""
    follower = key[len(literal) : len(literal) + 1]
    if literal and follower and follower in _QUANTIFIERS:
        literal = literal[:-2] if literal[-2:-1] == "\\" else literal[:-1]
    prefix = "" if "|" in key else re.sub(r"\\(.)", r"\1", literal)
    place = locations.parse(f"{scheme}://{bucket}/{prefix}")
    written = f"{scheme}://{bucket}/"
    pages = _listed(opening.store(place.scheme, stores), place, deep=deep)
    return (each for page in pages for each in page.objects if pattern.search(written + each.location.key))


def at_once(ask: Callable[[_Given], _Found], given: Sequence[_Given]) -> Iterator[_Found]:
    """The answers to many questions in their order; most of their time is waiting, so several are asked at a time."""
    if len(given) < 2:
        yield from map(ask, given)
        return
    with ThreadPoolExecutor(_THREADS, "clinker-listing") as threads:
        yield from threads.map(ask, given)


def _descended(store: Store, place: Location, folders: list[str], parts: list[str]) -> Iterator[Object]:
    """The objects below some folders that the components of a pattern match."""
    while parts[1:] and parts[0] != "**":
        fits, first = _component(parts[0]), parts[0]
        begin = _begin(first)
        if begin == first:
            folders = [f"{folder}{first}/" for folder in folders]
        else:
            asked = [place.at(folder + begin) for folder in folders]
            answers = at_once(lambda at: [name for page in store.pages(at, deep=False) for name in page.folders], asked)
            found = zip(folders, answers, strict=True)
            folders = [
                name for folder, names in found for name in names if fits.fullmatch(name[len(folder) :].rstrip("/"))
            ]
        parts = parts[1:]
    if len(parts) == 1 and parts[0] != "**":
        fits = _component(parts[0])
        asked = [place.at(folder + _begin(parts[0])) for folder in folders]
        listed = at_once(lambda at: [each for page in store.pages(at, deep=False) for each in page.objects], asked)
        for folder, objects in zip(folders, listed, strict=True):
            yield from (each for each in objects if fits.fullmatch(each.location.key[len(folder) :]))
        return
    parts = [*parts, "*"] if parts[-1] == "**" else parts
    components = [None if part == "**" else _component(part) for part in parts]
    for folder in folders:
        for page in _listed(store, place.at(folder), deep=True):
            for each in page.objects:
                if _fits(components, each.location.key[len(folder) :].split("/")):
                    yield each


def _begin(part: str) -> str:
    """The literal prefix of everything that a component matches."""
    return _SIGNS.split(part)[0]


def _component(part: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(part), re.DOTALL)


def _fits(components: Sequence[re.Pattern[str] | None], names: Sequence[str]) -> bool:
    """Whether the components of a key match a pattern's; None stands for any number of components."""
    reached = {0}
    for name in names:
        # `**` may match nothing, so the component after it may match here, too.
        reached = _passed(components, reached)
        reached = {
            at if components[at] is None else at + 1
            for at in reached
            if at < len(components) and ((fits := components[at]) is None or fits.fullmatch(name))
        }
    return len(components) in reached


def _passed(components: Sequence[re.Pattern[str] | None], reached: Iterable[int]) -> set[int]:
    found = set(reached)
    for at in sorted(found):
        reachable = at
        while reachable < len(components) and components[reachable] is None:
            reachable += 1
            found.add(reachable)
    return found


def _listed(store: Store, prefix: Location, *, deep: bool) -> Iterator[Page]:
    """List the objects with a prefix, in pages; folders right below it are listed by several threads."""
    if not deep:
        yield from store.pages(prefix, deep=False)
        return
    folders: list[str] = []
    for page in store.pages(prefix, deep=False):
        yield page
        folders += page.folders
    for pages in at_once(lambda folder: [*store.pages(prefix.at(folder), deep=True)], folders):
        yield from pages
