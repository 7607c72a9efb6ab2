"""Tests of one replica: the compiled engine against a plain one, laws and closed forms."""
