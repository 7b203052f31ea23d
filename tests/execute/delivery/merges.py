"""Shared by the tests of merges into Delta and Iceberg tables: records, and runs that die after their decision."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cli import recover as command
from spark_jobs.execute.delivery import joint
from spark_jobs.execute.delivery.local.draft_folder import DraftFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMA = "id: int, v: string"
#: A second output, so that the run needs a journal.
BESIDE = (
    "  - { type: output, name: lines, input: rows, config: { type: csv, path: out/lines.csv, if_exists: overwrite } }\n"
)


def row(number: int, v: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": number, "v": v, **more}


def done(result: Any) -> Any:
    assert result.exit_code == 0, result.error
    return result


@contextlib.contextmanager
def death_after_decision(monkeypatch: pytest.MonkeyPatch, *commits: tuple[Any, str]) -> Iterator[None]:
    """Lets the run within die when it commits to its table, after it has decided to publish.

    Args:
        monkeypatch: pytest's.
        commits: the functions, by owner and name, at which the run dies.
    """

    class Died(BaseException):
        pass

    def die(*_: Any, **__: Any) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(joint, "_take_back", lambda *_: False)
        patch.setattr(DraftFolder, "remove", DraftFolder.close)  # what the system does for a dead process
        for owner, name in commits:
            patch.setattr(owner, name, die)
        with pytest.raises(Died):
            yield


def check_a_death_is_completed(
    lake: Any, write: Callable[..., Any], places: list[str], monkeypatch: pytest.MonkeyPatch, *commits: tuple[Any, str]
) -> None:
    """Check that `clinker recover` completes a merge whose run has died, with the files that go and those that come.

    Args:
        lake: the table.
        write: merges records into it.
        places: the further arguments of `clinker recover`.
        monkeypatch: pytest's.
        commits: see `death_after_decision`.
    """
    done(write(row(1, "a"), row(2, "b"), nodes=BESIDE))
    with death_after_decision(monkeypatch, *commits):
        write(row(2, "B"), nodes=BESIDE)
    assert lake.rows() == [(1, "a"), (2, "b")]
    assert command.main([str(lake.folder / "out"), *places], lake.folder) == 0
    assert lake.rows() == [(1, "a"), (2, "B")]
    assert (lake.folder / "out/lines.csv").read_text().splitlines()[1:] == ["2,B"]
    done(write(row(3, "c"), nodes=BESIDE))
    assert lake.rows() == [(1, "a"), (2, "B"), (3, "c")]
    assert [name for name in lake.left() if ".clinker" in name] == []
