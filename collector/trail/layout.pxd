# Where the fields of a trail lie in memory, for the compiled core: see model/layout.pxd.

cdef extern from *:
    """
    typedef struct {
        PyObject_HEAD
        PyObject *attempt, *born, *caller, *dead_row, *deploy, *distinct, *due, *end_at, *end_time, *error, *eta, *facts,
            *findings, *found, *gone, *home, *judged, *key, *look_at, *marks, *message, *next_eta, *parent_id,
            *received_at, *received_time, *root_id, *row, *run, *sent_at, *sent_time, *source, *started_at,
            *started_time, *task_id, *trace_id, *worker;
    } TrailFields;
    """
    ctypedef class collector.trail.trail.Trail [object TrailFields, check_size error]:
        cdef object attempt, born, caller, dead_row, deploy, distinct, due, end_at, end_time, error, eta, facts
        cdef object findings, found, gone, home, judged, key, look_at, marks, message, next_eta, parent_id
        cdef object received_at, received_time, root_id, row, run, sent_at, sent_time, source, started_at
        cdef object started_time, task_id, trace_id, worker
