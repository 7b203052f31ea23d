"""Databases: tables and statements, whose columns have types of their own; read by several tasks in one snapshot."""
