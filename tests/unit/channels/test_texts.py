"""Title and text within a service's limits, whatever stands in them."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.channels import texts
from collector.channels.services import SERVICES
from collector.channels.texts import Form, fit, message

TRICKY = st.text(alphabet="ab \n@<>&*_`|\\[]#eéa\u0301\u200d\U0001f469\U0001f3fd\U0001f1e9字:/.", max_size=300)
TEXTS = st.builds("".join, st.lists(TRICKY | st.sampled_from(["@everyone", "https://h.example/a_b_c", "<!here>"])))


@pytest.mark.case("K15.1")
@pytest.mark.parametrize("name", [name for name in SERVICES if name != "pagerduty"])
@given(title=TRICKY, text=TEXTS, times=st.sampled_from([1, 7, 40]))
@settings(max_examples=30, deadline=None)
def test_it_fits(name, title, text, times):
    """Escaped title and text are never longer than the service takes, and call nobody."""
    form = SERVICES[name].form
    for used in (form, form.plain()):
        made_title, made = fit(title, text * times, used)
        whole = made if used.title_limit else f"{made_title}\n{made}"
        assert used.measure(whole) <= used.limit
        if used.title_limit:
            assert used.measure(made_title) <= used.title_limit
        if form.escape is not texts.as_it_is:
            assert not re.search(r"@(everyone|here|all)\b|(?<!\\)<[!@]", made)


@pytest.mark.parametrize("size", [1_989, 1_990, 1_991, 1_999, 2_000, 2_001])
def test_the_last_that_fits(size):
    """What just fits is left whole; one more and it is cut, and says so."""
    made = message("title", "x" * size, Form(limit=1_996))
    assert len(made) <= 1_996
    assert ("..." in made) == (size > 1_990)


def test_entities_are_never_split():
    """However long a text of entities is cut, each entity in it is whole."""
    for limit in range(60, 90):
        made = message("t", "<&>" * 40, Form(limit=limit, escape=texts.entities))
        assert html.unescape(made).replace("(cut)", "").strip("t\n<&>.") == ""


def test_the_head_survives():
    """A long text keeps title, severity and runbook, also where the first line alone would fill the room."""
    text = f"severity: page   owner: {'o' * 900}\nrunbook: https://mon.example/r\n" + "line\n" * 500
    made = message("[FIRING] DeadLetter (page, owner pay)", text, Form(limit=800))
    assert made.startswith("[FIRING] DeadLetter (page, owner pay)\nseverity: page   owner: oo")
    assert "\nrunbook: https://mon.example/r\n" in made
    assert made.endswith("(cut)")
    assert len(made) <= 800


def test_addresses_stay_whole():
    """An address keeps its underscores, where backslashes would break it; what stands around it is escaped."""
    assert texts.markdown("a_b https://h/a_b c*") == r"a\_b https://h/a_b c\*"


def test_half_a_pair():
    """Half a surrogate pair, which no encoder takes, does not stop a message."""
    assert message("t", "a\ud83d", Form(limit=100)) == "t\na?"
