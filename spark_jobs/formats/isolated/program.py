"""The isolated process: it asks its parent for bytes of the file and answers with batches, until the parent is gone."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import signal
from typing import IO, TYPE_CHECKING, Any, Protocol

from spark_jobs.formats.isolated import frames
from spark_jobs.formats.isolated.frames import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


class Refused(Exception):
    """A file that the decoder cannot read; says why."""


class Decoder(Protocol):
    """Decodes files of a format in this process: a class `Decoder` in a module, created from a file and JSON."""

    #: The facts about the file for the task, as JSON.
    about: dict[str, Any]
    #: The columns of the file, where it has them.
    schema: pa.Schema | None

    def __init__(self, file: RemoteFile, settings: dict[str, Any]) -> None:
        """Open a file.

        Raises:
            Refused: it is broken.
        """

    def batches(self, wanted: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """Some records.

        Raises:
            Refused: the file is broken.
        """


class RemoteFile(io.RawIOBase):
    """The bytes of a file that another process has."""

    def __init__(self, source: IO[bytes], sink: IO[bytes], size: int) -> None:
        super().__init__()
        self._source, self._sink = source, sink
        self._at = 0
        #: The size of the file in bytes.
        self.total = size

    def readable(self) -> bool:
        """True: the decoder reads."""
        return True

    def seekable(self) -> bool:
        """True: the other side reads any range."""
        return True

    def seek(self, position: int, whence: int = 0, /) -> int:
        """Go to a position."""
        self._at = max(0, position + (0, self._at, self.total)[whence])
        return self._at

    def tell(self) -> int:
        """The position of the next byte."""
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes; none at the end."""
        left = max(0, self.total - self._at)
        size = left if size < 0 else min(size, left)
        if not size:
            return b""
        frames.send(self._sink, Kind.WANTED, frames.RANGE.pack(self._at, size))
        _, data = frames.receive(self._source)
        self._at += len(data)
        return data

    def readall(self) -> bytes:
        """Read the rest."""
        return self.read()

    def readinto(self, buffer: Any, /) -> int:
        """The next bytes into a buffer."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """Answer until the other process is gone."""
    decoder: Decoder | None = None
    while True:
        kind, data = frames.receive(source)
        request = json.loads(data)
        try:
            if kind is Kind.OPEN:
                decoder = None
                made = importlib.import_module(request["decoder"]).Decoder
                _limit_memory(request["memory"])
                decoder = made(RemoteFile(source, sink, request["size"]), request["settings"])
                if decoder.schema is not None:
                    frames.send(sink, Kind.SCHEMA, memoryview(decoder.schema.serialize()))
                frames.send(sink, Kind.ABOUT, json.dumps(decoder.about).encode())
            else:
                assert decoder is not None, "a file is opened before it is read"
                _answer(decoder, request, sink)
        except Refused as refused:
            frames.send(sink, Kind.REFUSED, str(refused).encode("utf-8", "replace"))
        except MemoryError:
            frames.send(sink, Kind.TOO_LARGE)
        except (EOFError, BrokenPipeError):
            raise
        except Exception as problem:  # noqa: BLE001  # libraries raise all kinds for bytes they did not expect
            frames.send(
                sink, Kind.REFUSED, f"is broken: {type(problem).__name__}: {problem}".encode("utf-8", "replace")
            )


def _answer(decoder: Decoder, request: dict[str, Any], sink: IO[bytes]) -> None:
    schema = None
    for batch in decoder.batches(request):
        if batch.schema != schema:
            schema = batch.schema
            frames.send(sink, Kind.SCHEMA, memoryview(schema.serialize()))
        frames.send(sink, Kind.BATCH, memoryview(batch.serialize()))
    frames.send(sink, Kind.END)


def _limit_memory(more: int) -> None:
    """Let the process have so many bytes more than it has now, where the system keeps count."""
    import resource

    try:
        with open("/proc/self/status") as status:
            has = next(int(line.split()[1]) for line in status if line.startswith("VmData:")) << 10
    except (OSError, StopIteration):
        return  # not Linux: the system counts nothing that could be limited
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = has + more if most == resource.RLIM_INFINITY else min(has + more, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def main() -> None:
    """Serve the parent process, over what were its standard input and output."""
    # Signals are for the task: when the task stops, this process ends by itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # Output of libraries must not get between the frames.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nowhere, number)
    with contextlib.suppress(EOFError, BrokenPipeError):
        serve(source, sink)
    # End without flushing: nobody reads the buffered output any more.
    os._exit(0)


if __name__ == "__main__":
    # Imported by its full name: decoders raise the exceptions of that module, not of `__main__`.
    from spark_jobs.formats.isolated import program

    program.main()
