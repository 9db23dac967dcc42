"""Go's text/template language over plain Python values: parsed once, executed many times, bounded, without eval.

Rule files and routing files are full of it. What a template can see and call is given by whoever compiles it.
"""

from collector.gotext.builtins import Function
from collector.gotext.library import Library, library_of, undefined
from collector.gotext.template import Template
from collector.gotext.times import Moment, Span
from collector.gotext.values import AnyMap, FieldError, Markup, Pairs, Samples, Slice, Structure, TemplateError

__all__ = [
    "AnyMap",
    "FieldError",
    "Function",
    "Library",
    "Markup",
    "Moment",
    "Pairs",
    "Samples",
    "Slice",
    "Span",
    "Structure",
    "Template",
    "TemplateError",
    "library_of",
    "undefined",
]
