"""source: where records come from. config.py has the keys, step.py the bound step, run.py the operator."""
