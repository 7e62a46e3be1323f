"""meeting."""
