"""Additions to Airflow's own pages and events."""
