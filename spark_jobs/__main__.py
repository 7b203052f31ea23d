"""`python -m spark_jobs`: the `clinker` command."""

from __future__ import annotations

from spark_jobs.cli import clinker

if __name__ == "__main__":
    clinker.run()
