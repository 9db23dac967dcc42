# Where the fields of Celery's events lie in memory, for the compiled core: see model/layout.pxd.

from collector.model.layout cimport Event

cdef extern from *:
    """
    typedef struct {
        EventFields __pyx_base;
        PyObject *active, *exception, *expired, *freq, *processed, *requeue, *retries, *traceback;
    } ToldFields;
    """
    ctypedef class collector.formats.celery_wire.Told(Event) [object ToldFields, check_size error]:
        cdef object active, exception, expired, freq, processed, requeue, retries, traceback
