"""Bayesian latency forecasts for LLM serving."""
