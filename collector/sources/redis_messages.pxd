# The types with which Cython compiles redis_messages.py.

cimport cython


@cython.locals(others=list, length=long, fed=long, start=long, mark=bytes)
cpdef list take_apart(parser, bytes piece, list patterns, list channels, list bodies)
