"""The private parts of PySpark on which quick starts and reports depend. All of them are here, and only here.

PySpark may change them with any version: `changes` says which have changed, and a test asks it.
`CLINKER_FAST_START=off` does without quick starts: PySpark launches the JVM and its workers by itself, as
usual.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket
    import subprocess
    from collections.abc import Callable, Iterator, Mapping
    from socketserver import BaseServer

    import pyarrow as pa
    from pyspark import SparkContext

    #: Serves tasks at a socket. Returns the exit status of its process.
    Worker = Callable[[socket.socket, bool], int]

SWITCH_VARIABLE = "CLINKER_FAST_START"
#: Names the file in which a JVM says where it listens: its port in 4 bytes, then its secret as a text with its length.
INFORMATION = "_PYSPARK_DRIVER_CONN_INFO_PATH"
#: The address of a JVM that another process has launched.
PORT, SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
_PORT_BYTES = _LENGTH_BYTES = 4
#: Modules that PySpark imports with its first frame, or for each value that it sends to the JVM.
_LATE = (
    "pyspark.sql.classic.dataframe", "pyspark.sql.pandas.functions", "pyspark.sql.pandas.map_ops", "pyspark.sql.types",
)  # fmt: skip
#: They ask whether a value is of numpy, and import PySpark's helpers for tests for that, and pandas with them.
_NUMPY_CONVERTERS = ("NumpyScalarConverter", "NumpyArrayConverter")
#: PySpark calls it before each function that tasks call, including functions of Arrow.
_PANDAS_CHECK = "require_minimum_pandas_version"


def is_fast(environ: Mapping[str, str] = os.environ) -> bool:
    """True if runs start Spark's processes by themselves, ahead of PySpark."""
    return environ.get(SWITCH_VARIABLE, "").lower() != "off"


# ---- the JVM -------------------------------------------------------------------------------------------------------


def has_jvm() -> bool:
    """True if this process is connected to a JVM."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def process() -> subprocess.Popen[bytes]:
    """The JVM that this process is connected to and has launched."""
    from pyspark import SparkContext

    found: subprocess.Popen[bytes] = SparkContext._gateway.proc
    return found


def where(information: bytes) -> tuple[str, str]:
    """The port and the secret that a JVM has written into the file of `INFORMATION`."""
    return str(int.from_bytes(information[:_PORT_BYTES])), information[_PORT_BYTES + _LENGTH_BYTES :].decode()


def gateway(port: str, secret: str, launched: subprocess.Popen[bytes]) -> Any:
    """PySpark's connection to a JVM that this process has launched."""
    from pyspark.java_gateway import launch_gateway

    os.environ |= {PORT: port, SECRET: secret}
    try:
        found = launch_gateway()
    finally:
        del os.environ[PORT], os.environ[SECRET]
    found.proc = launched
    return found


def preload() -> None:
    """Import what PySpark imports late, while there is time; and let it do without pandas."""
    for name in _LATE:
        importlib.import_module(name)
    types = sys.modules["pyspark.sql.types"]
    for name, is_numpy in zip(_NUMPY_CONVERTERS, (_is_scalar, _is_array), strict=True):
        getattr(types, name).can_convert = is_numpy
    setattr(sys.modules["pyspark.sql.pandas.functions"], _PANDAS_CHECK, lambda: None)


def _is_scalar(_: object, value: object) -> bool:
    """True if a value is a scalar of numpy, which has been imported then."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic)


def _is_array(_: object, value: object) -> bool:
    """True if a value is an array of numpy with one dimension."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray) and value.ndim == 1


def use(connection: Any) -> None:
    """Have PySpark use a connection to a JVM."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized(gateway=connection)


def connect(settings: Mapping[str, str] | None = None) -> None:
    """Have PySpark connect to the JVM that spark-submit has started, or launch one with these settings."""
    from pyspark import SparkConf, SparkContext

    conf = None if settings is None else SparkConf(loadDefaults=False).setAll([*settings.items()])
    SparkContext._ensure_initialized(conf=conf)


def executors(context: SparkContext) -> int:
    """The number of executors that a session on a cluster has at the moment."""
    known: int = context._jsc.sc().getExecutorMemoryStatus().size()
    return known - 1  # the driver is one of them


def on_lost_connections(handle: Callable[[BaseServer, object, object], None]) -> None:
    """Have something else called where PySpark would print a traceback, because the JVM has gone."""
    from pyspark import accumulators

    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        server.handle_error = handle


# ---- workers, and their input --------------------------------------------------------------------------------------


def serve_workers(around: Callable[[Worker], Worker]) -> None:
    """Be the process that Spark's Python workers are forked from, with something around each worker."""
    from pyspark import daemon

    daemon.worker = around(daemon.worker)
    daemon.manager()


def schema(arrow: pa.Schema) -> Any:
    """Convert Arrow's types into Spark's; Spark's own parser of texts takes longer to load than all of this."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(arrow)


# ---- whether all of that is there ----------------------------------------------------------------------------------


def changes() -> list[str]:
    """A line for each internal of PySpark that has changed since the version for which this module was written."""
    return list(_changes())


def _changes() -> Iterator[str]:
    from pyspark import SparkContext, accumulators, daemon, java_gateway
    from pyspark.sql import types as sql_types
    from pyspark.sql.pandas import functions, types

    if not hasattr(SparkContext, "_gateway"):
        yield "SparkContext has no _gateway"
    if "self._jsc" not in inspect.getsource(SparkContext):
        yield "a SparkContext has no _jsc"
    wanted: tuple[tuple[str, Any, str, set[str]], ...] = (
        ("SparkContext._ensure_initialized", SparkContext, "_ensure_initialized", {"gateway", "conf"}),
        ("java_gateway.launch_gateway", java_gateway, "launch_gateway", {"conf"}),
        ("daemon.worker", daemon, "worker", {"sock", "authenticated"}),
        ("daemon.manager", daemon, "manager", set()),
        ("sql.pandas.types.from_arrow_schema", types, "from_arrow_schema", {"arrow_schema"}),
    )
    for name, owner, member, parameters in wanted:
        found = getattr(owner, member, None)
        if found is None:
            yield f"{name} is gone"
        elif missing := parameters - inspect.signature(found).parameters.keys():
            yield f"{name} does not take {', '.join(sorted(missing))}"
    launch = inspect.getsource(java_gateway.launch_gateway)
    # The names that it uses to find a running JVM and read its answer.
    for part in (PORT, SECRET, INFORMATION, "read_int(info)", "UTF8Deserializer().loads(info)", ".proc = "):
        if part not in launch:
            yield f"java_gateway.launch_gateway does without `{part}`"
    for server in ("AccumulatorTCPServer", "AccumulatorUnixServer"):
        if not callable(getattr(getattr(accumulators, server, None), "handle_error", None)):
            yield f"accumulators.{server} has no handle_error"
    for name in _LATE:
        if importlib.util.find_spec(name) is None:
            yield f"{name} is gone"
    for name in _NUMPY_CONVERTERS:
        if not hasattr(getattr(sql_types, name, None), "can_convert"):
            yield f"sql.types.{name} has no can_convert"
    if not hasattr(functions, _PANDAS_CHECK):
        yield f"sql.pandas.functions has no {_PANDAS_CHECK}"
