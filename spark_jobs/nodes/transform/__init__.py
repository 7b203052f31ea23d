"""transform: CXL over each record."""
