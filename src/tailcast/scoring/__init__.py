"""Predictions against observations: scores, tables, rivals."""
