# The types with which Cython compiles celery_events.py.

cimport cython

from collector.formats.layout cimport Told


@cython.locals(event=Told, entry=tuple, entries=dict, events=list, index=long)
cpdef take(listed, start, out, list sources, memory)

cpdef finished(Told event, finish, memory)
cpdef _sent(Told event, memory)
cpdef _received(Told event, memory)
