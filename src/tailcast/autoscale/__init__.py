"""Replicas by load for a risk: the control loop, offline, against the engine as the plant."""
