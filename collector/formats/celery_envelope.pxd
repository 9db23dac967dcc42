# The types with which Cython compiles celery_envelope.py.

cimport cython


@cython.locals(
    message=bytes, tail=bytes, bodies=list, recent=tuple, begin=Py_ssize_t, rest=Py_ssize_t, most=Py_ssize_t,
    behind=Py_ssize_t, end=Py_ssize_t,
)
cpdef list opened(list messages, tails)

@cython.locals(tail=bytes, begin=Py_ssize_t, end=Py_ssize_t)
cpdef bytes _looked_up(bytes message, tails)

cpdef bytes _parsed(bytes message, bytes tail, tails)
