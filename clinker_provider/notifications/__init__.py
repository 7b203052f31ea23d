"""Notifications: what people are told of runs."""
