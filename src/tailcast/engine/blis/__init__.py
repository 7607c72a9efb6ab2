"""Exact re-implementation of BLIS (inference-sim), quirks included, in integer microseconds."""
