"""Latency model and data to a posterior."""
