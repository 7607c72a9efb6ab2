"""Chain and engine on the same server: where they differ, what each does for the other."""
