"""Programs for developers of Grain; nothing here is installed."""
