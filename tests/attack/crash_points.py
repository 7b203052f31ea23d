"""Death at every step of publishing, and at every step of the recovery from it.

A run publishes into two folders: files that replace others, a new file, and the removal of an old one. It is done in a
child that dies before its k-th call of the system, for every k. Then the next run recovers, in a child that dies before
its j-th call, for every j, and at last one that lives. In the end all files are old or all are new, and nothing else is
left.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.execute import logs
from spark_jobs.execute.delivery.local import journal, publish, recovery
from tests.attack import rounds
from tests.memory_folder import memory_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The calls that count as steps: each changes something that another process, or a later one, can see.
_CALLS = ("rename", "replace", "link", "unlink", "rmdir", "mkdir", "fsync", "open", "write", "close")
_DEAD, _ALIVE = 9, 0
_PAIRS = "pairs with a point of recovery"
_OLD = {"out/a": "old", "out/b": "old", "out/letters": "old", "other/c": "old"}
_NEW = {"out/a": "new", "out/b": "new", "other/c": "new", "other/d": "new"}


def died_at(step: int, work: Callable[[], object], *, has_links: bool) -> bool:
    """Do some work in a child that dies before its call with this number; whether it got as far as that."""
    child = os.fork()
    if not child:
        try:
            _count_down(step, has_links=has_links)
            work()
        except BaseException:  # noqa: BLE001 - told by the exit code
            os._exit(1)
        os._exit(_ALIVE)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (_DEAD, _ALIVE), f"the child ended with {code}"
    return code == _DEAD


def _count_down(step: int, *, has_links: bool) -> None:
    left = [step]

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if left[0] == 0:
                os._exit(_DEAD)
            left[0] -= 1
            return original(*arguments, **options)

        return call

    def without_links(*_: Any, **__: Any) -> None:
        raise OSError("no second names here")

    for name in _CALLS:
        setattr(os, name, counted(getattr(os, name)))
    if not has_links:
        os.link = without_links  # type: ignore[assignment]
    io.open = counted(io.open)  # type: ignore[assignment]  # what `Path.open` calls


def prepare(folder: Path) -> None:
    """The files of an earlier run."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in _OLD.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def publishing(folder: Path) -> None:
    """What a run does from its first draft folder to its last."""
    draft = publish.DraftFolders.open("dead", folder / "out")
    renames = []
    for name, content in _NEW.items():
        target = folder / name
        source = draft.folder(target.parent) / target.name
        source.write_text(content)
        renames.append(journal.Rename(str(source), str(target)))
    renames.append(journal.Rename(None, str(folder / "out/letters")))
    draft.publish(renames)
    draft.close(failed=False)


def recovering(folder: Path, first: str) -> None:
    """What the next run does, with one of the folders before the other."""
    for name in (first, "other" if first == "out" else "out"):
        recovery.recover(folder / name)


def files(folder: Path) -> dict[str, str]:
    """All files that a reader sees."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".clinker-" not in str(path)
    }


def check(folder: Path, first: str) -> None:
    """After a recovery that lives all files are old or all are new, and nothing else is there."""
    recovering(folder, first)
    found = files(folder)
    assert found in (_OLD, _NEW), f"a mixture: {found}"
    left = [str(path) for path in folder.rglob(".clinker-*")]
    assert not left, f"left over: {left}"


def run(
    folder: Path,
    tally: rounds.Tally,
    *,
    has_links: bool,
    points: range = range(sys.maxsize),
    steps: range | None = None,
    stride: int = 1,
    seed: int = 0,
    count: int = sys.maxsize,
) -> None:
    """Enumerate the crash points of publishing, each with the crash points of its recovery.

    Args:
        folder: where the files are.
        tally: counts, and hears of findings.
        has_links: whether the file system has second names.
        points: which points of publishing are tried.
        steps: which points of recovery; others with each point of publishing where only every so-many-th is tried.
        stride: every how many-th point of recovery is tried; 1 for all.
        seed: which of them, where not all are tried.
        count: after so many pairs it ends.
    """
    for point in points:
        prepare(folder)
        lives = not died_at(point, lambda: publishing(folder), has_links=has_links)
        is_mixed = files(folder) not in (_OLD, _NEW)
        tally.outcomes["points where a mixture shows until the next run" if is_mixed else "points"] += 1
        for first in ("out", "other"):
            chosen = steps or range((point + seed) % stride, sys.maxsize, stride)
            _recoveries(folder, tally, point, chosen, first, has_links=has_links, count=count)
        if lives or tally.is_full or tally.outcomes[_PAIRS] >= count:
            return


def _recoveries(
    folder: Path, tally: rounds.Tally, point: int, steps: range, first: str, *, has_links: bool, count: int
) -> None:
    for step in steps:
        prepare(folder)
        died_at(point, lambda: publishing(folder), has_links=has_links)
        lives = not died_at(step, lambda: recovering(folder, first), has_links=has_links)
        try:
            check(folder, first)
            tally.outcomes[_PAIRS] += 1
        except AssertionError as error:
            links = "" if has_links else " --no-links"
            where = f"death at step {point} of publishing, then at step {step} of recovering '{first}' first"
            tally.finding(f"{where}: {error}", f"--point {point} --step {step}{links}")
        if lives or tally.is_full or tally.outcomes[_PAIRS] >= count:
            return


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    what = "death at every step of publishing and of recovery from it"
    parser = argparse.ArgumentParser(prog="python -m tests.attack.crash_points", description=what)
    parser.add_argument("--stride", type=int, default=1, help="try every how many-th step of recovery")
    parser.add_argument("--seed", type=int, default=1, help="which steps those are, where not all are tried")
    parser.add_argument("--count", type=int, default=sys.maxsize, help="end after so many pairs (default: all)")
    parser.add_argument("--no-links", action="store_true", help="only as on file systems without second names")
    parser.add_argument("--point", type=int, help="repeat this point of publishing")
    parser.add_argument("--step", type=int, help="with this step of recovery")
    chosen = parser.parse_args(arguments)
    logs.LOG.setLevel("CRITICAL")
    points = range(sys.maxsize) if chosen.point is None else range(chosen.point, chosen.point + 1)
    steps = None if chosen.step is None else range(chosen.step, chosen.step + 1)
    tally, began = rounds.Tally("crash_points"), time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="clinker-attack-crash-", dir=memory_folder()))
    try:
        for has_links in (False,) if chosen.no_links else (True, False):
            chances = {"stride": chosen.stride, "seed": chosen.seed, "count": chosen.count}
            run(folder / "files", tally, has_links=has_links, points=points, steps=steps, **chances)
    finally:
        with suppress(OSError):
            shutil.rmtree(folder)
    return tally.close(began)


if __name__ == "__main__":
    sys.exit(main())
