# The types with which Cython compiles flat.py.

cimport cython

from collector.model.layout cimport Event
from collector.trail.layout cimport Trail


@cython.locals(
    event=Event, trail=Trail, fresh=list, opened=dict, queues=dict, kinds=dict, task_id=str, worker=str, known_worker=str,
    misfit=tuple, ordered=tuple, seen=tuple, named=tuple, explicit=tuple, told=tuple,
    codes=list, code_ats=list, measures=list, seconds=list, measured_ats=list, witnesses=list,
    marks=long, kind=long, row=long, row_cap=long, verdict=long, duplicates=long, ignored=long,
    m_started=long, m_up=long, m_down=long, m_ran=long, m_end=long, flying=long,
    stride=long, kind_count=long, sent=long, started=long,
)
cpdef stitch(parts, home, channel, source, events, ats, out)
