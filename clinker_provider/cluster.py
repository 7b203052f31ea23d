"""Jobs that run on a cluster on their own: submitted, queried and ended through REST. Pure, free of Airflow.

A standalone master takes applications through its REST server (`spark.master.rest.enabled`), Python ones too: the
driver that it starts is Spark's own launcher. YARN's resource manager reports on applications that `spark-submit` has
submitted.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum, auto
from importlib import metadata
from typing import TYPE_CHECKING, Any

import urllib3

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ANSWER_S = 10.0
#: A busy master takes an application late. A submission that is given up may run all the same, beside its retry.
_SUBMISSION_ANSWER_S = 300.0
_ALIVE = frozenset(
    {"SUBMITTED", "QUEUED", "RUNNING", "RELAUNCHING", "UNKNOWN", "NEW", "NEW_SAVING", "ACCEPTED", "FINISHING"}
)
#: The state of a job that its cluster does not know, or no longer.
GONE = "GONE"


class ClusterError(Exception):
    """A cluster that does not answer, or refuses; the message names its address."""


class NoClusterError(ClusterError):
    """Something answers at the address, and no cluster gives such answers."""


class Kind(Enum):
    """The kind of cluster to ask."""

    STANDALONE = auto()
    YARN = auto()


@dataclass(frozen=True)
class Job:
    """A submitted job.

    Args:
        kind: the name of a `Kind`.
        urls: where to ask; of several masters one answers.
        id: the cluster's id of the job.
    """

    kind: str
    urls: tuple[str, ...]
    id: str

    def to_dict(self) -> dict[str, Any]:
        """The job as JSON values."""
        return {**asdict(self), "urls": list(self.urls)}

    @classmethod
    def of_dict(cls, values: Mapping[str, Any]) -> Job:
        """The job from the values of `to_dict`."""
        return cls(values["kind"], tuple(values["urls"]), values["id"])

    def __str__(self) -> str:
        return f"{self.id} at {', '.join(self.urls)}"


def is_alive(state: str) -> bool:
    """Whether a job in this state may still do something."""
    return state in _ALIVE


def state_of(job: Job) -> str:
    """The state of a job in its cluster's words, or `GONE`.

    Raises:
        ClusterError: nobody answers.
    """
    if job.kind == Kind.YARN.name:
        status, answer = _asked(job.urls, "GET", f"/ws/v1/cluster/apps/{job.id}")
        if status == 404:
            return GONE
        return str(answer.get("app", {}).get("state", "UNKNOWN"))
    _, answer = _asked(job.urls, "GET", f"/v1/submissions/status/{job.id}")
    return str(answer.get("driverState") or "UNKNOWN") if answer.get("success") else GONE


def kill(job: Job) -> None:
    """End a job; one that has ended already is no error.

    Raises:
        ClusterError: nobody answers.
    """
    if job.kind == Kind.YARN.name:
        _asked(job.urls, "PUT", f"/ws/v1/cluster/apps/{job.id}/state", {"state": "KILLED"})
    else:
        _asked(job.urls, "POST", f"/v1/submissions/kill/{job.id}", {})


def find_on_yarn(url: str, tag: str) -> Job | None:
    """The application with a tag; the latest of several, None where there is none.

    Raises:
        ClusterError: nobody answers.
    """
    _, answer = _asked((url,), "GET", f"/ws/v1/cluster/apps?applicationTags={tag}")
    found = (answer.get("apps") or {}).get("app") or []
    latest = max(found, key=lambda each: each.get("startedTime") or 0, default=None)
    return Job(Kind.YARN.name, (url,), str(latest["id"])) if latest else None


def submit_standalone(
    urls: Sequence[str], *, application: str, arguments: Sequence[str], properties: Mapping[str, str],
    environment: Mapping[str, str],
) -> Job:  # fmt: skip
    """Have a standalone master start a driver for a Python application.

    Args:
        urls: the REST servers of the masters.
        application: the Python file, which every worker sees.
        arguments: the arguments of `spark-submit`, the application and its own arguments included.
        properties: settings of the driver's JVM.
        environment: of the driver.

    Raises:
        ClusterError: nobody answers, or the master refuses.
        NoClusterError: the address is another one than that of a master's REST server.
    """
    request = {
        "action": "CreateSubmissionRequest",
        "clientSparkVersion": metadata.version("pyspark"),
        "appResource": f"file:{application}",
        # The master starts classes only: Spark's launcher is one, and starts Python.
        "mainClass": "org.apache.spark.deploy.SparkSubmit",
        "appArgs": list(arguments),
        "sparkProperties": dict(properties),
        "environmentVariables": {"SPARK_ENV_LOADED": "1", **environment},
    }
    _, answer = _asked(urls, "POST", "/v1/submissions/create", request, answer_s=_SUBMISSION_ANSWER_S)
    if not answer.get("success") or not answer.get("submissionId"):
        raise ClusterError(f"{', '.join(urls)} refuses the application: {answer.get('message') or answer}")
    return Job(Kind.STANDALONE.name, tuple(urls), str(answer["submissionId"]))


def _asked(
    urls: Sequence[str], method: str, path: str, body: Any = None, *, answer_s: float = _ANSWER_S
) -> tuple[int, dict[str, Any]]:
    """The first answer that is JSON, with its status."""
    problems = []
    strange = 0
    for url in urls:
        try:
            answer = urllib3.request(
                method,
                f"{url}{path}",
                body=None if body is None else json.dumps(body).encode(),
                headers={"Content-Type": "application/json;charset=UTF-8", "Accept": "application/json"},
                timeout=urllib3.Timeout(connect=_ANSWER_S, read=answer_s),
                retries=False,
            )
            found = json.loads(answer.data)
        except urllib3.exceptions.HTTPError as error:
            problems.append(f"{url} does not answer: {error}")
            continue
        except ValueError:
            problems.append(f"{url} answers {method} {path.partition('?')[0]} with status {answer.status} and no JSON")
            strange += answer.status < 500
            continue
        # A master that waits for its turn says so; another one may be the active one.
        if answer.status >= 500 and len(urls) > 1:
            problems.append(f"{url} answers with status {answer.status}")
            continue
        if isinstance(found, dict):
            return answer.status, found
        problems.append(f"{url} answers with something else than an object")
        strange += 1
    raise (NoClusterError if strange == len(urls) else ClusterError)("; ".join(problems))
