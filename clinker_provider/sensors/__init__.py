"""Sensors: waiting for dead letters, result records and metrics files of runs."""
