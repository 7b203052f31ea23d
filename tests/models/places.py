"""What the model of correlation knows of nodes without looking at rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from spark_jobs.plan.plan import Plan


class Places:
    """The key columns of each node, its sources, what it stands behind, how often records depend on others there."""

    def __init__(self, plan: Plan, raw: dict[str, Any]) -> None:
        self.plan = plan
        self.raw = {node["name"]: node for node in raw["nodes"]}
        for call in [node for node in raw["nodes"] if node["type"] == "composition"]:
            body = yaml.load((plan.base_dir / call["use"]).read_text(), yaml.CSafeLoader)
            self.raw |= {f"{call['name']}/{node['name']}": node for node in body["nodes"]}
        self.order = {name: number for number, name in enumerate(self.raw)}
        self.keys = {name: step.correlation_key for name, step in plan.sources.items()}
        self.is_correlated = any(self.keys.values())
        self.given: dict[str, tuple[str, ...]] = {}
        #: The mixed aggregates of whose groups rows carry the numbers.
        self.numbers: dict[str, frozenset[str]] = {}
        self.streams: dict[str, frozenset[str]] = {}
        #: How often records depend on others on their way to a node, and with the node itself.
        self.depths: dict[str, int] = {}
        self.depths_behind: dict[str, int] = {}
        self.is_downstream: dict[str, bool] = {}
        #: The sources and key fields by which the rows of nodes are of groups, and all of them.
        self.fields_of: dict[str, frozenset[tuple[str, frozenset[str]]]] = {}
        self.views: set[tuple[str, frozenset[str]]] = set()

    def place(self, planned: Any) -> None:
        """What is known of a node without looking at rows: its key columns, its sources, what it is downstream of."""
        name, sides = planned.name, [edge.node for edge in planned.inputs]
        grows = planned.kind == "aggregate"
        above = max([self.depths_behind[side] for side in sides], default=0)
        self.depths[name] = above + self._looks_around(planned)
        self.depths_behind[name] = self.depths[name] + grows
        self.is_downstream[name] = any(self.is_downstream[side] or self._mixes(side) for side in sides)
        driver = planned.step.driver if planned.kind == "combine" else ""
        streams = [self.streams[edge.node] for edge in planned.inputs if edge.qualifier == driver]
        self.streams[name] = frozenset().union(*streams) if sides else frozenset([name])
        carried = [self.given[side] for side in sides]
        numbers = [self.numbers[side] for side in sides]
        self.numbers[name] = frozenset().union(*numbers)
        if not sides:
            self.given[name] = self.keys[name]
        elif planned.kind == "merge":
            self.given[name] = tuple(key for key in carried[0] if all(key in other for other in carried))
            self.numbers[name] = frozenset.intersection(*numbers)
        elif planned.kind == "combine":
            self.given[name] = self._combined(planned)
            if self._propagates(name) == "driver":
                self.numbers[name] = frozenset().union(
                    *(self.numbers[e.node] for e in planned.inputs if e.qualifier == driver)
                )
        elif grows:
            self.given[name] = tuple(key for key in carried[0] if key in planned.step.group_by)
            self.numbers[name] = frozenset([name] if self._mixes(name) else [])
        else:
            self.given[name] = carried[0]
        self.fields_of[name] = self._grouped_by(planned)
        self.views |= self.fields_of[name]

    def _grouped_by(self, planned: Any) -> frozenset[tuple[str, frozenset[str]]]:
        """By which fields, and of which sources, the rows of a node belong to groups."""
        name = planned.name
        if not planned.inputs:
            return frozenset([(name, frozenset(self.keys[name]))])
        if self._mixes(name):
            return frozenset()
        driver = planned.step.driver if planned.kind == "combine" else ""
        is_carried = planned.kind == "combine" and self._propagates(name) != "driver"
        sides = [edge.node for edge in planned.inputs if edge.qualifier == driver or is_carried]
        left = {(source, fields & set(self.given[name])) for side in sides for source, fields in self.fields_of[side]}
        if planned.kind == "merge":
            left |= {(source, fields) for _, fields in left for source in self.streams[name]}
        return frozenset((source, fields) for source, fields in left if fields)

    def _combined(self, planned: Any) -> tuple[str, ...]:
        propagate = self._propagates(planned.name)
        driver = next(edge.node for edge in planned.inputs if edge.qualifier == planned.step.driver)
        every = dict.fromkeys(key for edge in planned.inputs for key in self.given[edge.node])
        if propagate == "driver":
            return self.given[driver]
        return tuple(every) if propagate == "all" else tuple(key for key in every if key in propagate["named"])

    def _propagates(self, name: str) -> Any:
        return self.raw[name]["config"].get("propagate_ck", "driver")

    def _looks_around(self, planned: Any) -> bool:
        """Whether what becomes of a record at a node depends on others."""
        config = self.raw.get(planned.name, {}).get("config", {})
        reads_variables = bool(planned.step.reads_variables) if planned.inputs else False
        return (
            planned.kind == "combine"
            or reads_variables
            or "analytic_window" in config
            or "distinct" in str(config.get("cxl"))
        )

    def _makes_groups(self, name: str) -> bool:
        return self.plan.by_name[name].kind == "aggregate"

    def _mixes(self, name: str) -> bool:
        """Whether a node is an aggregate that leaves out a key: a field, or the number of a group."""
        if not self._makes_groups(name):
            return False
        planned: Any = self.plan.by_name[name]
        if planned.step.time_window is not None:
            return False  # windows are not computed again
        given = planned.inputs[0].node
        return bool(self.numbers[given]) or not set(self.given[given]) <= set(planned.step.group_by)
