"""Arrow kernels that evaluate only some of their operands: `if`, `match`, `??`, `and`, `or`.

A branch that is cheap or cannot fail is evaluated on all rows, and its failures on rows that do not take it are
dropped. Other branches are evaluated only on the rows that take them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import typed, types, values
from spark_jobs.cxl.kernels.frames import Evaluate, Frame, as_array, scatter
from spark_jobs.cxl.types import Kind

if TYPE_CHECKING:
    from spark_jobs.cxl.kernels.compiler import Compiler


def obstacle(node: typed.If | typed.Coalesce | typed.Match) -> str | None:
    """Why a branching expression has no kernel."""
    match node:
        case typed.If(then=then, otherwise=otherwise):
            branches = [then, otherwise]
        case typed.Coalesce(left=left, right=right):
            branches = [left, right]
        case typed.Match(arms=arms, subject=subject):
            branches = [arm.value for arm in arms]
            if subject is not None and (reason := _subject_obstacle(subject, arms)):
                return reason
    wanted = values.arrow_type(node.type)
    for branch in branches:
        if branch.type.kind is Kind.NULL and isinstance(branch, typed.Literal):
            continue
        if branch.type.is_dynamic is not node.type.is_dynamic or values.arrow_type(branch.type) != wanted:
            return f"the branches have different types ({', '.join(str(b.type) for b in branches)})"
    return None


def _subject_obstacle(subject: typed.Expression, arms: tuple[typed.Arm, ...]) -> str | None:
    patterns = [arm.pattern for arm in arms if arm.pattern is not None]
    for pattern in patterns:
        if isinstance(pattern, typed.Literal) and pattern.value is None:
            continue
        if pattern.type.kind is not subject.type.kind or pattern.type.is_dynamic or pattern.type.kind is Kind.ARRAY:
            return f"{subject.type.kind} is compared with {pattern.type.kind} value by value"
    return "the subject's type is known at run time only" if subject.type.is_dynamic else None


class Branch:
    """A branch: how to evaluate it, and whether on all rows."""

    def __init__(self, node: typed.Expression, evaluate: Evaluate, compiler: Compiler) -> None:
        self.evaluate = evaluate
        simple = isinstance(node, typed.Literal | typed.Column | typed.Local)
        self.everywhere = simple or compiler.analysis.facts(node).is_cheap

    def on(self, frame: Frame, mask: pa.Array) -> tuple[Any, bool]:
        """The branch's values for the rows of a mask, and whether there is one for every row of the frame."""
        if self.everywhere:
            return frame.where(mask, self.evaluate), True
        return frame.inside(mask, self.evaluate), False


def _branch(node: typed.Expression, compiler: Compiler, wanted: types.Type) -> Branch:
    return Branch(node, compiler.compile(node, wanted), compiler)


def _mask(value: Any, count: int) -> pa.Array:
    """A condition as a mask: null is false."""
    return pc.fill_null(as_array(value, count), False)


def choose(frame: Frame, masks: list[pa.Array], branches: list[Branch], result: pa.DataType) -> Any:
    """Select one value per row: the branch whose mask is set. Masks are disjoint; a row in none of them is null."""
    whole: list[tuple[pa.Array, Any]] = []
    partial: list[tuple[pa.Array, pa.Array]] = []
    for mask, branch in zip(masks, branches, strict=True):
        taken = pc.sum(mask, min_count=0).as_py()
        if not taken:
            continue
        if taken == frame.count:
            return as_array(branch.evaluate(frame), frame.count)
        value, everywhere = branch.on(frame, mask)
        (whole if everywhere else partial).append((mask, value))
    if not partial:
        return _combined(frame, whole, result)
    if not whole or pa.types.is_nested(result):
        compact = [(mask, as_array(value, frame.count).filter(mask)) for mask, value in whole]
        return scatter(frame.count, compact + partial, result)
    base = as_array(_combined(frame, whole, result), frame.count)
    for mask, piece in partial:
        base = pc.replace_with_mask(base, mask, piece)
    return base


def _combined(frame: Frame, whole: list[tuple[pa.Array, Any]], result: pa.DataType) -> Any:
    value: Any = pa.scalar(None, result)
    for mask, found in reversed(whole):
        value = pc.if_else(mask, found, value)
    return as_array(value, frame.count)


def conditional(node: typed.If, compiler: Compiler) -> Evaluate:
    """`if`: the first branch where the condition is true."""
    condition = compiler.condition(node.condition)
    branches = [_branch(node.then, compiler, node.type), _branch(node.otherwise, compiler, node.type)]
    result = values.arrow_type(node.type)

    def evaluate(frame: Frame) -> Any:
        true = _mask(condition(frame), frame.count)
        return choose(frame, [true, pc.invert(true)], branches, result)

    return evaluate


