"""One simulated replica: scheduler, KV cache, compiled kernel."""
