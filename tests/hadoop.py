"""Hadoop's own clusters for tests, each in a JVM of its own that Python asks things of.

Its classes are fetched by `scripts/yarn-jars.sh`; where they are not there, the tests that need them are skipped.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

JARS = Path(__file__).resolve().parent.parent / ".tools" / "yarn"


@contextmanager
def jvm(folder: Path) -> Iterator[Any]:
    """The classes of a JVM with Hadoop's on its path, which works in a folder and writes `out.log` there."""
    jars = sorted(JARS.glob("*.jar"))
    if not jars:
        pytest.skip("Hadoop's clusters for tests are not here (scripts/yarn-jars.sh)")
    import pyspark
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    ours = Path(pyspark.__file__).parent / "jars"
    with (folder / "out.log").open("w") as out:
        port, process = launch_gateway(
            classpath=":".join([*map(str, jars), str(ours / "*")]),
            jarpath=str(next(ours.glob("py4j-*.jar"))),
            java_path=shutil.which("java") or "java",
            javaopts=["-Xmx384m", "-Djava.net.preferIPv4Stack=true", "-XX:TieredStopAtLevel=1"],
            redirect_stdout=out,
            redirect_stderr=out,
            cwd=str(folder),
            die_on_exit=True,
            return_proc=True,
        )
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        try:
            yield gateway.jvm
        finally:
            gateway.shutdown()
            process.terminate()
            process.wait()
