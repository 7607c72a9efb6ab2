"""Access of kernel code to the records of one simulation.

An accessor such as ``slot_at(run.slots, i)`` is the i-th record of the array at an address.
(Passing some thirty arrays as arguments instead takes numba minutes to compile.)
"""

from typing import Final

from tailcast.engine._compile import record_at, record_of
from tailcast.engine._layout import (
    ASK,
    FATE,
    ITEM,
    KIN,
    LOG,
    LOOSE,
    NODE,
    PLACE,
    REAL,
    ROW,
    RUN,
    SLOT,
    STEP_RUN,
    STREAM,
    TIMED,
    TIMER,
    WHOLE,
)

run_of: Final = record_of(RUN)
ask_of: Final = record_of(ASK)
item_at: Final = record_at(ITEM)
fate_at: Final = record_at(FATE)
slot_at: Final = record_at(SLOT)
stream_at: Final = record_at(STREAM)
node_at: Final = record_at(NODE)
step_run_at: Final = record_at(STEP_RUN)
loose_at: Final = record_at(LOOSE)
log_at: Final = record_at(LOG)
place_at: Final = record_at(PLACE)
kin_at: Final = record_at(KIN)
timer_of: Final = record_of(TIMER)
timed_at: Final = record_at(TIMED)
row_at: Final = record_at(ROW)
real_at: Final = record_at(REAL)
whole_at: Final = record_at(WHOLE)
