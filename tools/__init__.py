"""What developers of Grain run; nothing here is installed."""
