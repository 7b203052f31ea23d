"""The output and errors of a JVM, reduced to the lines that explain why a run ended with it."""

from __future__ import annotations

import re

#: Lines that every start may have, or that stand around a cause.
_NOISE = re.compile(
    r"WARNING: |OpenJDK .*\bwarning: |Java HotSpot.*\bwarning: |Picked up \w+: |NOTE: "
    r"|Error: A fatal exception has occurred|Error: Could not create the Java Virtual Machine"
    r"|Using Spark's default log4j profile|Setting default log level|To adjust logging level|Log4j ?2? "
    r"|\.{3} \d+ more|at [\w.$/@<>]+\(|#\s*$|-- |\d\d/\d\d/\d\d [\d:]+ (?:INFO|WARN|DEBUG|TRACE) "
)
#: The prefixes that Java puts before an uncaught exception.
_IN_FRONT = re.compile(r'^(?:#\s*|Error: |Caused by: |Exception in thread "[^"]*" )+')
#: Messages about options that every further attempt would refuse, too.
_OF_OPTIONS = re.compile(r"Invalid|Unrecognized|Too small|Illegal|Conflicting|Could not find or load main class")
#: The beginnings of exceptions of Java and Spark about a setting.
_OF_SETTINGS = re.compile(
    r"INVALID_CONF_VALUE|CANNOT_MODIFY_CONFIG|IllegalArgumentException|NumberFormatException"
    r"|Could not parse Master URL|has to be >= the number of"
)
_CAUSE = re.compile(r"^(?:Caused by)?: (\S.*)$", re.MULTILINE)
_CLASS = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*: ")
_MOST_LINES, _MOST_CHARACTERS = 3, 300
_HEAP = re.compile(r"\[INVALID_(DRIVER|EXECUTOR)_MEMORY\]")


def of_jvm(text: str) -> list[str]:
    r"""The lines of a JVM's output that may say why it ended, the first few of them.

    >>> of_jvm("WARNING: Using incubator modules: x\nInvalid maximum heap size: -Xmx1q\nNOTE: none")
    ['Invalid maximum heap size: -Xmx1q']
    """
    lines = (line.strip() for line in text.splitlines())
    kept = [_IN_FRONT.sub("", line)[:_MOST_CHARACTERS] for line in lines if line and not _NOISE.match(line)]
    kept = [_CLASS.sub("", line) for line in kept]
    return list(dict.fromkeys(filter(None, kept)))[:_MOST_LINES]


def is_of_options(text: str) -> bool:
    """True if a JVM has refused the options that it got, and would again."""
    return _OF_OPTIONS.search(text) is not None


def is_of_spark(error: Exception) -> bool:
    """True if Spark has raised an error, or its JVM, which is still there."""
    return type(error).__module__.split(".")[0] in ("pyspark", "py4j") and _CAUSE.search(str(error)) is not None


def is_of_settings(text: str) -> bool:
    """True if Spark has refused a setting, and would again."""
    return _OF_SETTINGS.search(text) is not None


def cause(text: str) -> str:
    r"""The last cause of an exception of the JVM, without the names of classes; else the first line.

    >>> cause("An error occurred\n: java.lang.IllegalArgumentException: spark.memory.fraction should be smaller.\n\tat")
    'spark.memory.fraction should be smaller'
    """
    found = _CAUSE.findall(text)
    line = (
        found[-1]
        if found
        else next((line.strip() for line in text.splitlines() if line.strip()), "no reason was given")
    )
    return _CLASS.sub("", line).rstrip(".")


def heap(text: str) -> str | None:
    """The setting of a heap that is smaller than Spark's minimum; None for other refusals.

    >>> heap("[INVALID_DRIVER_MEMORY] System memory 202768384 must be at least 471859200.")
    'spark.driver.memory'
    """
    found = _HEAP.search(text)
    return f"spark.{found[1].lower()}.memory" if found else None


def is_of_no_use(text: str) -> bool:
    """True if the thread that starts a JVM has ended by an exception."""
    return 'Exception in thread "main"' in text
