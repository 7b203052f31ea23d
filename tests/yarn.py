"""A resource manager of YARN and a node of its own, on loopback: Hadoop's own cluster for tests, in one JVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.hadoop import jvm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.root.default.maximum-am-resource-percent": "1.0",
    "yarn.scheduler.minimum-allocation-mb": "128",
    "yarn.nodemanager.resource.memory-mb": "4096",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
}


@dataclass(frozen=True)
class Yarn:
    """A running cluster: the folder for `HADOOP_CONF_DIR`, and the web address of its resource manager."""

    conf_dir: Path
    web: str
    folder: Path

    def logs(self) -> str:
        """What all containers have said, for a test that fails."""
        found = sorted(self.folder.rglob("std*")) + sorted(self.folder.rglob("launcher.*"))
        return "\n".join(f"--- {path}\n{path.read_text(errors='replace')[-4000:]}" for path in found if path.is_file())


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    """A cluster of one node."""
    folder = tmp_path_factory.mktemp("yarn")
    with jvm(folder) as java:
        conf = java.org.apache.hadoop.yarn.conf.YarnConfiguration()
        for name, value in SETTINGS.items():
            conf.set(name, value)
        cluster = java.org.apache.hadoop.yarn.server.MiniYARNCluster("tests", 1, 1, 1)
        cluster.init(conf)
        cluster.start()
        found = cluster.getConfig()
        conf_dir = folder / "conf"
        conf_dir.mkdir()
        stream = java.java.io.FileOutputStream(str(conf_dir / "yarn-site.xml"))
        found.writeXml(stream)
        stream.close()
        yield Yarn(conf_dir, f"http://{found.get('yarn.resourcemanager.webapp.address')}", folder)
        cluster.stop()
