"""The side of the task: it starts the process, serves it the bytes of a file, and takes batches.

A process is used again for the next file. One that ended, or was left in the middle of an answer, is replaced. It knows
no path and opens no file: its bytes come from the task, which has checked them.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import ipc

from spark_jobs.formats.isolated import frames
from spark_jobs.formats.isolated.frames import Kind
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.scan.changes import Stream

#: The memory limit of a process outside of tasks, as in commands that inspect a file.
MEMORY = 512 << 20
#: Arrow's own allocators keep memory that the limit would count, and libraries have some for each thread.
_FRUGAL = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1"}


class TooLarge(Exception):
    """The request needs more memory than there is."""


class Ended(FormatError):
    """The process ended: the file is broken, or memory was short where a library does not look."""


class _Process:
    """A process, idle or serving one file."""

    def __init__(self) -> None:
        path = os.pathsep.join(each for each in sys.path if each)
        self._started = subprocess.Popen(
            [sys.executable, "-m", "spark_jobs.formats.isolated.program"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path, **_FRUGAL},
        )
        assert self._started.stdin is not None
        assert self._started.stdout is not None
        self._sink, self._source = self._started.stdin, self._started.stdout

        #: Whether it waits for the next request.
        self.is_idle = True

    def ask(self, kind: Kind, request: dict[str, Any]) -> None:
        self.is_idle = False
        frames.send(self._sink, kind, json.dumps(request).encode())

    def answers(self, stream: Stream, name: str) -> Iterator[tuple[Kind, bytes]]:
        """The answers of the process until the end. Meanwhile it is served the bytes that it asks for.

        Raises:
            FormatError: it refuses the file.
            Ended: it ended.
            TooLarge: it needs more memory than there is.
        """
        while True:
            try:
                kind, data = frames.receive(self._source)
                if kind is Kind.WANTED:
                    start, size = frames.RANGE.unpack(data)
                    stream.seek(start)
                    frames.send(self._sink, Kind.BYTES, _read(stream, size))
                    continue
            except (EOFError, BrokenPipeError) as ended:
                raise Ended(self._death(), name) from ended
            self.is_idle = kind not in (Kind.SCHEMA, Kind.BATCH)
            if kind is Kind.REFUSED:
                raise FormatError(data.decode(), name)
            if kind is Kind.TOO_LARGE:
                raise TooLarge
            yield kind, data
            if self.is_idle:
                return

    def _death(self) -> str:
        code = self._started.wait()
        how = f"by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"with status {code}"
        return f"is broken, or needs more memory than there is: the process that read it ended {how}; write it again"

    @property
    def is_alive(self) -> bool:
        return self._started.poll() is None

    def stop(self) -> None:
        """End it, whatever it does."""
        self._started.kill()
        with contextlib.suppress(BrokenPipeError):
            self._sink.close()
        self._source.close()
        self._started.wait()


def _read(stream: Stream, size: int) -> bytes:
    """Read so many bytes, in as few pieces as the stream allows."""
    data = stream.read(size)
    if len(data) < size:
        pieces = [data]
        while (left := size - sum(map(len, pieces))) and (more := stream.read(left)):
            pieces.append(more)
        data = b"".join(pieces)
    return data


_free: list[_Process] = []
_lock = threading.Lock()
#: Forked processes must not share one: each has processes of its own.
_owner = [os.getpid()]


def _taken() -> _Process:
    with _lock:
        if _owner[0] != os.getpid():
            _owner[0] = os.getpid()
            _free.clear()
        while _free:
            process = _free.pop()
            if process.is_alive:
                return process
            process.stop()
    return _Process()


class Session:
    """A file that is open in a process of its own.

    Args:
        stream: its bytes.
        name: its name in messages.
        request: how it is opened.
    """

    #: The decoder's facts about the file, and its columns.
    about: dict[str, Any]
    schema: pa.Schema

    def __init__(self, stream: Stream, name: str, request: dict[str, Any]) -> None:
        self._stream, self._name, self._request = stream, name, request
        self._process: _Process | None = None

    def open(self) -> None:
        """Open the file, in another process where the first one ended.

        Raises:
            FormatError: the file is broken.
            TooLarge: opening it takes more memory than there is.
        """
        self.close()
        self._process = _taken()
        self._process.ask(Kind.OPEN, self._request)
        self.schema = pa.schema([])
        for kind, data in self._process.answers(self._stream, self._name):
            if kind is Kind.SCHEMA:
                self.schema = ipc.read_schema(pa.py_buffer(data))
            else:
                self.about = json.loads(data)

    def batches(self, **wanted: Any) -> Iterator[pa.RecordBatch]:
        """Decode batches in the process; `wanted` says which.

        Raises:
            FormatError: the file is broken.
            Ended: the process ended.
            TooLarge: they take more memory than there is.
        """
        assert self._process is not None, "a file is opened before it is read"
        self._process.ask(Kind.BATCHES, wanted)
        schema = self.schema
        try:
            for kind, data in self._process.answers(self._stream, self._name):
                if kind is Kind.SCHEMA:
                    schema = ipc.read_schema(pa.py_buffer(data))
                elif kind is Kind.BATCH:
                    batch = ipc.read_record_batch(pa.py_buffer(data), schema)
                    # These bytes come from the file and are not trusted.
                    batch.validate(full=True)
                    yield batch
        except pa.ArrowException as problem:
            raise FormatError(f"is broken: {problem}", self._name) from problem

    def close(self) -> None:
        """Leave the process to the next file, or end it where it is in the middle of something."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.is_idle and process.is_alive:
            with _lock:
                _free.append(process)
        else:
            process.stop()


@contextmanager
def opened(stream: Stream, name: str, decoder: str, memory: int = MEMORY, **settings: Any) -> Iterator[Session]:
    """A file in a process of its own.

    Args:
        stream: its bytes.
        name: its name in messages.
        decoder: the module that reads it (see `program.Decoder`).
        memory: how many bytes the process may hold for it.
        settings: the settings of the decoder.

    Raises:
        FormatError: the file is broken.
        TooLarge: opening it takes more memory than there is.
    """
    request = {"decoder": decoder, "memory": memory, "size": stream.size(), "settings": settings}
    session = Session(stream, name, request)
    try:
        session.open()
        yield session
    finally:
        session.close()
