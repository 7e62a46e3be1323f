"""pickling."""
