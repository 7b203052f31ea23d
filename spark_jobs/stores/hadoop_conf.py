"""Reads a machine's Hadoop configuration for HDFS: the web addresses of namenodes, and delegation tokens.

It reads the same files as Hadoop's own tools: `core-site.xml` and `hdfs-site.xml` in `HADOOP_CONF_DIR`, and the token
file that `HADOOP_TOKEN_FILE_LOCATION` names, which YARN gives to containers and `hdfs fetchdt` writes.
"""

from __future__ import annotations

import base64
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from spark_jobs.stores.refusals import Kind, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The kinds of tokens that namenodes take over HTTP.
_KINDS = {"HDFS_DELEGATION_TOKEN", "WEBHDFS delegation", "SWEBHDFS delegation"}
#: The prefix of services that are nameservices.
_LOGICAL = re.compile(r"(?:ha-)?(?:hdfs|webhdfs|swebhdfs):(?://)?")
_VARIABLE = re.compile(r"\$\{([\w.-]+)\}")
_RPC = ":8020"
#: The port of a namenode's web address, where nothing says another one, without and with TLS.
PORT, TLS_PORT = 9870, 9871
#: So deep may values name one another.
_DEPTH = 20


@dataclass(frozen=True)
class HadoopConf:
    """The file systems of a configuration.

    Args:
        namenodes: for each name that stands in `hdfs://` URIs, the web addresses of its namenodes.
        default: the name that `hdfs:///path` means; empty where nothing says so.
        problem: why the configuration could not be read; empty where it was, or where there is none.
    """

    namenodes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    default: str = ""
    problem: str = ""


def read(folder: str | None) -> HadoopConf:
    """The configuration in a folder, `HADOOP_CONF_DIR`; an empty one where there is none."""
    if not folder:
        return HadoopConf()
    values: dict[str, str] = {}
    for name in ("core-site.xml", "hdfs-site.xml"):
        try:
            values |= dict(_properties(Path(folder, name)))
        except FileNotFoundError:
            continue
        except (OSError, ElementTree.ParseError) as error:
            says = error.strerror if isinstance(error, OSError) else error
            return HadoopConf(problem=f"{Path(folder, name)} cannot be read: {says}")
    default = _value(values, "fs.defaultFS")
    known = dict[str, tuple[str, ...]]()
    for service in _listed(_value(values, "dfs.nameservices")):
        nodes = _listed(_value(values, f"dfs.ha.namenodes.{service}"))
        addresses = [_address(values, f".{service}.{node}") for node in nodes] or [_address(values, f".{service}")]
        if found := tuple(each for each in addresses if each):
            known[service.lower()] = found
    name = default.partition("://")[2].partition("/")[0].lower() if default.startswith("hdfs://") else ""
    if name and name not in known and (single := _address(values, "")):
        known[name] = (single,)
    # The port of the protocol that Hadoop's own clients speak is left out of URIs as well.
    known |= {each[: -len(_RPC)]: found for each, found in known.items() if each.endswith(_RPC)}
    return HadoopConf(tuple(known.items()), name)


def _properties(path: Path) -> Iterator[tuple[str, str]]:
    for each in ElementTree.parse(path).getroot().iter("property"):
        name, value = each.findtext("name"), each.findtext("value")
        if name and value is not None:
            yield name.strip(), value.strip()


def _value(values: Mapping[str, str], name: str) -> str:
    """Expand the variables in a value."""
    text = values.get(name, "")
    for _ in range(_DEPTH):
        text, count = _VARIABLE.subn(lambda found: values.get(found.group(1), ""), text)
        if not count:
            break
    return text


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _address(values: Mapping[str, str], suffix: str) -> str:
    """The web address of a namenode; empty where nothing says it."""
    is_tls = _value(values, "dfs.http.policy").upper() == "HTTPS_ONLY"
    scheme, key = ("https", "dfs.namenode.https-address") if is_tls else ("http", "dfs.namenode.http-address")
    host, _, port = _value(values, key + suffix).rpartition(":")
    if not host or host == "0.0.0.0":
        host = _value(values, f"dfs.namenode.rpc-address{suffix}").rpartition(":")[0]
    return f"{scheme}://{host}:{port or (TLS_PORT if is_tls else PORT)}" if host else ""


@dataclass(frozen=True)
class _Token:
    service: str
    kind: str
    text: str


def token(authority: str, path: str | None, uri: str) -> str | None:
    """The delegation token for a name in URIs, as requests have it; None where this machine has no tokens.

    A token goes to no other cluster than the one that gave it: one that names an address is for that host alone.

    Args:
        authority: the name in the URI, or a namenode's host and port.
        path: the file of tokens, `HADOOP_TOKEN_FILE_LOCATION`.
        uri: for messages.

    Raises:
        StoreError: the file cannot be read.
    """
    if not path:
        return None
    try:
        found = [each for each in _tokens(Path(path).read_bytes()) if each.kind in _KINDS]
    except (OSError, ValueError, IndexError) as error:
        says = error.strerror if isinstance(error, OSError) else "it is no file of Hadoop's tokens in its first format"
        text = f"the tokens in {path} (HADOOP_TOKEN_FILE_LOCATION) cannot be read: {says}"
        raise StoreError(Kind.FORBIDDEN, text, uri) from error
    return next((each.text for each in found if _is_for(each.service, authority)), None)


def _is_for(service: str, authority: str) -> bool:
    name = _LOGICAL.sub("", service, count=1).lower()
    if name == authority.lower():
        return True
    host, mine = name.rpartition(":")[0] or name, authority.rpartition(":")[0] or authority
    return host == mine.lower() or host in _addresses(mine)


def _addresses(host: str) -> set[str]:
    try:
        return {str(each[4][0]) for each in socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)}
    except OSError:
        return set()


class _Reader:
    """The types of Hadoop's `Writable`s, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise ValueError("the file ends early")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self) -> int:
        """Read a `VInt`: one byte, or its length and sign and then its bytes."""
        first = int.from_bytes(self.take(1), signed=True)
        if first >= -112:
            return first
        is_negative = first < -120
        value = int.from_bytes(self.take(-first - (120 if is_negative else 112)))
        return ~value if is_negative else value

    def counted(self) -> bytes:
        return self.take(self.number())


def _tokens(data: bytes) -> Iterator[_Token]:
    reader = _Reader(data)
    if reader.take(5) != b"HDTS\x00":
        raise ValueError("another format")
    for _ in range(reader.number()):
        reader.counted()  # the alias
        identifier, password, kind, service = (reader.counted() for _ in range(4))
        packed = b"".join(_vint(len(each)) + each for each in (identifier, password, kind, service))
        text = base64.urlsafe_b64encode(packed).rstrip(b"=").decode()
        yield _Token(service.decode(), kind.decode(), text)


def _vint(value: int) -> bytes:
    """A number from 0 as a `VInt`."""
    if value <= 127:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return (-112 - size).to_bytes(1, signed=True) + value.to_bytes(size)
