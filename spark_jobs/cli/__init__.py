"""The commands: clinker and cxl.

Here: arguments, what is printed and how, exit codes.
Not here: work; commands ask the plan and start runs.
"""
