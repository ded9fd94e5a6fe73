"""Linear programs on HiGHS: the reference in tests, and the second opinion."""
