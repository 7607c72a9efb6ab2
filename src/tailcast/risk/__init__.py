"""What runs of a fleet say about objectives: P(miss), where its spread comes from, and curves."""
