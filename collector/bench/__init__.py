"""What `tasktrail bench` measures.

CPU seconds of this process, medians of interleaved repeats, ratios within one run.
"""
