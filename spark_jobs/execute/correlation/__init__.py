"""What passes with correlation keys find, put together by the driver.

Here: facts as tables, which failures count at once, rows of aggregates that count as never made.
Not here: when passes are repeated (`run/rounds.py`), what tasks find (`tasks/groups.py`).
"""
