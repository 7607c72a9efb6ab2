"""Record a real server."""
