"""Results of cases as JUnit XML, which build servers show."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.cli.cases.command import Result


def document(results: Sequence[Result]) -> str:
    """A suite for each file, a test case for each case."""
    root = ElementTree.Element("testsuites")
    suites: dict[str, ElementTree.Element] = {}
    for result in results:
        name = str(result.case.path)
        if name not in suites:
            suites[name] = ElementTree.SubElement(root, "testsuite", name=name)
        one = ElementTree.SubElement(
            suites[name], "testcase", classname=name, name=result.case.name, time=f"{result.seconds:.3f}",
            file=name, line=str(result.case.span.line),
        )  # fmt: skip
        if result.differences:
            first = result.differences[0]
            failure = ElementTree.SubElement(one, "failure", message=f"{first.span}: {first.message}")
            failure.text = "\n".join(
                "\n".join([f"{each.span}: {each.message}", *each.lines]) for each in result.differences
            )
    for suite in suites.values():
        suite.set("tests", str(len(suite)))
        suite.set("failures", str(sum(len(one) > 0 for one in suite)))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
