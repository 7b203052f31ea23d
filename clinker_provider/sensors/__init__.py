"""Sensors: waiting for what runs leave behind."""
