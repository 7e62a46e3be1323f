"""missions."""
