"""The proxy that the environment names for an address: `http_proxy`, `https_proxy` and `no_proxy`, in either case.

The clients of S3 and Azure go through it by themselves; all others ask here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

#: The variables that name proxies.
VARIABLES = tuple(spelled for name in ("http_proxy", "https_proxy", "no_proxy") for spelled in (name, name.upper()))
#: Hosts where machines of a cloud get their own credentials. A proxy does not know which machine asks.
_OF_THE_MACHINE = frozenset(["169.254.169.254", "metadata.google.internal", "metadata"])


def of(url: str) -> str | None:
    """The address of the proxy for an address, as it is written; None where requests go straight to it."""
    import urllib.request  # it takes some milliseconds, and commands that plan need none

    parts = urlsplit(url)
    if parts.hostname in _OF_THE_MACHINE or urllib.request.proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return urllib.request.getproxies().get(parts.scheme.lower()) or None


def settings(proxy: str) -> dict[str, Any]:
    """The settings of urllib3 for a proxy, with the user name and password from its address."""
    import urllib3

    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    user = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
    headers = urllib3.make_headers(proxy_basic_auth=user) if user else None
    return {"proxy": f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", "proxy_headers": headers}


@dataclass(frozen=True)
class Connections:
    """Connections of urllib3, direct or through the proxy that the environment names for an address.

    Args:
        most: how many stay open to each host.
        connect_s: seconds that connecting may take.
        read_s: seconds without a byte of an answer.
    """

    most: int
    connect_s: float
    read_s: float
    _pools: dict[str | None, Any] = field(default_factory=dict)

    def request(self, method: str, url: str, **more: Any) -> Any:
        """Send a request as urllib3 does."""
        import urllib3

        proxy = of(url)
        if proxy not in self._pools:
            timeout = urllib3.Timeout(connect=self.connect_s, read=self.read_s)
            chosen: dict[str, Any] = {"maxsize": self.most, "timeout": timeout}
            through = settings(proxy) if proxy else None
            made = (
                urllib3.ProxyManager(through["proxy"], proxy_headers=through["proxy_headers"], **chosen)
                if through
                else urllib3.PoolManager(**chosen)
            )
            self._pools.setdefault(proxy, made)
        return self._pools[proxy].request(method, url, **more)
