"""Runs that publish into every kind of place, killed: all places are old or all are new, and the next run is right.

One pipeline reads the new files of an incremental source. It writes local files, objects of S3, Delta tables here and
in the store, Iceberg tables, PostgreSQL, SQLite, dead letters and its bookmark. A round adds a file and ends the run at
a random moment, at a random request to the store, or at a random change of local files, by SIGKILL, SIGTERM or SIGINT;
or the store loses an answer. Then `clinker recover` or the next run begins. Each place must have the same batches of
records, each batch once. After a whole run nothing else may be left, but for files that dead runs left in tables.

By default jobs run without Spark, in a process that is forked for each run. `--real` starts `clinker run` on embedded
Spark and kills the driver, its whole group, the JVM or a Python worker.
"""

from __future__ import annotations

import faulthandler
import importlib
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import traceback
import urllib.request
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.sharedctypes import RawValue
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from spark_jobs.cli import clinker
from spark_jobs.tuning import Tuning
from tests import object_store
from tests.attack import kills, rounds
from tests.execute import without_spark
from tests.postgres import PASSWORD, Database, server

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

_ROWS, _BAD_EVERY = 60, 20
_BAD = _ROWS // _BAD_EVERY
_GOOD = _ROWS - _BAD
PIPELINE = """
pipeline: {name: killed, bookmark: state/killed.json}
error_handling: {strategy: continue, dlq: {path: "letters/${NUMBER}.csv"}}
nodes:
  - type: source
    name: rows
    config: {type: csv, glob: "incoming/*.csv", incremental: true, schema: {n: int, run: int}}
  - {type: transform, name: good, input: rows, config: {cxl: "filter 1 / (n % 20) < 2"}}
  - {type: aggregate, name: last, input: good, config: {group_by: [n], cxl: "emit run = max(run)"}}
  - {type: output, name: plain, input: good, config: {type: csv, path: out/plain.csv}}
  - {type: output, name: parts, input: good, config: {type: csv, path: out/parts, parts: true}}
  - {type: output, name: cut, input: good, config: {type: csv, path: "STORE/out/cut.csv", split: {max_records: 25}}}
  - {type: output, name: object, input: good, config: {type: json, path: "STORE/deep/object.json"}}
  - {type: output, name: lake, input: good, config: {type: delta, path: lake/appended}}
  - {type: output, name: away, input: good, config: {type: delta, path: "STORE/lake/appended"}}
  - {type: output, name: merged, input: last, config: {type: delta, path: lake/merged, options: {mode: merge, key: n}}}
  - type: output
    name: merged_away
    input: last
    config: {type: delta, path: "STORE/lake/merged", options: {mode: merge, key: n}}
  - {type: output, name: ice, input: good, config: {type: iceberg, options: {catalog: lake, table: shop.appended}}}
  - type: output
    name: ice_merged
    input: last
    config: {type: iceberg, options: {catalog: lake, table: shop.merged, mode: merge, key: n}}
  - {type: output, name: pg, input: good, config: {type: database, options: {connection: pg, table: inserted}}}
  - type: output
    name: pg_upserted
    input: last
    config: {type: database, options: {connection: pg, table: upserted, mode: upsert, key: n}}
  - type: output
    name: pg_replaced
    input: good
    config: {type: database, options: {connection: pg, table: replaced, mode: replace}}
  - {type: output, name: lite, input: good, config: {type: database, options: {connection: lite, table: inserted}}}
"""
_TABLES = """CREATE TABLE inserted (n bigint, run bigint);
CREATE TABLE upserted (n bigint PRIMARY KEY, run bigint);
CREATE TABLE replaced (n bigint, run bigint)"""
#: The places by what they have: records of the last run alone, all records, or the last record of each key.
LAST = ("plain", "parts", "cut", "object", "pg_replaced")
ALL = ("lake", "away", "ice", "pg", "lite")
BY_KEY = ("merged", "merged_away", "ice_merged", "pg_upserted")
_WAYS = ("moment", "request", "request", "answer", "lost", "step", "step")
_CALLS = ("rename", "replace", "link", "unlink", "rmdir", "mkdir", "fsync")
_SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
_LIMIT_S = 120.0
_OPTIONS = ("--force", "--quiet", "--threads", "2", "--allow-absolute-paths")


