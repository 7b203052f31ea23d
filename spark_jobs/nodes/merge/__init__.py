"""merge: several streams into one."""
