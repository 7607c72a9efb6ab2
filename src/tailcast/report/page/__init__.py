"""One self-contained page of a study, an evaluation or a search: no network, no scripts."""
