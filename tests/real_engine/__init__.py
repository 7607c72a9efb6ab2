"""Tests against real engines, in environments of their own."""
