"""Notifications to people about runs."""
