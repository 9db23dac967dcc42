"""The vocabulary: values that every other part speaks in. Imports the standard library and msgspec, nothing of ours."""
