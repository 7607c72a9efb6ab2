"""The three-number queueing model: chain, sizing, tuner."""
