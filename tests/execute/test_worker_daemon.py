"""What Python workers find on their search path, and that all they need is imported ahead."""

from __future__ import annotations

import importlib

from spark_jobs.execute.spark import worker_daemon


def test_the_zip_of_an_installed_pyspark_is_left_out(tmp_path):
    site = tmp_path / "site-packages"
    archive = site / "pyspark" / "python" / "lib" / "pyspark.zip"
    archive.parent.mkdir(parents=True)
    archive.touch()
    path = ["/engine", str(archive), str(archive.with_name("py4j-src.zip")), str(site)]
    assert worker_daemon.without_zip(path) == ["/engine", path[2], str(site)]


def test_the_zip_stays_where_nothing_else_has_pyspark(tmp_path):
    archive = tmp_path / "pyspark" / "python" / "lib" / "pyspark.zip"
    archive.parent.mkdir(parents=True)
    archive.touch()
    other = tmp_path / "other-site-packages"
    assert worker_daemon.without_zip([str(archive), str(other)]) == [str(archive), str(other)]
    assert worker_daemon.without_zip(["/pyspark.zip"]) == ["/pyspark.zip"]


def test_all_modules_that_are_imported_ahead_exist():
    for name in worker_daemon.ahead():
        assert importlib.util.find_spec(name), name
