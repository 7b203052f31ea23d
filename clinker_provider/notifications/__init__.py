"""Notifications about runs."""
