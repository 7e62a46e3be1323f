"""futures."""
