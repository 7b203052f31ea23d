"""source: where records come from. config.py is what users write, step.py what is run, run.py how."""
