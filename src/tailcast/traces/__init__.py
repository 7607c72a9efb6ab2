"""What was measured: experiments (summaries), per-request traces and their importers."""
