"""Candidate spaces raced on posterior draws."""
