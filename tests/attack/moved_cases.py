"""Folders of pipelines run where they are and moved to a store: the same files, exit codes and words.

A case is a folder with all that its pipelines read. It is run twice, each time in a fresh copy: from a local folder,
and from a prefix of a bucket, where commands get URIs in place of paths. Everything is compared that is there
afterwards, byte by byte; only identifiers and times of runs may differ. `--cases FOLDER` takes each folder below it
with a `case.yaml` (`argv`, or `steps` with an `argv` each, and `env`); without it, the cases are the guides and recipes
of the documentation, and the examples. A round is a case: `--seed` puts them in an order.

Jobs run without Spark unless `--spark` is given.
"""

from __future__ import annotations

import fnmatch
import io
import os
import random
import re
import sys
import tempfile
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from spark_jobs.cli import clinker
from tests import object_store, pages
from tests.attack import rounds
from tests.execute import without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.object_store import AnyBucket

#: Options whose value is a path, whether something is there already or not.
_PATHS = {"--base-dir", "--rules-path", "--spool-dir", "--metrics-spool-dir", "--dry-run-output"}
#: Where a case cannot end as it did, by design: its exit codes, what is said where it was, and what after the move.
_BY_DESIGN = {
    "its clinker.toml names local folders": (r"", r"E340.*in(?: a)? store"),
    "a store has no folders": (r"E900.*(?:Not a directory|is not a folder|File exists)", r""),
}
#: What differs between two runs of one pipeline: identifiers, moments, durations, sizes of processes.
_VOLATILE = re.compile(
    rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    rb"|20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+(?:Z|[+-]\d\d:\d\d)?|Z)"
    rb"|\b\d+(?:\.\d+)? (?:ms|s|min|h)\b"
    rb'|(?<="duration_ms":)\s*\d+|"(?:\w+_)?(?:ms|seconds|bytes|rss\w*)":\s*[\d.]+'
)


