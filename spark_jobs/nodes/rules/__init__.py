"""Rules on data beyond one record: entries of `validations` of sources and outputs."""
