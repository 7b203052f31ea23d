"""pytest collects files of cases: each case is a test. Loaded with pytest wherever the engine is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from spark_jobs.cli.cases.reading import Case

#: As `reading.ENDING`, which would load the planner.
_ENDING = ".test.yaml"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect files of cases."""
    return CaseFile.from_parent(parent, path=file_path) if file_path.name.endswith(_ENDING) else None


class CaseFile(pytest.File):
    """A file of cases."""

    def collect(self) -> Iterator[pytest.Item]:
        """Collect an item for each case of the file."""
        from spark_jobs.cli.cases import reading
        from spark_jobs.diagnostics import render
        from spark_jobs.diagnostics.diagnostic import Diagnostics

        found = Diagnostics()
        for case in reading.read(self.path, found):
            yield CaseItem.from_parent(self, name=case.name, case=case)
        if found.has_errors:
            raise self.CollectError(render.render(found.sorted(), render.Style.CONCISE, colour=False))


class Failed(Exception):
    """A case that fails; the text shows how."""


class CaseItem(pytest.Item):
    """A case as an item of pytest."""

    def __init__(self, *, case: Case, **more: Any) -> None:
        super().__init__(**more)
        self.case = case

    def runtest(self) -> None:
        """Run the case; a difference fails the test."""
        from spark_jobs.cli.cases import command

        result = command.run(self.case)
        if result.differences:
            raise Failed("\n".join(command.failure_lines(result)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The differences alone, without a traceback of ours."""
        return str(excinfo.value) if isinstance(excinfo.value, Failed) else super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        """The file, line and title of the case, for reports of pytest."""
        return self.path, self.case.span.line - 1, self.name
