"""combine: each driver record with the build records that match it."""
