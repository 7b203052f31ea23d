"""Catalogues of Iceberg tables, and the tables in them; the driver alone asks, through `pyiceberg`."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa

from spark_jobs import credentials
from spark_jobs.formats.tables.files import FAILED
from spark_jobs.scan import catalogs
from spark_jobs.scan.files import FormatError
from spark_jobs.stores import location as locations
from spark_jobs.stores import proxies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from spark_jobs.stores.settings import S3Settings, StoreSettings


#: The longest words of others that a message has.
_MOST_SAID = 500
_REFUSED = "check the `token` or the `credential` of the catalogue in its variables"
_LATER = "try again later"
#: Remedies, by the names of the library's errors.
_ADVICE = {
    "UnauthorizedError": _REFUSED,
    "OAuthError": _REFUSED,
    "AuthorizationExpiredError": _REFUSED,
    "ForbiddenError": "whoever keeps the catalogue has to allow it",
    "ServiceUnavailableError": _LATER,
    "TooManyRequestsError": _LATER,
    "ServerError": _LATER,
    "ConnectionError": "check the `uri` of the catalogue, and whether it runs",
}


def opened(name: str, known: Mapping[str, Mapping[str, str]], stores: StoreSettings) -> Catalog:
    """A catalogue by its name; the environment and the files of the library go before `clinker.toml`.

    Args:
        name: the name.
        known: the properties of catalogues in `clinker.toml`, by their names.
        stores: resolved settings; a catalogue that says nothing of a store is reached by these.

    Raises:
        FormatError: there is none, or it cannot be asked (E912).
    """
    if importlib.util.find_spec("pyiceberg") is None:
        raise FormatError("Iceberg tables need a package: pip install 'clinker-spark[iceberg]'", name, FAILED)
    of_library = _of_library(name)
    written = {**known.get(name, {}), **of_library}
    if not written:
        listed = ", ".join(sorted(known)) or "none"
        text = (
            f"there is no such catalogue: add [catalogs.{name}] with `uri` to clinker.toml, which has {listed}, or set "
            f"{catalogs.variable(name, 'uri')}"
        )
        raise FormatError(text, f"catalogue '{name}'", FAILED)
    with translated_errors(f"catalogue '{name}'", written):
        from pyiceberg.catalog import load_catalog

        return load_catalog(name, **{**_of_store(stores.s3), **written})


def _of_library(name: str) -> Mapping[str, Any]:
    """Read the properties of a catalogue from the environment and the configuration files of PyIceberg.

    Raises:
        FormatError: a file cannot be read (E912).
    """
    with translated_errors(f"catalogue '{name}'"):
        # Other modules of the library read its files when they are loaded.
        from pyiceberg.utils.config import Config
        from strictyaml.ruamel.error import MarkedYAMLError  # type: ignore[import-untyped]

        try:
            found: Mapping[str, Any] = Config().get_catalog_config(name) or {}
        except MarkedYAMLError as error:
            # The message quotes lines of the file, which may be secrets.
            mark = error.problem_mark or error.context_mark
            where = f"line {mark.line + 1} of .pyiceberg.yaml" if mark is not None else ".pyiceberg.yaml"
            text = f"{where} cannot be read; correct it there: {error.problem or error.context}"
            raise FormatError(text, f"catalogue '{name}'", FAILED) from None
    return found


def _of_store(settings: S3Settings) -> dict[str, str]:
    """Give the properties that PyIceberg needs for a store, credentials included: never keep or show them."""
    from botocore import session

    found = {}
    if settings.endpoint:
        found["s3.endpoint"] = settings.endpoint
    if proxy := proxies.of(settings.endpoint or "https://s3.amazonaws.com"):
        found["s3.proxy-uri"] = proxy if "://" in proxy else f"http://{proxy}"
    if settings.region:
        found["s3.region"] = settings.region
    is_in_path = settings.path_style if settings.path_style is not None else bool(settings.endpoint)
    found["s3.force-virtual-addressing"] = str(not is_in_path).lower()
    if settings.anonymous:
        return {**found, "s3.anonymous": "true"}
    credentials_found = session.get_session().get_credentials()
    if credentials_found is not None:
        frozen = credentials_found.get_frozen_credentials()
        found["s3.access-key-id"], found["s3.secret-access-key"] = frozen.access_key, frozen.secret_key
        if frozen.token:
            found["s3.session-token"] = frozen.token
    return found


def table(catalog: Catalog, name: str) -> Table | None:
    """A table in its newest state; None where there is none.

    Raises:
        FormatError: it cannot be read (E912).
    """
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    with translated_errors(name, catalog.properties):
        try:
            return catalog.load_table(name)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None


class translated_errors:
    """Translate errors of the library into errors with the table's name and without secrets.

    Args:
        name: the name of the table or catalogue.
        properties: the properties of the catalogue.
        what: the beginning of the message.

    Raises:
        FormatError: it cannot be read (E912).
    """

    def __init__(
        self, name: str, properties: Mapping[str, Any] | None = None, what: str = "the table cannot be read"
    ) -> None:
        self._name = name
        self._properties = properties or {}
        self._what = what

    def __enter__(self) -> None:
        """Nothing is needed."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, FormatError) or not is_of_library(error):
            return
        text = said(error, self._properties)
        if advice := _ADVICE.get(type(error).__name__):
            text = f"{text}; {advice}"
        raise FormatError(f"{self._what}: {text}", self._name, FAILED) from error


def is_of_library(error: BaseException) -> bool:
    """Whether an error comes from the library, or from a client that it uses, and not from this product."""
    if isinstance(error, (OSError, ValueError, pa.ArrowException, ImportError, NotImplementedError)):
        return True
    # The library's exceptions have no common base class, and it passes on exceptions of databases and of the network.
    modules = {each.__module__.partition(".")[0] for each in type(error).__mro__}
    return bool(modules & {"pyiceberg", "sqlalchemy", "requests", "pydantic_core", "botocore", "boto3", "thrift"})


def said(error: BaseException, properties: Mapping[str, Any]) -> str:
    """The words of an error, without the secrets of a catalogue."""
    text = " ".join(str(error).split()) or type(error).__name__
    if len(text) > _MOST_SAID:  # a server may answer with a whole page
        text = f"{text[:_MOST_SAID]} …"
    for secret in sorted(catalogs.secrets_of(properties), key=len, reverse=True):
        text = text.replace(secret, credentials.HIDDEN)
    return text


def place_of(location: str, name: str) -> str:
    """Where a file or folder of a table is: an absolute path, or a URI of a store.

    Raises:
        FormatError: it is in no folder and no store that is known here (E912).
    """
    scheme = locations.scheme_of(location)
    if scheme in ("", "file"):
        path = urlsplit(location).path if scheme else location
        return os.path.abspath(path)
    if scheme != "s3":
        raise FormatError(f"Iceberg tables are in local folders and on S3 here, and not in {scheme}", name, FAILED)
    return "s3://" + location.partition("://")[2]
