"""Correlation groups and retraction: one state machine that repeats passes until nothing new fails.

A group of records leaves every output when one of them fails, and records are retracted when a row of an aggregate that
they are in fails. A pass cannot know about failures before it ends. So the first pass runs as if nothing failed, and
where something does, more passes follow. What a pass is for is its `Goal`:

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
                                     ──> DONE            if none is, or nothing had to be searched for

COMPUTE writes the outputs and finds failures. The other goals are searches: they find one thing and write no outputs.

- `state.py`: the state that a pass starts from. Its goal, and files with findings of earlier passes: excluded records,
  rejected groups, suppressed rows.
- `hook.py`: the tasks' side. Operators call the hook (`nodes/correlation.py`), and so do dead letters; without keys it
  does nothing. Its findings go to files of facts (`task_facts.py`, `facts.py`).
- `iteration.py`: the driver. It gives the facts of a pass to the handler of its goal, which says which goal comes next.
  `dependency_order.py` chooses the failures that count at once, `rejections.py` and `suppressed_rows.py` keep what they
  do, `group_sizes.py` finds groups that are too large.
- `entries.py`: which dead letters of all passes count. `reuse.py`: which tasks need not be run again.

`plan/physical/correlation.py` has what follows from the plan, keys and dependencies, as values of
`nodes/correlation.py`.

Here: everything that depends on correlation keys, in tasks and in the driver.
Not here: how a pass is run (`run/passes.py`), how dead letters are written (`dlq/`).
"""
