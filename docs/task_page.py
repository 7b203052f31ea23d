"""Draws the page of an Airflow task for `docs/airflow.md`, on a light and on a dark screen: `python -m docs.task_page`.

It runs the example `orders`, makes the page of what the run left, and lets Chromium take a picture of it. Needs Java
for the run, and `chromium` on the path.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from clinker_provider import on_call, outcome, validation, xcoms
from clinker_provider.plugins import page
from spark_jobs import result

REPOSITORY = Path(__file__).resolve().parent.parent
IMAGES = REPOSITORY / "docs" / "images"
EXECUTION = "clinker_orders.run.2026-03-03.1"
#: Up to the plan, which is below.
WIDTH, HEIGHT = 1100, 860
#: Chromium's numbers of the schemes that a screen may prefer.
SCHEMES = {"dark": 0, "light": 1}


def main() -> None:
    """Write both pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        example = folder / "orders"
        shutil.copytree(REPOSITORY / "examples" / "orders", example, ignore=shutil.ignore_patterns("output"))
        record = ran(example, folder / "work")
        text = page.page("clinker_orders", "run", *runs(example, record))
        html = folder / "page.html"
        # As it would be on a worker, wherever this runs.
        html.write_text(text.replace(name, "/opt/airflow/dags"))
        for scheme, number in SCHEMES.items():
            draw(html, IMAGES / f"task_page_{scheme}.png", number)


def ran(example: Path, work: Path) -> result.RunResult:
    """What the run of an example tells."""
    pipeline = str(example / "pipeline.yaml")
    clinker = str(Path(sys.executable).with_name("clinker"))
    command = [clinker, "run", pipeline, "--execution-id", EXECUTION]
    subprocess.run([*command, "--work-dir", str(work)], check=False)
    record = result.read(work, EXECUTION)
    if record is None:
        sys.exit("The run left no record.")
    return record


def runs(example: Path, record: result.RunResult) -> tuple[page.Run, list[page.Run]]:
    """That run, and two before it: one with another text of the pipeline, and one that failed."""
    pipeline = example / "pipeline.yaml"
    kept = {**on_call.of_plan(validation.Subject(pipeline)), "nodes": dict(record.nodes)}
    pushed: dict[str, Any] = xcoms.payload(
        outcome.decide(record.exit_code, record), record, execution_id=EXECUTION, application_id=None,
        master="local[*]", pipeline_path=str(pipeline),
    )  # fmt: skip
    pushed[xcoms.ON_CALL] = kept
    before = {**pushed, xcoms.ON_CALL: {"digests": {**kept["digests"], "priced": "another"}}}
    failed = {xcoms.STATUS: "failed", xcoms.EXIT_CODE: 4, xcoms.DLQ_COUNT: 0}
    now, *earlier = (
        page.Run(f"scheduled__{day}T00:00:00+00:00", state, f"{day} 00:00:04", duration, told)
        for day, state, duration, told in (
            ("2026-03-03", "success", 9.4, pushed),
            ("2026-03-02", "success", 9.1, before),
            ("2026-03-01", "failed", 4.2, failed),
        )
    )
    return now, earlier


def draw(html: Path, picture: Path, scheme: int) -> None:
    """Let Chromium draw a page as a screen of that scheme shows it."""
    subprocess.run(
        [
            "chromium", "--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}",
            f"--blink-settings=preferredColorScheme={scheme}", f"--user-data-dir={html.parent / 'browser'}",
            f"--screenshot={picture}", html.as_uri(),
        ],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip


if __name__ == "__main__":
    main()
