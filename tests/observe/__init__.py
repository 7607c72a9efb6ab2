"""Tests of recording a server."""
