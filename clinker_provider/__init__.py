"""Airflow provider for Clinker pipelines."""

from __future__ import annotations

__version__ = "0.2.0"
