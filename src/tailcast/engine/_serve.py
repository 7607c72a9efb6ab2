"""The kernel's only entry: all else is compiled into it."""

from tailcast.engine._compile import compiled, wide
from tailcast.engine._layout import DONE, GROW, START, WEIGH
from tailcast.engine._loop import advance, begin
from tailcast.engine._state import run_of
from tailcast.engine._summary import summarise, weigh_gaps


@compiled
def serve(w: int, a: int, first: int, draw: int, order: int) -> int:
    """Run a draw to its end and write down its statistics.

    `START` starts from the record at `first`; `GROW` is the answer where room for gaps runs out,
    and `RESUME` goes on once there is more. `WEIGH` weighs the gaps of all groups of the draw that
    was served last, to be copied out.
    """
    if order == WEIGH:
        weigh_gaps(w, a, wide(0), run_of(w).n_request, wide(-1))
        return DONE
    if order == START:
        begin(w, first, draw)
    if advance(w) == GROW:
        return GROW
    summarise(w, a, draw)
    return DONE
