"""What the provider adds to Airflow's own pages and events."""
