"""Parquet: what its options are. Not written yet."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.formats.format import Format
from spark_jobs.formats.options import Options


@dataclass(frozen=True)
class ParquetRead(Options):
    """`options:` of a Parquet source: there are none, the file says all."""


@dataclass(frozen=True)
class ParquetWrite(Options):
    """`options:` of a Parquet output."""


FORMAT = Format("parquet", "Parquet", chapter=8, read_options=ParquetRead, write_options=ParquetWrite)
