"""What was seen of one request."""

import math
from array import array
from dataclasses import dataclass, field

STATUSES = ("ok", "error", "timeout", "incomplete")


@dataclass(slots=True)
class RequestRecord:
    """Times of one request, in seconds on the run's monotonic clock; NaN where it did not happen.

    Parameters
    ----------
    row : int
        Row of the request table.
    due : float
        When it should be sent: its arrival, or later where it waits for its parent.
    input_tokens, output_tokens : int
        What was asked for.
    started : float
        When the client took it up.
    sent : float
        When its body was handed to the connection.
    connect : float
        Seconds of `sent` spent on opening a connection.
    resent : bool
        Whether it was sent again because a kept connection had been closed by the server.
    headers, ended : float
        First byte of the answer; end of the answer or of the attempt.
    token_times : array of float
        One entry for every event that brought tokens.
    token_counts : array of int
        Tokens that each of these events brought.
    status : str
        ``ok``, ``error``, ``timeout`` (the client left) or ``incomplete`` (the run was stopped).
    http_status : int
        0 where there was no answer.
    error, finish_reason, counted_by, request_id : str
        Why it failed; why the server stopped; how tokens were counted; the server's name for it.
    server_input_tokens, server_output_tokens, cached_tokens : int
        The server's own counts; -1 where it did not say.
    answer_ids : list of int
        Generated tokens, kept for the next prompt of a session.
    answer_text : str
        Generated text, kept for the same reason.
    """

    row: int
    due: float
    input_tokens: int = 0
    output_tokens: int = 0
    started: float = math.nan
    sent: float = math.nan
    connect: float = 0.0
    resent: bool = False
    headers: float = math.nan
    ended: float = math.nan
    token_times: array[float] = field(default_factory=lambda: array("d"))
    token_counts: array[int] = field(default_factory=lambda: array("l"))
    status: str = "incomplete"
    http_status: int = 0
    error: str = ""
    finish_reason: str = ""
    counted_by: str = ""
    request_id: str = ""
    server_input_tokens: int = -1
    server_output_tokens: int = -1
    cached_tokens: int = -1
    answer_ids: list[int] = field(default_factory=list)
    answer_text: str = ""

    @property
    def n_tokens(self) -> int:
        """Tokens that arrived."""
        return sum(self.token_counts)

    @property
    def ttft(self) -> float:
        """Seconds from sending to the first token; NaN where there was none."""
        return self.token_times[0] - self.sent if self.token_times else math.nan

    @property
    def lateness(self) -> float:
        """Seconds that the client itself was late; opening a connection does not count."""
        return self.sent - self.connect - self.due

    def fail(self, status: str, reason: str) -> None:
        """Note a failure; the first one stands.

        Parameters
        ----------
        status : str
            One of `STATUSES`.
        reason : str
            One line.
        """
        if not self.error:
            self.status = status
            self.error = " ".join(reason.split())[:300]
