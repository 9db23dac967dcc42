"""YAML files that people write, read whole: typed structs, or every problem at once, each with its place.

`read` is the door; `Place` is how a struct remembers where it stood, for messages that come later.
"""

from collector.documents.place import Place
from collector.documents.reader import read
from collector.documents.scalars import Duration, Regex, Url

__all__ = ["Duration", "Place", "Regex", "Url", "read"]
