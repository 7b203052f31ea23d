"""route: each record to the branches whose conditions hold."""