@dataclass(frozen=True)
class State:
    """What all places have together: batches that count, those of the last run, and dead letters by run."""

    batches: frozenset[int] = frozenset()
    last: frozenset[int] = frozenset()
    letters: frozenset[tuple[int, int]] = frozenset()

    def after(self, number: int, batches: frozenset[int]) -> State:
        """The state once a run has published some batches."""
        told = {(number, len(batches) * _BAD)} if batches else set()
        return State(self.batches | batches, batches, self.letters | told)

    def places(self) -> dict[str, Any]:
        """What stands in each place: records by batch, and the files of the bookmark and of the dead letters."""
        found: dict[str, Any] = {name: {str(each): _GOOD for each in self.last} for name in LAST}
        found |= {name: {str(each): _GOOD for each in self.batches} for name in ALL}
        newest = {str(max(self.batches)): _GOOD} if self.batches else {}
        found |= dict.fromkeys(BY_KEY, newest)
        letters = {str(run): count for run, count in self.letters}
        return found | {"bookmark": sorted(self.batches), "letters": letters}


@contextmanager
def store() -> Iterator[str]:
    """A server of S3 behind a proxy that kills on command, in a process of its own; gives the proxy's endpoint."""
    command = [sys.executable, "-m", "tests.attack.killing_store"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


def _batches(runs: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in runs:
        found[str(each)] = found.get(str(each), 0) + 1
    return dict(sorted(found.items()))


def _of_lines(texts: Any) -> dict[str, int]:
    return _batches(line.split(",")[1] for text in texts for line in text.splitlines()[1:])


class Places:
    """All places of the pipeline, as the clients of others read them. Used in processes of their own alone."""

    def __init__(self, folder: Path, endpoint: str, database: Database) -> None:
        self.folder, self.database = folder, database
        self.bucket = object_store.Bucket("places", endpoint, object_store._client(endpoint))

    def make(self) -> None:
        """Make what the pipeline does not make by itself."""
        place = {"LocationConstraint": object_store.REGION}
        self.bucket.client.create_bucket(Bucket="places", CreateBucketConfiguration=place)
        self.database.run(_TABLES)
        with closing(sqlite3.connect(self.folder / "data/shop.db")) as opened:
            opened.execute("CREATE TABLE inserted (n integer, run integer)")

    def look(self) -> dict[str, Any]:
        """The records of each place by batch, as `State.places` has them."""
        from deltalake import DeltaTable

        from tests import iceberg_tables

        keys = self.bucket.keys()
        texts = {key: self.bucket.get(key).decode() for key in keys if key.startswith(("out/", "deep/"))}
        found: dict[str, Any] = {
            "plain": _of_lines([(self.folder / "out/plain.csv").read_text()]),
            "parts": _of_lines(each.read_text() for each in (self.folder / "out/parts").glob("*.csv")),
            "cut": _of_lines(text for key, text in _some(texts, "out/cut")),
            "object": _batches(each["run"] for each in json.loads(texts["deep/object.json"])),
        }
        options = {"AWS_ENDPOINT_URL": self.bucket.endpoint, "AWS_ALLOW_HTTP": "true"}
        for name, uri in {"lake": "lake/appended", "merged": "lake/merged"}.items():
            found[name] = _batches(DeltaTable(self.folder / uri).to_pyarrow_table().column("run").to_pylist())
            away = DeltaTable(self.bucket.uri(uri), storage_options=options).to_pyarrow_table()
            found[{"lake": "away", "merged": "merged_away"}[name]] = _batches(away.column("run").to_pylist())
        catalog = iceberg_tables.catalog(self.folder)
        for name, table in {"ice": "shop.appended", "ice_merged": "shop.merged"}.items():
            found[name] = _batches(catalog.load_table(table).scan().to_arrow().column("run").to_pylist())
        for name, table in {"pg": "inserted", "pg_upserted": "upserted", "pg_replaced": "replaced"}.items():
            found[name] = _batches(run for (run,) in self.database.run(f"SELECT run FROM {table}"))
        with closing(sqlite3.connect(self.folder / "data/shop.db")) as opened:
            found["lite"] = _batches(run for (run,) in opened.execute("SELECT run FROM inserted"))
        bookmark = self.folder / "state/killed.json"
        names = json.loads(bookmark.read_text())["sources"]["rows"] if bookmark.exists() else {}
        found["bookmark"] = sorted(number for number in range(10_000) if f"incoming/{number}.csv" in json.dumps(names))
        letters = (self.folder / "letters").glob("*.csv")
        found["letters"] = {each.stem: len(each.read_text().splitlines()) - 1 for each in letters}
        return found

    def left(self) -> list[str]:
        """What stands in the places and belongs to no result."""
        from tests import iceberg_tables

        here = {str(path.relative_to(self.folder)): path for path in self.folder.rglob("*") if path.is_file()}
        found = [name for name in here if ".clinker" in name or "clinker_" in name]
        keys = self.bucket.keys()
        texts = {key: self.bucket.get(key) for key in keys if "_delta_log/0" in key}
        found += [f"s3: {key}" for key in keys if ".clinker" in key]
        found += [f"s3 upload: {key}" for key in self.bucket.uploads()]
        logs = {name: path.read_bytes() for name, path in here.items() if "_delta_log/0" in name}
        for where, names, versions in (("", here, logs), ("s3: ", keys, texts)):
            known = {name for key, data in versions.items() if key.endswith(".json") for name in _added(key, data)}
            found += [where + name for name in names if _is_data(name, "lake/") and name not in known]
        catalog, ice = iceberg_tables.catalog(self.folder), set[str]()
        for name in ("shop.appended", "shop.merged"):
            ice |= {*catalog.load_table(name).inspect.all_files().column("file_path").to_pylist()}
        found += [n for n, path in here.items() if _is_data(n, "warehouse/") and path.as_uri() not in ice]
        query = "SELECT schemaname || '.' || tablename FROM pg_tables WHERE tablename LIKE '%clinker%'"
        found += [f"pg: {name}" for (name,) in self.database.run(query)]
        with closing(sqlite3.connect(self.folder / "data/shop.db")) as opened:
            tables = opened.execute("SELECT name FROM sqlite_master WHERE name LIKE '%clinker%'")
            found += [f"sqlite: {name}" for (name,) in tables]
        return found


def _some(texts: dict[str, str], prefix: str) -> list[tuple[str, str]]:
    return [(key, text) for key, text in texts.items() if key.startswith(prefix)]


def _is_data(name: str, folder: str) -> bool:
    return name.startswith(folder) and name.endswith(".parquet") and "_delta_log" not in name


def _added(key: str, version: bytes) -> Iterator[str]:
    """The files that a version of a Delta table adds, as names from where the table's folder is."""
    for line in version.decode().splitlines():
        if "add" in (action := json.loads(line)):
            yield key.partition("_delta_log/")[0] + action["add"]["path"]


class Rounds:
    """The rounds of one set of places: each begins where the one before ended."""

    def __init__(self, folder: Path, endpoint: str, database: Database, *, is_real: bool) -> None:
        self.folder, self.endpoint, self.is_real = folder, endpoint, is_real
        self.places = Places(folder, endpoint, database)
        for name in ("incoming", "data", "out", "lake", "letters", "state"):
            (folder / name).mkdir()
        (folder / "p.yaml").write_text(PIPELINE.replace("STORE", "s3://places"))
        from tests.iceberg_tables import CONFIGURED

        sqlite = f"sqlite:///{folder}/data/shop.db"
        (folder / "clinker.toml").write_text(CONFIGURED)
        os.environ |= {"CLINKER_CONNECTION_PG": database.uri, "CLINKER_CONNECTION_LITE": sqlite}
        self.apart(self.places.make)
        self.number, self.steps, self.requests, self.takes = 0, 400, 400, 5.0
        self.counted = RawValue("q")
        self.unlisted = set[str]()
        self.state, self.pending = State(), frozenset[int]()
        self.whole()
        self.load()

    # ---- processes ----

    def apart(self, work: Callable[[], Any]) -> Any:
        """The JSON that a function gives in a process of its own: clients of tables do not outlive a fork."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            code = 1
            try:
                os.write(writing, b" ")
                with os.fdopen(writing, "w") as told:
                    json.dump(work(), told)
                code = 0
            except BaseException:  # noqa: BLE001 - a child that was forked must not go on
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(writing)
        with os.fdopen(reading) as heard:
            text = heard.read()
        assert os.waitpid(child, 0)[1] == 0, "it cannot be looked at"
        return json.loads(text)

    def fork(self, work: Callable[[], int]) -> int:
        """A child that does something, with its words in `run.log`."""
        child = os.fork()
        if not child:
            code = 99
            try:
                os.setpgid(0, 0)
                log = sys.stdout = sys.stderr = (self.folder / "run.log").open("w")
                faulthandler.dump_traceback_later(0.9 * _LIMIT_S, file=log)
                code = work()
            except BaseException:  # noqa: BLE001 - told in the log
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        return child

    def load(self) -> None:
        """Import what the first run has needed, so that no fork has to. It is nothing that has threads or clients."""
        named = self.folder / "loaded.json"
        for name in json.loads(named.read_text()) if named.exists() else ():
            with suppress(ImportError):
                importlib.import_module(name)

    def start(self, *, by_tasks: bool, before: Callable[[], None] = lambda: None) -> int:
        """Begin a run of the next batch; gives its process."""
        self.number += 1
        self.pending |= {self.number}
        lines = "".join(f"{n},{self.number}\n" for n in range(_ROWS))
        (self.folder / f"incoming/{self.number}.csv").write_text(f"n,run\n{lines}")
        os.environ["NUMBER"] = str(self.number)
        arguments = ["run", str(self.folder / "p.yaml"), *_OPTIONS]
        if self.is_real:
            with (self.folder / "run.log").open("wb") as log:
                command = [sys.executable, "-m", "spark_jobs", *arguments]
                return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True).pid

        def work() -> int:
            before()
            if by_tasks:
                real = clinker._run_options
                tuning = Tuning(driver_output_bytes=-1)
                clinker._run_options = lambda arguments: replace(real(arguments), tuning=tuning)
            code = clinker.main(arguments)
            if self.number == 1:
                (self.folder / "loaded.json").write_text(json.dumps([*sys.modules]))
            return code

        return self.fork(work)

    def log(self) -> str:
        """The last words of a run."""
        return (self.folder / "run.log").read_text()[-1500:]

    def waited(self, child: int, limit_s: float = _LIMIT_S) -> int | None:
        """The status of a child, once it has ended; None where that takes longer."""
        began = time.monotonic()
        while time.monotonic() - began < limit_s:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
        return None

    def ask(self, text: str) -> int:
        """Tell the store's proxy something; gives the requests since the last time."""
        with urllib.request.urlopen(f"{self.endpoint}/!{text}") as answer:
            return int(answer.read())

    def name_pid(self) -> None:
        """Tell the store's proxy that this process is the one to kill."""
        self.ask(f"pid?pid={os.getpid()}")

    # ---- looks ----

    def whole(self) -> None:
        """A run that nobody kills, and all that must be true after it."""
        before, began = self.state, time.monotonic()
        self.ask("forget")
        self.counted.value = 0
        child = self.start(by_tasks=self.number % 2 == 0, before=lambda: _count(self.counted))
        code = self.waited(child, 600)
        assert code == 2, f"a whole run ended with {code}: {self.log()}"
        self.takes, self.requests = time.monotonic() - began, self.ask("forget")
        self.steps = self.counted.value or self.steps
        self.state, self.pending = before.after(self.number, self.pending), frozenset()
        found = self.apart(lambda: [self.places.look(), self.places.left()])
        assert found[0] == self.state.places(), _parted(found[0], self.state.places())
        left = [name for name in found[1] if name not in self.unlisted]
        assert not left, f"left over: {left[:8]}"

    def recovered(self) -> None:
        """What `clinker recover` does for all folders."""
        names = ["out", "lake", "data", "letters", "state"]
        names = [str(self.folder / name) for name in names] + [f"s3://places/{name}/" for name in ("out", "deep")]
        code = self.waited(self.fork(lambda: clinker.main(["recover", "--base-dir", str(self.folder), *names])))
        assert code == 0, f"recovery ended with {code}: {self.log()}"

    def settle(self, outcome: str, chance: random.Random) -> str:
        """Recover, look for all old or all new, and run again."""
        old, new = self.state, self.state.after(self.number, self.pending)
        if chance.random() < 0.5:
            self.recovered()
        else:
            # A run of these places that ends before it publishes begins with their recovery, too.
            self.is_recovered_by_run()
        found, left = self.apart(lambda: [self.places.look(), self.places.left()])
        # A run that dies before it has noted its files leaves them in tables: no version has them, and VACUUM removes
        # them (docs/delta.md, docs/iceberg.md). Runs that end well leave none.
        self.unlisted |= {name for name in left if name.endswith(".parquet")}
        is_old, is_new = found == old.places(), found == new.places()
        assert is_old or is_new, (
            f"{outcome}: a mixture; against old: {_parted(found, old.places())}; against new: "
            f"{_parted(found, new.places())}; {self.log()}"
        )
        assert is_new or "ended with 2" not in outcome, f"{outcome}, and has not published"
        if is_new:
            self.state, self.pending = new, frozenset()
        self.whole()
        told = f"{outcome}, {'new' if is_new else 'old'}"
        print(f"run {self.number}: {told}", flush=True)
        return told

    def is_recovered_by_run(self) -> None:
        """Begin a run that has nothing to publish in the end: its dead letters are in the way."""
        os.environ["NUMBER"] = "blocked"
        blocked = self.folder / "letters/blocked.csv"
        blocked.write_text("in the way\n")
        self.pending |= {0}
        (self.folder / "incoming/0.csv").write_text("n,run\n0,0\n")
        arguments = ["run", str(self.folder / "p.yaml"), *_OPTIONS]
        code = self.waited(self.fork(lambda: clinker.main(arguments)))
        blocked.unlink()
        (self.folder / "incoming/0.csv").unlink()
        self.pending -= {0}
        assert code not in (0, 2, 99, None), f"the run that is blocked ended with {code}: {self.log()}"

    # ---- kills ----

    def play(self, chance: random.Random) -> str:
        """Kill a run, recover, look, and run again; gives what became of it."""
        outcome = self.kill_real(chance) if self.is_real else self.kill(chance)
        return self.settle(outcome, chance)

    def kill(self, chance: random.Random) -> str:
        """Kill a run in a process without Spark."""
        way, by_tasks, number = chance.choice(_WAYS), chance.random() < 0.5, chance.choice(_SIGNALS)
        late = chance.random() * 0.7 if chance.random() < 0.6 else 0.0  # most of what matters comes late
        share = late + chance.random() * (1.05 - late)
        self.ask("forget")
        if way == "step":
            child = self.start(by_tasks=by_tasks, before=lambda: _count(self.counted, int(share * self.steps), number))
        elif way == "moment":
            child = self.start(by_tasks=by_tasks)
            code = self.waited(child, share * self.takes)
            if code is not None:
                return f"ended with {code}"
            os.kill(child, number)
        else:
            at = int(share * self.requests)
            self.ask(f"{way}?at={at}&signal={int(number)}")
            child = self.start(by_tasks=by_tasks, before=self.name_pid)
        code = self.waited(child)
        self.ask("forget")
        if code is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError(f"{way}: the run has not ended after {_LIMIT_S} s: {self.log()}")
        assert code in (-number, -signal.SIGKILL, 2, 4, 130, 143), f"{way}: it ended with {code}: {self.log()}"
        name = signal.Signals(number).name if way != "lost" else "an answer"
        return f"{way}: {name} {'killed' if code < 0 else f'ended with {code}'}"

    def kill_real(self, chance: random.Random) -> str:
        """Kill a process of a real run."""
        target = chance.choice(kills._TARGETS)
        pid = self.start(by_tasks=False)
        code = self.waited(pid, (0.3 + 0.75 * chance.random()) * self.takes)
        if code is not None:
            return f"ended with {code}"
        family = psutil.Process(pid).children(recursive=True)
        chosen = kills._chosen(target, pid, family, chance)
        if target == "group":
            os.killpg(pid, signal.SIGKILL)
        elif chosen is not None:
            with suppress(psutil.NoSuchProcess):
                chosen.send_signal(signal.SIGKILL)
        code = self.waited(pid, 300)
        _, alive = psutil.wait_procs(family, kills._LIMIT_S)
        assert not alive, f"{target} killed; still there: {[each.cmdline()[:3] for each in alive]}"
        assert code in (-signal.SIGKILL, 2, 4), f"{target} killed: the run ended with {code}: {self.log()}"
        return f"{target} killed: {'killed' if code < 0 else f'ended with {code}'}"


def _parted(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    different = [f"{name} has {str(found[name])[-90:]}" for name in found if found[name] != wanted[name]]
    return ", ".join(different) + f"; wanted {str({name: wanted[name] for name in ('plain', 'letters')})[-200:]}"


def _count(counted: Any, step: int = 0, number: int = 0) -> None:
    """Count this process's changes of local files, and have it send itself a signal before one of them."""
    counted.value = 0

    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            counted.value += 1
            if counted.value == step:
                os.kill(os.getpid(), number)
            return original(*arguments, **options)

        return call

    for name in _CALLS:
        setattr(os, name, watched(getattr(os, name)))
    io.open = watched(io.open)  # what `Path.open` calls


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = rounds.parser("place_kills", 100, "runs into every kind of place, killed")
    parser.add_argument("--real", action="store_true", help="kill real runs on embedded Spark")
    chosen = parser.parse_args(arguments)
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        endpoint = stack.enter_context(store())
        port = stack.enter_context(server("clinker", PASSWORD))
        for name, value in {
            "AWS_ACCESS_KEY_ID": object_store.ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": object_store.SECRET_KEY,
            "AWS_REGION": object_store.REGION,
            "AWS_ENDPOINT_URL_S3": endpoint,
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            patch.setenv(name, value)
        for name in ("NUMBER", "CLINKER_CONNECTION_PG", "CLINKER_CONNECTION_LITE"):
            patch.setenv(name, "")
        if not chosen.real:
            without_spark.install(patch)
        database = Database(f"postgresql://clinker:{PASSWORD}@127.0.0.1:{port}/postgres", "")

        def of(folder: Path) -> Callable[[random.Random], str]:
            return Rounds(folder, endpoint, database, is_real=chosen.real).play

        return rounds.in_one_folder("place_kills", chosen, of)


if __name__ == "__main__":
    sys.exit(main())
