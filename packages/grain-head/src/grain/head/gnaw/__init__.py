"""gnaw."""
