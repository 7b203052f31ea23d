from enum import Enum
from typing import Any

from pyarrow import NativeFile

class FileType(Enum):
    NotFound = 0
    Unknown = 1
    File = 2
    Directory = 3

class FileInfo:
    path: str
    type: FileType
    size: int
    mtime: Any
    mtime_ns: int | None

class FileSelector:
    def __init__(self, base_dir: str, allow_not_found: bool = False, recursive: bool = False) -> None: ...

class FileSystem:
    @staticmethod
    def from_uri(uri: str) -> tuple[FileSystem, str]: ...
    def get_file_info(self, path: str) -> FileInfo: ...
    def open_input_file(self, path: str) -> NativeFile: ...
    def open_input_stream(self, path: str) -> NativeFile: ...
    def open_output_stream(self, path: str) -> NativeFile: ...

class GcsFileSystem(FileSystem):
    def __init__(self, *, anonymous: bool = False, **settings: Any) -> None: ...

class LocalFileSystem(FileSystem):
    def __init__(self, *, use_mmap: bool = False) -> None: ...
