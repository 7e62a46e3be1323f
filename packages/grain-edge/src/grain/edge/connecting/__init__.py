"""connecting."""
