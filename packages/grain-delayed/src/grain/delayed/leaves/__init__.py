"""leaves."""
