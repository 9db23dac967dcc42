"""Templates of alerts: Prometheus' data and functions, as Prometheus writes them."""

from __future__ import annotations

import pytest

from collector.alerting.functions import Scene
from collector.alerting.template import compile_template, expand
from collector.gotext import TemplateError
from collector.model.errors import TasktrailError

ROWS = [((("__name__", "up"), ("host", "b")), 2.0), ((("host", "a"),), 1.5)]


def query(text, at):
    """What `query` in a template gets."""
    if text == "bad":
        raise TasktrailError("no such thing")
    assert at == 1_700_000_000
    return ROWS if text == "up" else []


SCENE = Scene(
    at=1_700_000_000,
    external_url="https://tt.example/prefix",
    external_labels={"region": "eu"},
    query=query,
)


def text_of(text, value=0.0, **labels):
    """The expansion of a template."""
    found, failure = expand(compile_template(text), tuple(sorted(labels.items())), value, SCENE)
    return failure or found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("{{ $labels.job }}/{{ .Labels.job }}/{{ $labels.none }}|", "j/j/|"),
        ("{{ $value }} {{ .Value }}", "1.25 1.25"),
        ("{{ $externalLabels.region }} {{ .ExternalLabels.region }}", "eu eu"),
        (
            "{{ $externalURL }} {{ .ExternalURL }} {{ externalURL }} {{ pathPrefix }}",
            " ".join(["https://tt.example/prefix"] * 3) + " /prefix",
        ),
        ('{{ printf "%.1f" $value }}', "1.2"),
        ("{{ $labels }}", "map[job:j]"),
        (
            '{{ humanize 45678.0 }} {{ humanize 0.0125 }} {{ humanize -1500.0 }} {{ humanize "12" }}',
            "45.68k 12.5m -1.5k 12",
        ),
        ("{{ humanize1024 2048.0 }} {{ humanize1024 0.5 }} {{ humanize1024 1e9 }}", "2ki 0.5 953.7Mi"),
        (
            (
                "{{ humanizeDuration 3725.0 }} {{ humanizeDuration 59.5 }} {{ humanizeDuration 0.002 }} "
                "{{ humanizeDuration -90061.0 }} {{ humanizeDuration 0 }}"
            ),
            "1h 2m 5s 59.5s 2ms -1d 1h 1m 1s 0s",
        ),
        (
            "{{ humanize 0.0 }} {{ humanize1024 1e30 }} {{ humanizeDuration 1e-9 }} {{ humanizeTimestamp -1.5 }}",
            "0 8.272e+05Yi 1ns 1969-12-31 23:59:58.5 +0000 UTC",
        ),
        (
            '{{ humanize "Inf" }} {{ humanizeDuration "NaN" }} {{ humanize "-Inf" }}',
            "+Inf NaN -Inf",
        ),
        ("{{ humanizePercentage 0.12345 }} {{ humanizePercentage 2 }}", "12.35% 200%"),
        ("{{ humanizeTimestamp 1700000000.5 }}", "2023-11-14 22:13:20.5 +0000 UTC"),
        ('{{ title "it\'s a foo-bar 3rd" }} {{ toUpper "aB" }} {{ toLower "aB" }}', "It's A Foo-Bar 3Rd AB ab"),
        ('{{ match "^a+$" "aaa" }} {{ match "b" "aaa" }}', "true false"),
        ('{{ reReplaceAll "(\\\\w+)-(?P<n>\\\\d+)" "${n}:$1$9" "ab-12 cd-3" }}', "12:ab 3:cd"),
        ('{{ stripPort "h:80" }} {{ stripPort "[::1]:80" }} {{ stripPort "h" }} {{ stripPort "::1" }}', "h ::1 h ::1"),
        ('{{ stripDomain "a.b.c:80" }} {{ stripDomain "a.b" }} {{ stripDomain "10.0.0.1:80" }}', "a:80 a 10.0.0.1:80"),
        ('{{ query "up" | first | value }} {{ query "up" | first | label "host" }}', "2 b"),
        ('{{ range query "up" | sortByLabel "host" }}{{ .Labels.host }}={{ .Value }};{{ end }}', "a=1.5;b=2;"),
        ('{{ range query "none" }}x{{ else }}none{{ end }}', "none"),
        ('{{ with query "up" }}{{ len . }}{{ end }}', "2"),
        ('{{ define "t" }}{{ .arg0 }}-{{ .arg1 }}{{ end }}{{ template "t" (args 1 "x") }}', "1-x"),
        ('{{ graphLink "a b" }} {{ tableLink "up" }}', "/graph?g0.expr=a+b&g0.tab=0 /graph?g0.expr=up&g0.tab=1"),
        ('{{ parseDuration "1h30m" }} {{ parseDuration "-90s" }}', "5400 -90"),
        ('{{ urlQueryEscape "a/b c" }} {{ safeHtml "<b>" }} {{ now | printf "%.0f" }}', "a%2Fb+c <b> 1700000000"),
        ("{{ if gt $value 1.0 }}high{{ else }}low{{ end }}", "high"),
        (
            "{{ toTime 1435065584.128 }} {{ toTime -1.5 }}",
            "2015-06-23 13:19:44.128 +0000 UTC 1969-12-31 23:59:58.5 +0000 UTC",
        ),
        (
            '{{ (toTime 1435065584).Format "Mon Jan _2 15:04:05 2006 Z07:00 -0700 MST pm 002" }}',
            "Tue Jun 23 13:19:44 2015 Z +0000 UTC pm 174",
        ),
        (
            "{{ (now | toTime).Year }} {{ (toTime 1e9).Month }} {{ if eq (toTime 1e9).Weekday 0 }}sunday{{ end }}",
            "2023 September sunday",
        ),
        (
            '{{ ((toTime 0).Add 90000000000).Unix }} {{ ((toTime 0).AddDate 1 13 -1).Format "2006-01-02" }}',
            "90 1972-01-31",
        ),
        ("{{ ((toTime 100).Sub (toTime 39.5)).Seconds }} {{ (toTime 5).Before (toTime 6) }}", "60.5 true"),
        (
            "{{ toDuration 3661.5 }} {{ toDuration 0.25 }} {{ toDuration -1e-6 }} {{ toDuration 0 }}",
            "1h1m1.5s 250ms -1µs 0s",
        ),
        (
            "{{ (toDuration 5400).Hours }} {{ (toDuration 89).Round 60000000000 }} {{ (toDuration 1.5).Nanoseconds }}",
            "1.5 1m0s 1500000000",
        ),
        ('{{ printf "%v|%8s" (toDuration 5) (toDuration 61) }}', "5s|    1m1s"),
    ],
)
def test_text(text, expected):
    """An expansion gives the same text as in Prometheus."""
    assert text_of(text, 1.25, job="j") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{{ join ", " (stringSlice "a" "b") }} {{ trimSpace "  x\\n" }} {{ safeUrl "u" }}', "a, b x u"),
        ('{{ urlUnescape "a%2Fb+c" }} {{ base64encode "a?~" }} {{ base64decode "YT9-" }}', "a/b c YT9- a?~"),
        (
            '{{ toJson (dict "b" (list 1 2.0 "<&>") "a" nil "c" $labels) }}',
            '{"a":null,"b":[1,2,"\\u003c\\u0026\\u003e"],"c":{"job":"j"}}',
        ),
        (
            '{{ append (list 1) 2 "c" }} {{ toJson 1.5 }} {{ toJson (query "up" | first) }}',
            '[1 2 c] 1.5 {"Labels":{"__name__":"up","host":"b"},"Value":2}',
        ),
        (
            '{{ toTime 17e8 | tz "Europe/Paris" | date "02 Jan 15:04 MST -07:00" }} {{ toTime 1699999940 | since }}',
            "14 Nov 23:13 CET +01:00 1m0s",
        ),
        ("{{ toJson (toTime 1.5) }} {{ toJson (toDuration 1) }}", '"1970-01-01T00:00:01.5Z" 1000000000'),
    ],
)
def test_alertmanagers_functions(text, expected):
    """What Alertmanager's templates have besides can be used in rules, too."""
    assert text_of(text, 1.25, job="j") == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3.0, "3"),
        (3.5, "3.5"),
        (1e6, "1e+06"),
        (123456.0, "123456"),
        (1e-5, "1e-05"),
        (float("inf"), "+Inf"),
        (float("nan"), "NaN"),
        (-0.25, "-0.25"),
    ],
)
def test_value(value, expected):
    """A value is written as Go writes a float64."""
    assert text_of("{{ $value }}", value) == expected


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ('{{ query "none" | first }}', "1:19: error calling first: first() called on vector with no elements"),
        ('{{ query "bad" }}', "1:4: error calling query: no such thing"),
        ('{{ humanize "one" }}', '1:4: error calling humanize: parsing "one": invalid syntax'),
        ('{{ match "(" "x" }}', "1:4: error calling match: `(` is no regular expression that RE2 takes: missing ): ("),
        ('{{ toTime "NaN" }}', "1:4: error calling toTime: value is NaN or Inf"),
        ("{{ (toTime 0).Day 5 }}", "1:5: wrong number of args for Day: want 0 got 1"),
        ("{{ (toTime 0).Nothing }}", "1:5: can't evaluate field Nothing in type time.Time"),
        ("{{ (toTime 0).Add $value }}", "1:19: wrong type for value; expected time.Duration; got float64"),
        ("{{ $labels.job 5 }}", "1:4: can't give argument to non-function job"),
        ('{{ tz "Mars/Base" (toTime 0) }}', "1:4: error calling tz: unknown time zone Mars/Base"),
        ('{{ base64decode "?" }}', "1:4: error calling base64decode: illegal base64 data"),
        ('{{ urlUnescape "%zz" }}', '1:4: error calling urlUnescape: invalid URL escape "%zz"'),
        ('{{ dict "a" }}', "1:4: error calling dict: dict requires an even number of arguments"),
        ("{{ dict 1 2 }}", "1:4: error calling dict: dict keys must be strings"),
        ("{{ append 1 2 }}", "1:4: error calling append: append to type int"),
        ("{{ $value.foo }}", "1:4: can't evaluate field foo in type float64"),
        ("{{ gt $value 3 }}", "1:4: error calling gt: incompatible types for comparison: float64 and int"),
        (
            '{{ parseDuration "soon" }}',
            (
                "1:4: error calling parseDuration: `soon` is not a duration: "
                "write whole numbers with units, such as 30s, 5m or 1h30m"
            ),
        ),
        (
            "{{ humanizeTimestamp 1e30 }}",
            "1:4: error calling humanizeTimestamp: 1e+30 cannot be represented as a nanoseconds timestamp",
        ),
    ],
)
def test_failure_is_returned(text, failure):
    """A template that fails while it runs says so in its result, and raises nothing."""
    assert expand(compile_template(text), (), 0.0, SCENE) == ("", failure)


def test_no_json_of_what_is_no_number():
    """JSON has no NaN."""
    assert expand(compile_template("{{ toJson $value }}"), (), float("nan"), SCENE)[1].endswith(
        "unsupported value: nan"
    )


def test_no_querier():
    """Where no series can be asked, a query is a failure of the template."""
    assert "no series can be asked" in expand(compile_template('{{ query "up" }}'), (), 0.0, Scene(at=0.0))[1]


def test_mistakes_show_at_load():
    """A function that is not there is found when the template is compiled."""
    with pytest.raises(TemplateError, match="function `humanise` is not defined"):
        compile_template("{{ humanise 1 }}")


def test_unicode_in_a_replacement():
    """`$$` is a dollar sign, and a group that is not there is empty."""
    assert text_of('{{ reReplaceAll "(a)(x)?" "$$[$2${nope}]" "a" }}') == "$[]"
