"""Hooks: what talks to Spark."""
