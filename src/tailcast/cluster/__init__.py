"""Many replicas behind a gateway."""
