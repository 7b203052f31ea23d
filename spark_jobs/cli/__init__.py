"""The commands: clinker and cxl.

Here: arguments, printing, exit codes.
Not here: the work itself; commands use the plan and start runs.
"""
