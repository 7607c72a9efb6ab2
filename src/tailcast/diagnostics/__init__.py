"""Whether a posterior may be used: convergence, fit, emulators, what must hold to ship."""