def coalesce(node: typed.Coalesce, compiler: Compiler) -> Evaluate:
    """`??`: the right side where the left is null."""
    left = compiler.compile(node.left, node.type)
    right = _branch(node.right, compiler, node.type)

    def evaluate(frame: Frame) -> Any:
        value = as_array(left(frame), frame.count)
        if not value.null_count:
            return value
        missing = pc.is_null(value)
        other, everywhere = right.on(frame, missing)
        if everywhere and not pa.types.is_nested(value.type):
            return pc.coalesce(value, other)
        compact = as_array(other, frame.count).filter(missing) if everywhere else other
        if pa.types.is_nested(value.type):
            present = pc.invert(missing)
            return scatter(frame.count, [(present, value.filter(present)), (missing, compact)], value.type)
        return pc.replace_with_mask(value, missing, compact)

    return evaluate


def _logical(
    left_node: typed.Expression, right_node: typed.Expression, compiler: Compiler, decided: bool, kernel: Any
) -> Evaluate:
    """`and`/`or`: the right side is evaluated on the rows that the left side did not decide."""
    left = compiler.condition(left_node)
    right = Branch(right_node, compiler.condition(right_node), compiler)

    def evaluate(frame: Frame) -> Any:
        first = as_array(left(frame), frame.count)
        is_open = pc.fill_null(pc.invert(first) if decided else first, True)
        if not pc.any(is_open, min_count=0).as_py():
            return first
        second, everywhere = right.on(frame, is_open)
        if not everywhere:
            second = scatter(frame.count, [(is_open, second)], pa.bool_())
        return kernel(first, second)

    return evaluate


def conjunction(node: typed.And, compiler: Compiler) -> Evaluate:
    """Three-valued `and`."""
    return _logical(node.left, node.right, compiler, False, pc.and_kleene)


def disjunction(node: typed.Or, compiler: Compiler) -> Evaluate:
    """Three-valued `or`."""
    return _logical(node.left, node.right, compiler, True, pc.or_kleene)


def match(node: typed.Match, compiler: Compiler) -> Evaluate:
    """`match`: the first arm that fits."""
    arms = list(node.arms)
    for position, arm in enumerate(arms):
        if arm.pattern is None:
            arms = arms[: position + 1]
            break
    table = _table(node, arms, compiler)
    if table is not None:
        return table
    branches = [_branch(arm.value, compiler, node.type) for arm in arms]
    if node.subject is not None:
        # Every pattern is compared with the one value of the subject.
        compiler.repeated.add(compiler.analysis.facts(node.subject).key)
    tests = [_test(node.subject, arm.pattern, compiler) for arm in arms]
    subject = compiler.compile(node.subject) if node.subject is not None else None
    result = values.arrow_type(node.type)

    def evaluate(frame: Frame) -> Any:
        if subject is not None:
            subject(frame)
        rest = pa.repeat(pa.scalar(True), frame.count)
        masks: list[pa.Array] = []
        for test in tests:
            if test is None:
                masks.append(rest)
                break
            value, everywhere = test.on(frame, rest)
            found = as_array(value, frame.count) if everywhere else scatter(frame.count, [(rest, value)], pa.bool_())
            taken = pc.and_(_mask(found, frame.count), rest)
            masks.append(taken)
            rest = pc.and_not(rest, taken)
        return choose(frame, masks, branches, result)

    return evaluate


def _test(subject: typed.Expression | None, pattern: typed.Expression | None, compiler: Compiler) -> Branch | None:
    """When an arm fits: its guard, or its pattern's equality with the subject; None for `_`."""
    if pattern is None:
        return None
    if subject is None:
        return Branch(pattern, compiler.condition(pattern), compiler)
    if isinstance(pattern, typed.Literal) and pattern.value is None:
        evaluate = compiler.compile(subject)
        return Branch(subject, lambda frame: pc.is_null(evaluate(frame)), compiler)
    equality = typed.Binary(types.BOOL.or_null(), pattern.place, typed.Operator.EQUAL, subject, pattern)
    return Branch(equality, compiler.compile(equality), compiler)


#: Kinds whose literals are found by a hash table.
_HASHED = (Kind.INT, Kind.STRING, Kind.DATE, Kind.DATETIME)


def _table(node: typed.Match, arms: list[typed.Arm], compiler: Compiler) -> Evaluate | None:
    """A match that only translates literals to literals is one lookup."""
    if node.subject is None or node.subject.type.kind not in _HASHED or node.type.is_dynamic:
        return None
    patterns: dict[Any, Any] = {}
    default: Any = None
    for arm in arms:
        if not isinstance(arm.value, typed.Literal) or not isinstance(arm.pattern, typed.Literal | None):
            return None
        if arm.pattern is None:
            default = arm.value.value
        else:
            patterns.setdefault(arm.pattern.value, arm.value.value)
    subject = compiler.compile(node.subject)
    keys = pa.array(list(patterns), values.arrow_type(node.subject.type))
    results = values.to_arrow([*patterns.values(), default], node.type)
    missing = pa.scalar(len(patterns), pa.int32())

    def evaluate(frame: Frame) -> Any:
        found = pc.index_in(as_array(subject(frame), frame.count), value_set=keys)
        return results.take(pc.fill_null(found, missing))

    return evaluate