@dataclass(frozen=True)
class Case:
    """A folder of pipelines, and the commands that are run one after the other."""

    name: str
    files: Mapping[str, bytes]
    commands: Sequence[Sequence[str]]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What became of a case.

    Args:
        ended: the exit codes, each with what was said.
        files: what is there afterwards, with what comes from the run's identity masked.
    """

    ended: Sequence[tuple[int | str, str]]
    files: Mapping[str, bytes]

    @classmethod
    def of(cls, ended: Sequence[tuple[int | str, str]], files: Mapping[str, bytes], base: str) -> Outcome:
        """An outcome in which nothing names the folder of the case."""
        known = base.encode()
        # The log of a Delta table has moments and orders of its own; its data files are compared.
        steady = {
            name: b"" if "_delta_log/" in name else _steady(data.replace(known, b"")) for name, data in files.items()
        }
        return cls(ended, {_steady(name.encode()).decode(): data for name, data in steady.items()})


def in_folders(root: Path) -> Iterator[Case]:
    """The cases below a folder, each with a `case.yaml`."""
    for path in sorted(root.glob("**/case.yaml")):
        told = yaml.safe_load(path.read_text())
        left_out = {path, *(path.parent / "expected").rglob("*")}
        found = {str(each.relative_to(path.parent)): each for each in path.parent.rglob("*") if each not in left_out}
        commands = [step.get("argv", ["run", "pipeline.yaml"]) for step in told.get("steps") or [told]]
        yield Case(
            str(path.parent.relative_to(root)),
            {name: each.read_bytes() for name, each in found.items() if each.is_file()},
            [[*map(str, command)] for command in commands],
            {name: str(value) for name, value in told.get("env", {}).items()},
        )


def documented() -> Iterator[Case]:
    """The pages whose blocks are files, each a folder, and the examples; every pipeline in them is run."""
    for page in pages.WRITTEN:
        files = {name: text.encode() for _, name, text in pages.FENCE.findall(page.read_text()) if name}
        yield from _running(pages.shown(page), files)
    for folder in sorted((pages.ROOT / "examples").glob("*/input")):
        inside = {str(each.relative_to(folder.parent)): each for each in folder.parent.rglob("*") if each.is_file()}
        ours = {name: path.read_bytes() for name, path in inside.items() if not name.startswith(("expected", "output"))}
        yield from _running(pages.shown(folder.parent), ours)


def _running(name: str, files: dict[str, bytes]) -> Iterator[Case]:
    """A case of a folder that runs each pipeline in it; pipelines that name places elsewhere are left out."""
    written = {each: text for each, text in files.items() if each.endswith((".yaml", ".yml"))}
    runs = [each for each, text in written.items() if re.search(rb"^nodes:", text, re.M) and b"://" not in text]
    if runs:
        yield Case(name, files, [["run", each, "--force"] for each in runs])


def run_here(case: Case, folder: Path) -> Outcome:
    """Run a case in a local folder, which is empty."""
    for name, data in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    ended = _commands(case, case.commands, folder, f"{folder}/")
    return Outcome.of(ended, _inside(folder), f"{folder}/")


def run_moved(case: Case, folder: Path, bucket: AnyBucket, prefix: str) -> Outcome:
    """Run a case below a prefix of a bucket, in an empty working directory."""
    for name, data in case.files.items():
        bucket.put(prefix + name, data)
    base = bucket.uri(prefix)
    commands = [[*_moved(command, case, base)] for command in case.commands]
    ended = _commands(case, commands, folder, base)
    told = {key.removeprefix(prefix): bucket.get(key) for key in _below(bucket, prefix)}
    return Outcome.of(ended, _inside(folder) | told, base)


def _below(bucket: AnyBucket, prefix: str) -> list[str]:
    keys = bucket.keys()
    return [key for key in keys if key.startswith(prefix)]


def _inside(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _moved(command: Sequence[str], case: Case, base: str) -> Iterator[str]:
    """The words of a command, with URIs in place of paths."""
    for before, word in zip(("", *command), command, strict=False):
        path = os.path.normpath(word)
        is_path = word.endswith(".yaml") or before in _PATHS or path in case.files
        yield word if word.startswith("-") or not is_path else base + ("" if path == "." else path)


def _commands(case: Case, commands: Sequence[Sequence[str]], folder: Path, base: str) -> list[tuple[int | str, str]]:
    """Run commands one after the other; what they say names the base nowhere."""
    ended = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in case.environment.items():
            patch.setenv(name, value)
        for command in commands:
            printed = io.StringIO()
            with redirect_stdout(printed), redirect_stderr(printed):
                code = _called(command)
            ended.append((code, printed.getvalue().replace(base, "").replace(base.rstrip("/"), ".")))
    return ended


def _called(command: Sequence[str]) -> int | str:
    try:
        return clinker.main([*command])
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    except Exception as error:  # noqa: BLE001 - a crash is told as what it is
        return f"{type(error).__name__}: {error}"


def compared(here: Outcome, moved: Outcome, *, words: bool = False) -> list[str]:
    """Where two outcomes part, one line each."""
    found = [
        f"command {number} ended with {b[0]}, and with {a[0]} where it was: {b[1].strip()[-700:]!r}"
        for number, (a, b) in enumerate(zip(here.ended, moved.ended, strict=True), 1)
        if a[0] != b[0]
    ]
    for name in sorted({*here.files, *moved.files}):
        if name not in moved.files or name not in here.files:
            found.append(f"{name} is there {'before' if name in here.files else 'after'} the move alone")
        elif (a := here.files[name]) != (b := moved.files[name]):
            lines = zip(a.split(b"\n"), b.split(b"\n"), strict=False)
            parted = next(((x[:300], y[:300]) for x, y in lines if x != y), (len(a), len(b)))
            found.append(f"{name}: {parted[1]!r}, and where it was {parted[0]!r}")
    if words and not found:
        for (_, a), (_, b) in zip(here.ended, moved.ended, strict=True):
            x, y = (_steady(text.encode()).decode().splitlines() for text in (a, b))
            if x != y:
                found.append(
                    f"said: {[z for z in y if z not in x][:6]}, and where it was {[z for z in x if z not in y][:6]}"
                )
    return found


def _steady(data: bytes) -> bytes:
    return _VOLATILE.sub(b"*", data)


@contextmanager
def serving(store: str, patch: pytest.MonkeyPatch) -> Iterator[AnyBucket]:
    """A bucket of a server that is started for it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="clinker-attack-store-")))
        if store == "s3":
            yield object_store.new_s3_bucket(stack.enter_context(object_store.serving_s3()), patch)
        elif store == "gcs":
            yield object_store.new_gcs_bucket(stack.enter_context(object_store.serving_gcs()), patch)
        elif store == "azure":
            yield object_store.new_azure_bucket(stack.enter_context(object_store.serving_azure(folder)), patch)
        else:
            yield object_store.new_hdfs_bucket(stack.enter_context(object_store.serving_hdfs(folder)), patch)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = rounds.parser("moved_cases", 1_000_000, "cases where they are, and moved to a store")
    parser.add_argument("--cases", type=Path, help="the folder of cases; the documentation's when absent")
    parser.add_argument("--only", default="*", help="names of cases, as a pattern")
    parser.add_argument("--store", choices=["s3", "gcs", "azure", "hdfs"], default="s3")
    parser.add_argument("--words", action="store_true", help="compare what commands say, too")
    parser.add_argument("--spark", action="store_true", help="run jobs on embedded Spark")
    chosen = parser.parse_args(arguments)
    cases = [*(in_folders(chosen.cases) if chosen.cases else documented())]
    cases = [each for each in cases if fnmatch.fnmatch(each.name, chosen.only)]
    random.Random(chosen.seed).shuffle(cases)
    cases = cases[chosen.first : chosen.first + chosen.count]
    chosen.count = len(cases)
    with pytest.MonkeyPatch.context() as patch, serving(chosen.store, patch) as bucket:
        if not chosen.spark:
            without_spark.install(patch)
        left = iter(enumerate(cases, chosen.first))

        def one(_: random.Random, folder: Path) -> str:
            number, case = next(left)
            (folder / "here").mkdir()
            (folder / "away").mkdir()
            here = run_here(case, folder / "here")
            prefix = f"{number}/"
            moved = run_moved(case, folder / "away", bucket, prefix)
            for key in _below(bucket, prefix):
                bucket.delete(key)
            found = compared(here, moved, words=chosen.words)
            for why, patterns in _BY_DESIGN.items():
                both = zip(patterns, (here, moved), strict=True)
                if found and all(re.search(p, "".join(said for _, said in each.ended), re.S) for p, each in both):
                    return why
            assert not found, "\n    ".join((case.name, *found))
            return "as before"

        return rounds.rounds("moved_cases", chosen, one)


if __name__ == "__main__":
    sys.exit(main())
