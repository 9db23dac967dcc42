# The types with which Cython compiles celery_envelope.py.

cimport cython


@cython.locals(message=bytes, tail=bytes, bodies=list, begin=Py_ssize_t, rest=Py_ssize_t, end=Py_ssize_t)
cpdef list opened(list messages, set tails)

cpdef bytes _parsed(bytes message, bytes tail, set tails)
