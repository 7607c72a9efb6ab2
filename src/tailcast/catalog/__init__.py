"""Facts about accelerators, LLMs and workloads, by name."""
