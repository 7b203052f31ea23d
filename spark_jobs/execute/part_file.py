"""The files that tasks write for the run to put together, and for later jobs to read."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.disk import durable
from spark_jobs.execute import scratch
from spark_jobs.stores.refusals import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: So many parts are mapped at a time: a process may have some thousand files open, a run more parts.
MOST_OPEN = 128


class PartFile:
    """A part file whose errors name it: the system's errors of writes do not."""

    def __init__(self, opener: Callable[[str], Any], path: str) -> None:
        self.path = path
        self._is_open = True
        self._file = self._named(opener, path)
        #: The number of records, counted by the writer of the bytes.
        self.records = 0
        #: The number of bytes, known after closing.
        self.bytes = 0
        #: The note for the frame of its format, known after closing.
        self.note = ""

    def write(self, *data: Any) -> None:
        """Append what the file takes."""
        self._named(self._file.write, *data)

    def write_batch(self, batch: pa.RecordBatch, partition: int | None = None) -> None:
        """Append records, where the file holds records (`kept.Writer`)."""
        self._named(self._file.write_batch, batch, partition)
        self.records += batch.num_rows

    def close(self) -> None:
        """Write the buffered bytes; may be called again."""
        if self._is_open:
            self._is_open = False
            tell = getattr(self._file, "tell", None)
            self.bytes = tell() if tell else 0
            self.note = getattr(self._file, "note", "")
            self._named(self._file.close)
            if tell is None:  # files of Arrow's batches know when they are closed
                self.bytes = getattr(self._file, "size", 0)

    def _named(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except StoreError:
            raise  # it says where it is
        except OSError as error:
            raise durable.of_file(error, self.path) from error


def mapped(path: str, fields: Sequence[int] | None = None, *, is_whole: bool = False) -> pa.ipc.RecordBatchFileReader:
    """A file of Arrow batches, to read; mapped where it is local.

    Args:
        path: the file.
        fields: the columns to read, by their places; None for all.
        is_whole: whether all of it is wanted, and not a stretch here and there.

    Raises:
        OSError: it cannot be read, or not as it was written.
    """
    with unchanged(path):
        options = None if fields is None else pa.ipc.IpcReadOptions(included_fields=list(fields))
        return pa.ipc.open_file(scratch.mapped(path) if is_whole else scratch.arrow(path), options=options)


@contextmanager
def unchanged(path: str) -> Iterator[None]:
    """Within, an error of reading a part names the part. Raises `OSError`."""
    try:
        yield
    except StoreError:
        raise  # it says where it is
    except (pa.ArrowInvalid, OSError, ValueError) as error:
        raise OSError(errno.EIO, f"cannot be read as it was written: {error}", path) from error
