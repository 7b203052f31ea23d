"""What `spark-submit` starts: the terminal's `clinker run` inside a submitted application.

    spark-submit --py-files dist/spark_jobs.zip run_pipeline.py pipeline.yaml [options of clinker run]
"""

from __future__ import annotations

import sys


def main(arguments: list[str]) -> int:
    """Run a pipeline; gives the exit code."""
    from spark_jobs.cli import clinker

    return clinker.main(["run", *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
