"""Processes that can be interrupted, whatever started the tests."""

import signal


def interruptible() -> None:
    """Restore what a shell's background job ignores; for ``preexec_fn``."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
