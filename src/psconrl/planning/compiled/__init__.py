"""The compiled engine: kernels that take and return typed tuples of arrays."""
