"""Packs the engine into the zip that `spark-submit --py-files` takes to the driver and the executors.

The zip is a function of the package's files alone: sorted names, fixed times and modes, nothing compressed (so that no
version of zlib shows). Beside each module stands its compiled form, because Python keeps no cache for modules of a zip
and would compile the engine again in every Python process of the cluster; another minor version of Python ignores it
and takes the source. Standard library only.

`spark-submit` puts this folder first on the driver's import path, so no module in it may be called like a library
that others import: this one is not `packaging`.
"""

from __future__ import annotations

import atexit
import importlib.util
import marshal
import os
import shutil
import tempfile
import zipfile
from functools import cache
from importlib import resources
from importlib.machinery import SourceFileLoader
from io import BytesIO
from pathlib import Path, PurePosixPath
from types import CodeType

PACKAGE = "spark_jobs"
#: The file that `spark-submit` is given as the application, in the package's folder.
APPLICATION = "run_pipeline.py"
#: Other files that are packed with the modules: the grammar, and the pages of `clinker explain`.
DATA_SUFFIXES = frozenset({".lark", ".md"})

_TIMESTAMP = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644 << 16
# The flags of a compiled module that is to be used without looking at the time or hash of its source.
_UNCHECKED_HASH = (1).to_bytes(4, "little")
# Marshal's formats from 3 on depend on reference counts at the time of writing; 2 depends on the code alone.
_MARSHAL_FORMAT = 2


def package_root() -> Path:
    """The folder of the installed engine.

    Raises:
        FileNotFoundError: when the engine is not a folder of files (it was itself imported from a zip).
    """
    root = Path(str(resources.files(PACKAGE)))
    if not root.is_dir():
        raise FileNotFoundError(f"{PACKAGE} is not installed as a folder: {root}")
    return root


def application() -> Path:
    """The installed application file that `spark-submit` runs."""
    return package_root() / APPLICATION


def build(target: Path, *, root: Path | None = None) -> Path:
    """Write the zip to `target`, complete or not at all; returns `target`.

    Args:
        target: where the zip goes; missing folders are made.
        root: the package's folder, by default the installed one.

    Raises:
        OSError: when a file cannot be read or the zip cannot be written.
    """
    content = content_of(root or package_root())
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


@cache
def build_temporary() -> Path:
    """The zip in a temporary folder: built once in a process, removed when the process ends.

    Raises:
        OSError: as `build`.
    """
    folder = Path(tempfile.mkdtemp(prefix="clinker-package-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return build(folder / f"{PACKAGE}.zip")


def content_of(root: Path) -> bytes:
    """The zip's bytes for a package folder."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for path in _files(root):
            name = PurePosixPath(PACKAGE, *path.relative_to(root).parts)
            _add(archive, str(name), path.read_bytes())
            if path.suffix == ".py":
                _add(archive, str(name.with_suffix(".pyc")), _compiled(path, name))
    return buffer.getvalue()


def _files(root: Path) -> list[Path]:
    wanted = DATA_SUFFIXES | {".py"}
    found = (path for path in root.rglob("*") if path.suffix in wanted and path.is_file())
    return sorted(found, key=lambda path: path.relative_to(root).parts)


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _TIMESTAMP)
    entry.external_attr = _MODE
    entry.create_system = 3  # Unix, whatever system packs
    archive.writestr(entry, content)


def _compiled(path: Path, name: PurePosixPath) -> bytes:
    module = ".".join(name.with_suffix("").parts)
    # The loader takes Python's own cache of the installed module when that is fresh, which makes packing quick.
    code = SourceFileLoader(module, str(path)).get_code(module)
    if code is None:  # pragma: no cover - a source loader always has code
        raise ImportError(f"no code in {path}")
    source_hash = importlib.util.source_hash(path.read_bytes())
    body = marshal.dumps(_renamed(code, str(name)), _MARSHAL_FORMAT)
    return importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH + source_hash + body


def _renamed(code: CodeType, filename: str) -> CodeType:
    """The code with a file name that is the same on every machine."""
    constants = tuple(_renamed(item, filename) if isinstance(item, CodeType) else item for item in code.co_consts)
    return code.replace(co_filename=filename, co_consts=constants)
