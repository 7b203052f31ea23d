"""Decorators: functions that become tasks."""
