"""Triggers of deferred sensors and operators."""
