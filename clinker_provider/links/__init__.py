"""Links: the buttons that a task shows in Airflow's pages."""
