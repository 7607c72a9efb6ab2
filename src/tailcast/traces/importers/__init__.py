"""Readers of other tools' files: step logs, benchmarks, metrics, spans, workloads."""
