from collections.abc import Iterator, Sequence
from typing import Any

from pyarrow import RecordBatch

class Fragment:
    def to_batches(
        self,
        *,
        columns: Sequence[str] | None = None,
        batch_size: int = ...,
        batch_readahead: int = ...,
        fragment_readahead: int = ...,
        use_threads: bool = True,
    ) -> Iterator[RecordBatch]: ...

class OrcFileFormat:
    def make_fragment(self, file: Any) -> Fragment: ...
