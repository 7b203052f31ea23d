"""The warm driver: runs one command after another, each as if in the process of its client.

It uses the client's streams, working folder, environment and file mask, receives its signals, and ends the command when
the client is gone. It exits after some time without clients.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs import __version__
from spark_jobs.cli import process_exit, standard_streams
from spark_jobs.cli.warm import drivers, messages
from spark_jobs.contract import ExitCode
from spark_jobs.execute import interrupts, without_pandas

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: A driver ends after so many commands: whatever it may have gathered goes with it.
_MOST_RUNS = 2000
#: A client must send its request within so many seconds after it has connected.
_TIMEOUT_S = 5.0
#: The exit code of Python for an uncaught exception.
_UNCAUGHT = 1


@dataclass
class _Command:
    """A command that a client waits for, over a connection that closes when the client has gone.

    Args:
        request: the client's request.
        descriptors: its standard input, output and error, and its working folder.
        connection: where it waits for the exit status.
        is_interrupted: whether it got a signal, or has gone.
    """

    request: messages.Request
    descriptors: list[int]
    connection: socket.socket
    is_interrupted: bool = False


#: Stands in the queue where the driver has to end at once.
_END = object()


class _Driver:
    """Takes commands in threads of its own, and runs them in the main thread, which alone gets signals.

    Args:
        folder: where it listens.
        idle_s: after how many seconds without a command it ends.
    """

    def __init__(self, folder: Path, idle_s: float) -> None:
        self._folder = folder
        self._state = drivers.State(os.getpid(), time.time(), __version__, 0, idle_s)
        self._waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        #: Held from the moment in which a command is taken until its client knows how it ended, and by a driver's end.
        self._slot = threading.Lock()
        self._running: _Command | None = None
        self._is_interruptible = False
        self._ends = False

    def serve(self) -> None:
        """Run commands until nobody comes any more."""
        for number in interrupts.SIGNALS:
            signal.signal(number, self._signalled)
        with drivers.listen(self._folder) as listener:
            identity = drivers.identity(self._folder)
            drivers.note(self._folder, self._state)
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
            try:
                _warm_up()
                while self._next():
                    pass
            finally:
                drivers.remove(self._folder, identity)

    def _signalled(self, number: int, frame: Any) -> None:
        """A signal outside of `interrupts.raise_on_signal`: SIGINT is for a command, the others are for the driver."""
        if self._is_interruptible:
            raise KeyboardInterrupt
        if number != signal.SIGINT:
            raise SystemExit(0)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # it has been closed
            threading.Thread(target=self._greet, args=(connection,), daemon=True).start()

    def _greet(self, connection: socket.socket) -> None:
        """Take a command, or say that another one is running; then pass on the signals of who sent it."""
        with connection, contextlib.suppress(OSError, messages.Unreadable):
            if not drivers.is_of_this_user(connection):
                return
            connection.settimeout(_TIMEOUT_S)
            request, descriptors = messages.receive_request(connection)
            connection.settimeout(None)
            if not request.argv:
                messages.close(descriptors)
                self._ends = True
                self._waiting.put(None)
                connection.sendall(messages.TAKEN)
            elif self._slot.acquire(blocking=False) and not self._is_broken():
                self._take(_Command(request, descriptors, connection))
            else:
                messages.close(descriptors)
                connection.sendall(messages.BUSY)

    def _is_broken(self) -> bool:
        """Whether the session can serve no run any more: then this driver ends, and holds the slot until it has."""
        from spark_jobs.execute.spark import session

        if not session.is_lost():
            return False
        self._ends = True
        self._waiting.put(_END)
        return True

    def _take(self, command: _Command) -> None:
        """Let a command be run, and interrupt it when its client gets a signal or has gone."""
        try:
            command.connection.sendall(messages.TAKEN)
        except OSError:
            command.is_interrupted = True
        self._waiting.put(command)
        is_there = True
        while is_there:
            try:
                is_there = bool(command.connection.recv(1))
            except OSError:
                is_there = False
            # A waiting command sees this flag before it begins; a running one gets a signal.
            command.is_interrupted = True
            if self._running is command:
                os.kill(os.getpid(), signal.SIGINT)

    def _next(self) -> bool:
        """Run the next command; false when there will be none, and then nobody gets the slot any more."""
        try:
            command = self._waiting.get(timeout=self._state.idle_s)
        except queue.Empty:
            self._ends = True
            command = None
        if command is _END:
            return False
        if command is None:
            return not self._slot.acquire(blocking=False)
        self._running = command
        if command.is_interrupted:
            messages.close(command.descriptors)
            status: int = ExitCode.INTERRUPTED
        else:
            try:
                status = self._run(command)
            except OSError:  # a stream or a folder cannot be had: the log has it
                traceback.print_exc()
                status = ExitCode.IO
        self._running = None
        with contextlib.suppress(OSError):
            messages.send_status(command.connection, status)
            command.connection.shutdown(socket.SHUT_RDWR)
        self._state = replace(self._state, runs=self._state.runs + 1)
        if self._ends or self._state.runs >= _MOST_RUNS:
            return False
        with contextlib.suppress(OSError):
            drivers.note(self._folder, self._state)
        self._slot.release()
        return True

    def _run(self, command: _Command) -> int:
        """Run a command for its client; returns the exit status."""
        from spark_jobs.cli import clinker
        from spark_jobs.execute.spark import processes

        processes.forget_peaks()
        status = None
        with _standing_in(command):
            try:
                self._is_interruptible = True
                if command.is_interrupted:  # it may have come right before
                    raise KeyboardInterrupt
                status = clinker.main(command.request.argv)
                self._is_interruptible = False
            except KeyboardInterrupt:
                sys.stderr.write("interrupted\n")
            except BaseException:  # noqa: BLE001 - what ends a process of its own must not end this one
                traceback.print_exc()
                status = _UNCAUGHT if status is None else status
            finally:
                self._is_interruptible = False
        return ExitCode.INTERRUPTED if status is None else status


@contextlib.contextmanager
def _standing_in(command: _Command) -> Iterator[None]:
    """Gives this process the streams, working folder, environment and umask of a client, while the context lasts.

    Only Python's stream objects are replaced: child processes must not keep the client's streams open.
    """
    request = command.request
    *given, folder = command.descriptors
    for descriptor in command.descriptors:
        os.set_inheritable(descriptor, False)
    names = ("stdin", "stdout", "stderr")
    before = {name: getattr(sys, name) for name in names}
    mask = os.umask(request.mask)
    streams = [_opened(stream, name) for stream, name in zip(given, names, strict=True)]
    try:
        for name, stream in zip(names, streams, strict=True):
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        _set_environment(request.environment)
        os.chdir(folder)
        yield
    finally:
        for stream in streams[1:]:
            with standard_streams.given_up("clinker", stream):
                stream.flush()
        for name in names:
            setattr(sys, name, before[name])
            setattr(sys, f"__{name}__", before[name])
        for stream in streams:
            with contextlib.suppress(OSError):
                stream.close()
        os.close(folder)
        os.chdir("/")
        os.umask(mask)


def _set_environment(wanted: Mapping[str, str]) -> None:
    """Take a client's environment, and keep the variables that the engine has set for the JVM or its workers."""
    added = {name: value for name, value in os.environ.items() if name not in _given}
    os.environ.clear()
    os.environ.update({**added, **wanted})
    _given.clear()
    _given.update(wanted)


#: The environment that this process was given, at its start or by the last client.
_given = dict(os.environ)


def _opened(stream: int, name: str) -> Any:
    """A stream, opened as Python opens the standard streams of a process."""
    if name == "stdin":
        return open(stream, encoding="utf-8", errors="surrogateescape")
    buffering = 1 if name == "stderr" or os.isatty(stream) else -1
    return open(stream, "w", buffering, encoding="utf-8", errors="backslashreplace")


def _warm_up() -> None:
    """Begin what every run needs: the first one waits for the rest."""
    from spark_jobs.execute.spark import session
    from spark_jobs.plan.options import RunOptions

    session.follow_threads()
    session.begin(RunOptions())
    without_pandas.hide_pandas()
    from spark_jobs.cli import run  # noqa: F401
    from spark_jobs.execute.run import executor  # noqa: F401
    from spark_jobs.plan import planner  # noqa: F401


def main(argv: Sequence[str]) -> int:
    """Be a driver: the folder to listen in, and after how many idle seconds to end."""
    folder, idle_s = Path(argv[0]), float(argv[1])
    with contextlib.suppress(SystemExit):
        _Driver(folder, idle_s).serve()
    return 0


if __name__ == "__main__":
    process_exit.run(lambda: main(sys.argv[1:]))
