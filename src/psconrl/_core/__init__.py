"""What every room stands on: checks and array types, graphs and pairs, late imports, the one njit."""
