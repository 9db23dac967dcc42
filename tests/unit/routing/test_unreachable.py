"""Routes that no alert reaches: found among thousands, and beside other mistakes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collector.routing.matchers import matcher
from collector.routing.route import Route
from collector.routing.routefile import load, load_parts
from collector.routing.unreachable import _Before, _implies, unreachable

MATCHERS = st.builds(
    matcher,
    st.sampled_from("ab"),
    st.sampled_from(("=", "!=", "=~", "!~")),
    st.sampled_from(("", "x", "y", "x|y", "x.*")),
)
ROUTES = st.builds(
    lambda matchers, continues: Route(receiver="r", matchers=tuple(matchers), continues=continues),
    st.lists(MATCHERS, max_size=2),
    st.booleans(),
)


@given(st.lists(ROUTES, max_size=6), st.lists(MATCHERS, max_size=3))
def test_the_shortcut_misses_nobody(routes, known):
    """Of the siblings that are looked at, those that take everything are all that do, in their order."""
    before = _Before()
    taking = []
    for route in routes:
        if not route.continues:
            before.add(route)
            if all(_implies(known, one) for one in route.matchers):
                taking.append(route)
    clash = any(_implies(known, matcher(one.name, "=~", "(?:)nobody")) for one in known)
    found = [route for route in before.candidates(known) if all(_implies(known, one) for one in route.matchers)]
    assert clash or found == taking


def test_among_thousands_of_routes():
    """The one that is covered is named with the one that covers it, in a file whose routes are many."""
    lines = [f"  - {{matchers: [task=t{number}, 'queue=~a|b']}}" for number in range(2_000)]
    lines.append("  - {matchers: [task=t77, queue=b, severity=page]}")
    routing = load("r.yaml", "receivers: [{name: r}]\nroute:\n  receiver: r\n  routes:\n" + "\n".join(lines))
    (problem,) = unreachable(routing)
    assert problem.line == 2_005
    assert "the one on line 82," in problem.message


BROKEN = """
receivers: [{name: r}]
route:
  receiver: r
  repeat_interval: soon
  routes:
  - {matchers: [a=b]}
  - {matchers: [a=b, c=d]}
  - {matchers: ['a=']}
  - {matcher: [x=y]}
  - {matchers: ['a=~(']}
  - {receiver: nobody, matchers: [n=n]}
  - {continue: perhaps}
  - {matchers: [z=z]}
"""


def test_beside_other_mistakes():
    """Other mistakes hide none; and from a route that cannot be read nothing is concluded."""
    routing, problems = load_parts("r.yaml", BROKEN)
    assert sorted(problem.line for problem in problems) == [5, 10, 11, 12, 13]
    assert [problem.line for problem in unreachable(routing)] == [8]
