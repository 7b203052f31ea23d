from collections.abc import Iterator, Sequence
from typing import Any

from pyarrow import RecordBatch, Schema, Table

class ColumnChunkMetaData:
    data_page_offset: int
    dictionary_page_offset: int | None
    total_compressed_size: int

class RowGroupMetaData:
    num_rows: int
    num_columns: int
    total_byte_size: int
    def column(self, i: int) -> ColumnChunkMetaData: ...

class FileMetaData:
    num_rows: int
    num_row_groups: int
    def row_group(self, i: int) -> RowGroupMetaData: ...

class ParquetFile:
    def __init__(self, source: Any, *, coerce_int96_timestamp_unit: str | None = None) -> None: ...
    @property
    def metadata(self) -> FileMetaData: ...
    @property
    def schema_arrow(self) -> Schema: ...
    @property
    def num_row_groups(self) -> int: ...
    def iter_batches(
        self,
        batch_size: int = 65536,
        row_groups: Sequence[int] | None = None,
        columns: Sequence[str] | None = None,
        use_threads: bool = True,
    ) -> Iterator[RecordBatch]: ...

class ParquetWriter:
    def __init__(self, where: Any, schema: Schema, compression: str = "snappy") -> None: ...
    def write_table(self, table: Table) -> None: ...
    def close(self) -> None: ...
