"""Requests from a description: arrivals, lengths, shared prefixes, sessions."""
