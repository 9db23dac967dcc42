# Where the fields of an event lie in memory, for the compiled core: in the order of their names, as Python orders slots.
# A test holds this against the class; the size is compared whenever the core is imported.

cdef extern from *:
    """
    typedef struct {
        PyObject_HEAD
        PyObject *attempt, *caller, *error, *error_message, *eta, *expires, *idempotency_key, *kind, *labels, *parent_id,
            *queue, *root_id, *run_seconds, *span_id, *task, *task_id, *time, *trace_id, *traceparent, *worker;
    } EventFields;
    """
    ctypedef class collector.model.event.Event [object EventFields, check_size error]:
        cdef object attempt, caller, error, error_message, eta, expires, idempotency_key, kind, labels, parent_id
        cdef object queue, root_id, run_seconds, span_id, task, task_id, time, trace_id, traceparent, worker
