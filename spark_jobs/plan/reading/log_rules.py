"""The log rules file: each rule has default keys for the directives of `log:` that name it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes, nearest
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.nodes.transform.log_lines import LogConfig, LogRule, LogRules
from spark_jobs.plan.reading import document, reader, yaml_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spark_jobs.diagnostics.source import Span
    from spark_jobs.plan.reading.nodes import NodeSource
    from spark_jobs.stores.location import FilePath


@dataclass(frozen=True)
class RuleFile:
    """The file of rules: its path, the base folder, as the pipeline names it, and where."""

    path: FilePath
    base_dir: FilePath
    name: str
    place: Span


def load(nodes: Iterable[NodeSource], file: RuleFile | None, variables: Mapping[str, str], found: Diagnostics) -> None:
    """Complete the directives that name a rule by its keys; problems of either are reported.

    Args:
        nodes: all nodes; trees and models of such directives are completed.
        file: the rules. It is read when a directive asks for one.
        variables: the values of variables.
        found: where problems go.
    """
    rules: Mapping[str, yaml_tree.Mapping] | None = None
    problems = Diagnostics()
    for node in nodes:
        named = [(i, each) for i, each in enumerate(getattr(node.config, "log", ())) if each.log_rule is not None]
        for index, entry in named:
            if file is None:
                message = f"`log_rule`: the rule `{entry.log_rule}` needs a file of rules"
                found.add(codes.E007.at(_place(node, index), message, help="name it under `pipeline: {log_rules: …}`"))
                continue
            if rules is None:
                rules = _read(file, variables, problems)
                for problem in problems:
                    message = f"log rules: {problem.message}"
                    found.add(problem.code.at(problem.span or file.place, message, help=problem.help))
            if entry.log_rule in rules:
                _apply(node, index, rules[entry.log_rule], found)
            elif not problems.has_errors:
                message = f"`log_rule`: `{file.name}` has no rule `{entry.log_rule}`"
                help_text = nearest.hint(entry.log_rule, rules) or f"rules there: {', '.join(rules) or 'none'}"
                found.add(codes.E007.at(_place(node, index), message, help=help_text))


def _read(rules: RuleFile, variables: Mapping[str, str], problems: Diagnostics) -> Mapping[str, yaml_tree.Mapping]:
    """The rules of the file by their names; none where it is not as it should be."""
    _, tree = document.open_tree(
        rules.path, rules.name, variables, problems, base_dir=rules.base_dir, marks=reader.allowed_keys(LogRules)
    )
    if tree is not None and not isinstance(tree, yaml_tree.Mapping):
        problems.add(codes.E007.at(reader.head(tree.span), "a file of log rules is a mapping with `rules:`"))
    elif tree is not None:
        reader.read(LogRules, tree, problems, key="log_rules")
    listed = tree.get("rules") if isinstance(tree, yaml_tree.Mapping) and not problems.has_errors else None
    entries = listed.entries if isinstance(listed, yaml_tree.Mapping) else {}
    return {name: each.value for name, each in entries.items() if isinstance(each.value, yaml_tree.Mapping)}


def _apply(node: NodeSource, index: int, rule: yaml_tree.Mapping, found: Diagnostics) -> None:
    """Give a directive the keys of its rule that it has not itself."""
    listed, _, _ = reader.locate(node.tree, ("config", "log"))
    assert isinstance(listed, yaml_tree.Sequence)
    written = listed.items[index]
    assert isinstance(written, yaml_tree.Mapping)
    known = {key: rule.entries[key] for key in reader.allowed_keys(LogRule) if key in rule.entries}
    listed.items[index] = yaml_tree.Mapping(written.span, {**known, **written.entries}, written.size)
    entry = reader.read(LogConfig, listed.items[index], found, key="log")
    if entry is not None and node.config is not None:
        for key in entry.missing:
            message = f"the key `{key}` is required here, or in the rule `{entry.log_rule}`"
            found.add(codes.E006.at(reader.head(written.span), message, help=f"add `{key}:`"))
        entries = list(getattr(node.config, "log"))  # noqa: B009
        entries[index] = entry
        node.config = node.config.model_copy(update={"log": entries})


def _place(node: NodeSource, index: int) -> Span:
    return reader.value_span(node.tree, ("config", "log", index, "log_rule"))
