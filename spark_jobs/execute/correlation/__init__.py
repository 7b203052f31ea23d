"""Correlation groups and retraction: one state machine that repeats passes until nothing new fails.

A group of records leaves every output when one of them fails. Records are retracted when an aggregated row that
contains them fails. A pass cannot know about failures before it ends. So the first pass runs as if nothing failed, and
if a failure occurs, more passes follow. Each pass has a `Goal`:

    COMPUTE ──> ROW_KEYS ────────────┐      the keys of failed rows of aggregates were not at hand
       │ <──────(choose failures)────┘
       │
       ├─ records or rows failed ──> RECORD_KEYS         the keys of failed records were not at hand
       │                             RETRACTED_RECORDS   rows of retractable aggregates failed; once per level of them
       │                             FIRST_RECORDS       the policy `primary` asks for first records
       │                             ──> COMPUTE         each only where it is needed, in this order
       │
       └─ nothing new ─────────────> GROUP_MEMBERS       some group may be too large
                                     ──> COMPUTE         if one is
                                     COMPUTE writes the outputs and finds failures. The other goals are searches: they
                                     find one kind of fact and write no outputs.

- `state.py`: the initial state of a pass. It has the goal, and files with findings of earlier passes: excluded records,
  rejected groups, suppressed rows.
- `hook.py`: the side of the tasks. Operators and dead letters call the hook (`nodes/correlation.py`); without keys it
  does nothing. It writes its findings to files of facts (`task_facts.py`, `facts.py`).
- `iteration.py`: the driver. It hands the facts of a pass to the handler of its goal, which chooses the next goal.
  `dependency_order.py` chooses the failures that count at once, `rejections.py` and `suppressed_rows.py` store their
  effects, `group_sizes.py` finds groups that are too large.
- `entries.py`: selects the dead letters that count among all passes. `reuse.py`: finds tasks that need not run again.

`plan/physical/correlation.py` derives keys and dependencies from the plan, as values of
`nodes/correlation.py`.

Here: everything that depends on correlation keys, in tasks and in the driver.
Not here: how a pass is run (`run/passes.py`), how dead letters are written (`dlq/`).
"""
