"""Disk use in `explain`: how much a run may spill, how much the cap allows, and which files it would stage.

Nothing is copied and nothing spilled; staged copies are looked up as a run would do it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from spark_jobs.nodes.records.columns import CORRELATION
from spark_jobs.plan.physical import spill_estimates
from spark_jobs.scan.staging import staged_copy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.nodes.terms.shape import Arrival
    from spark_jobs.plan.physical.inputs import Discovered
    from spark_jobs.plan.plan import Plan, PlannedNode
    from spark_jobs.plan.reading.workspace import Storage
    from spark_jobs.scan.files import InputFile

_EXCLUDED = (
    "(excludes stages whose volume is unknown at plan time — a network source, a missing or unreadable input, or a "
    "glob/regex matcher whose discovery fails)"
)
_INVOCATION = (
    "[per invocation — does NOT account for sibling invocations sharing the spill volume under partition-and-run]"
)


def spill(plan: Plan) -> list[str]:
    """The spill folder of a run, its limit, and the compression."""
    storage: Storage = plan.storage
    origin = "[storage.spill.dir]" if storage.spill_dir else "[OS temp dir (default)]"
    lines = [f"Spill root: {storage.spill_root} {origin}"]
    if storage.spill_cap_bytes is not None:
        lines.append(f"Spill disk cap: {storage.spill_cap_bytes} bytes [storage.spill.disk_cap_bytes]")
    else:
        lines.append("Spill disk cap: unlimited (default)")
    if names := spill_estimates.stages(plan):
        lines.append(f"Spill compression: {storage.compress.title()} [storage.spill.compress]")
        lines += [
            f"  {_operator(plan, name, arrival)} '{name}' → {_compression(plan, arrival)}"
            for name, arrival in names.items()
        ]
    return lines


def _operator(plan: Plan, name: str, arrival: Arrival) -> str:
    return plan.by_name[name].kind.title() if arrival.passage.spills else "Sort"


def _compression(plan: Plan, arrival: Arrival) -> str:
    """The compression that `auto` chooses: lz4 for runs of megabytes. Sorted runs are the bytes of the output."""
    is_off = plan.storage.compress == "off" or not arrival.passage.spills
    return "off" if is_off else "lz4"


def volumes(plan: Plan, sources: Mapping[str, Discovered]) -> list[str]:
    """A line for each stage that may spill, and their total; none when there is no such stage."""
    found = spill_estimates.estimate(plan, sources)
    if not found.stages:
        return []
    lines = ["Estimated spill volume (per blocking stage):"]
    lines += [
        f"  {stage.title} → {'unknown' if stage.bytes is None else binary(stage.bytes)}" for stage in found.stages
    ]
    if found.any_unknown:
        return [*lines, f"  Total (known stages): {binary(found.total)} {_EXCLUDED}"]
    return [*lines, f"  Total: {binary(found.total)}"]


def binary(size: int) -> str:
    """Bytes for people, in KiB, MiB and GiB as `K`, `M`, `G`: `512B`, `1.5K`, `64M`."""
    value, unit = float(size), "B"
    for larger in ("K", "M", "G"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f}".removesuffix(".0") + unit


def headroom(plan: Plan, sources: Mapping[str, Discovered]) -> list[str]:
    """The part of the spill cap that the estimate leaves; empty without a cap or an estimate."""
    found = _headroom(plan, sources)
    if found is None:
        return []
    line = (
        f"Cap headroom: {found.free} bytes free ({found.estimated} estimated of {found.cap} cap, "
        f"{found.percent:.0f}%) {_INVOCATION}"
    )
    if not found.is_short:
        return [line]
    return [line, f"  WARNING: the estimate is {found.percent:.0f}% of the cap; the run may abort with E320"]


def _headroom(plan: Plan, sources: Mapping[str, Discovered]) -> spill_estimates.Headroom | None:
    return spill_estimates.estimate(plan, sources).headroom(plan.storage.spill_cap_bytes)


def staging(plan: Plan, sources: Mapping[str, Discovered]) -> list[str]:
    """For each file whether it would be staged, where, and whether a copy of it could be used again."""
    storage: Storage = plan.storage
    if storage.staging is None:
        return ["Source staging is disabled — every source reads in place."]
    lines = []
    for source in _sources(storage.staging, sources):
        if not source["stagable"]:
            lines.append(f"Source '{source['name']}': not stagable (network source reads in place)")
            continue
        lines.append(f"Source '{source['name']}':")
        for file in source["files"]:
            if file["staged"]:
                fate = f"yes, path: {file['staged_path']}, reuse: {file['reuse']}"
            else:
                fate = "no (no pattern match, reads in place)"
            lines.append(f"  {file['source_path']} → staged: {fate}")
        if "discovery_error" in source:
            lines.append(f"  (discovery failed: {source['discovery_error']})")
        elif not source["files"]:
            lines.append("  (no files matched)")
    return lines


def record(plan: Plan, sources: Mapping[str, Discovered]) -> dict[str, Any]:
    """Everything about storage as plain data, with the spill root and its cap."""
    storage: Storage = plan.storage
    found, room = spill_estimates.estimate(plan, sources), _headroom(plan, sources)
    return {
        "spill_root": {
            "path": storage.spill_root,
            "source": "storage.spill.dir" if storage.spill_dir else "OS temp dir (default)",
        },
        "spill_disk_cap_bytes": storage.spill_cap_bytes,
        "estimated_spill": {
            "per_stage": [
                {"node_name": stage.name, "display_name": stage.title, "estimate_bytes": stage.bytes}
                for stage in found.stages
            ],
            "total_known_bytes": found.total,
            "any_unknown": found.any_unknown,
        },
        "spill_compression": {
            "mode": storage.compress,
            "per_operator": [
                {
                    "node_name": name,
                    "display_name": spill_estimates.title(name, arrival),
                    "compression": _compression(plan, arrival),
                }
                for name, arrival in spill_estimates.stages(plan).items()
            ],
        },
        "cap_headroom": {
            "headroom_bytes": room.free,
            "estimated_bytes": room.estimated,
            "cap_bytes": room.cap,
            "pct_of_cap": room.percent,
            "over_threshold": room.is_short,
        }
        if room
        else None,
        "staging": {
            "enabled": storage.staging is not None,
            "sources": _sources(storage.staging, sources) if storage.staging else [],
        },
    }


def _sources(settings: staged_copy.Settings, sources: Mapping[str, Discovered]) -> list[dict[str, Any]]:
    found = []
    for name, source in sources.items():
        record: dict[str, Any] = {"name": name, "stagable": not source.is_network}
        record["files"] = [_file(settings, file) for file in source.files]
        if source.problem is not None:
            record["discovery_error"] = str(source.problem)
        found.append(record)
    return found


def _file(settings: staged_copy.Settings, file: InputFile) -> dict[str, Any]:
    path = file.path if file.is_object else os.path.normpath(file.path)
    if not settings.wants(file):
        return {"source_path": path, "staged": False}
    copy = staged_copy.StagedCopy.of(settings.folder, file.path)
    return {
        "source_path": path,
        "staged": True,
        "staged_path": str(copy.data),
        "reuse": staged_copy.forecast(settings, file),
    }


def node_properties(plan: Plan, sources: Mapping[str, Discovered]) -> dict[str, dict[str, Any]]:
    """The bytes that each node holds at its peak, frees when it is done, and lets others free."""
    volumes = spill_estimates.volumes(plan, sources)
    waiting = spill_estimates.stages(plan)
    properties: dict[str, dict[str, Any]] = {}
    for planned in reversed(plan.nodes):
        peak = volumes[planned.name] or 0
        freed = peak if planned.name in waiting else 0
        # A node with several inputs belongs to none of the chains that feed it.
        chains = [consumer.name for consumer, _ in plan.consumers[planned.name] if len(consumer.inputs) == 1]
        reclaim = max([freed, *(properties[name]["predicted_subtree_reclaim_bytes"] for name in chains)])
        properties[planned.name] = {
            "ck_set": _correlation(planned),
            "predicted_peak_bytes": peak,
            "predicted_freed_bytes_on_complete": freed,
            "predicted_subtree_reclaim_bytes": reclaim,
        }
    return {planned.name: properties[planned.name] for planned in plan.nodes}


def _correlation(planned: PlannedNode) -> list[str]:
    row = next(iter(planned.outputs.values()), ())
    return [*CORRELATION.keys(column.name for column in row)]
