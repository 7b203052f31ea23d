"""State: writes scoped variables, passes its records on."""
