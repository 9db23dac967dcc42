"""What a call was made with, as it may be shown."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.model.callmask import LONGEST_CALL, mask_call

SECRETS = (
    "{'password': 'hunter2'}",
    "{'password': b'hunter2', 'a': 1}",
    "{'db_passwd': ['hunter2', 'hunter2']}",
    "{'token': {'value': 'hunter2'}}",
    "({'api_key': 'it\\'s hunter2'},)",
    "(Login(user='u', password=Password('hunter2')),)",
    "{'secret': <Secret value: hunter2>}",
    "{'password': 'hunter2 and what was cut",
    "[('Authorization', 'hunter2')]",
    '(b\'{"pwd": "hunter2"}\',)',
    "ftp://me:hunter2@example.org/x",
    "curl -H 'Authorization: Bearer hunter2hunter2'",
    json.dumps({"body": json.dumps({"client_secret": 'a "hunter2"', "b": json.dumps({"token": "hunter2"})})}),
)


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_by_its_name_is_hidden(text):
    """In Python's and in JSON's way of writing, in lists and objects, inside other texts, and where it was cut."""
    assert "hunter2" in text
    assert "hunter2" not in mask_call(text)
    assert "***" in mask_call(text)


@pytest.mark.parametrize("text", ["(1, 0.05)", "{'user': 'ann', 'n': [1, 2]}", "(<Order 7>, 'it\\'s')"])
def test_the_rest_is_left(text):
    """Arguments without a secret's name are as they were, also those beside a secret."""
    assert mask_call(text) == text
    assert mask_call(f"{{'password': 'x', 'rest': {text}}}") == f"{{'password': ***, 'rest': {text}}}"


_VALUES = st.recursive(
    st.text(max_size=5) | st.binary(max_size=5) | st.integers() | st.none() | st.just("ZEBRA"),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@given(_VALUES)
def test_whatever_the_value_is(value):
    """No part of any value of Python's is left behind a secret's name, and what comes after it is."""
    told = mask_call(repr({"password": ["ZEBRA", value], "n": 12345}))
    assert told == "{'password': ***, 'n': 12345}"


@given(st.text())
def test_cut(text):
    """Never longer than is kept, whatever it is."""
    assert len(mask_call(text)) <= LONGEST_CALL
    assert len(mask_call(text + "token=" + "x" * 2000)) <= LONGEST_CALL
