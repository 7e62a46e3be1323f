"""job_log."""
