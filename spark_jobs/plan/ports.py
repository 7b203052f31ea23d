"""Resolves references to ports of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes, nearest

if TYPE_CHECKING:
    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.plan.reading.wiring import Reference


def of(reference: Reference, consumer: str, ports: tuple[str, ...]) -> str | None:
    """The port that a reference means, None when it means none.

    A bare reference to a node with several ports means the port that is called like the consumer.
    """
    if reference.port in ports:
        return reference.port
    if not reference.port and consumer in ports:
        return consumer
    return None


def unknown(reference: Reference, consumer: str, ports: tuple[str, ...]) -> Diagnostic:
    """The error for a reference that matches no port."""
    named = [port for port in ports if port]
    if not ports:
        return codes.E004.at(reference.span, f"'{reference.node}' gives no records: nothing can read from it")
    if not named:
        message = f"'{reference.node}' has no ports, so '{reference.node}.{reference.port}' names nothing"
        return codes.E004.at(reference.span, message, help=f"write `{reference.node}`")
    listed = ", ".join(f"{reference.node}.{port}" for port in named)
    if not reference.port:
        message = f"'{reference.node}' has several ports; '{consumer}' must name one"
        return codes.E004.at(reference.span, message, help=f"write one of {listed}")
    message = f"'{reference.node}' has no port '{reference.port}'"
    return codes.E004.at(reference.span, message, help=nearest.hint(reference.port, named) or f"its ports: {listed}")
