"""The benchmark's own parts; no time is asserted here."""
