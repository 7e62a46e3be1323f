"""What developers of Grain run."""
