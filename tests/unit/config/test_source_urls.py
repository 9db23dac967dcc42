"""Source URLs: each form of the contract, its options, and what is said about wrong ones."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.config.schemes import WATCHED
from collector.config.source_urls import UrlError, parse_source
from collector.model.secret import Secret
from collector.wiring.plugs import feed


def parse(url, **written):
    """The source of a URL and of keys beside it."""
    return parse_source(url, written, Secret)


def faults(url, **written):
    """What is wrong with a source that is refused."""
    with pytest.raises(UrlError) as raised:
        parse(url, **written)
    return list(raised.value.faults)


def test_kafka():
    """Kafka: several hosts and topics, options from the query."""
    source = parse("kafka://a:9093,b/orders,orders.dlq?security_protocol=SSL&start=stop&start_max_age=30m")
    assert (source.hosts, source.items) == ((("a", 9093), ("b", 9092)), ("orders", "orders.dlq"))
    assert source.options == {"security_protocol": "SSL", "start": "stop"}
    assert (source.start_max_age, source.clock, source.name) == (1800, None, "kafka://a:9093,b/orders,orders.dlq")


def test_kafka_pattern():
    """Topics may be a pattern instead of a list."""
    source = parse("kafka://a", topic_pattern=r"orders\..*", name="o", clock="event", application="shop")
    assert (source.items, source.options) == ((), {"topic_pattern": r"orders\..*"})
    assert (source.name, source.clock, source.application) == ("o", "event", "shop")


def test_redis_stream():
    """Redis streams: database, streams, and credentials that do not show."""
    source = parse("redis-stream://me:p%40ss@[::1]:7000/3/a,b%2Fc?tls=true")
    assert (source.hosts, source.path[0], source.items) == ((("::1", 7000),), "3", ("a", "b/c"))
    assert (source.user, source.password.reveal()) == ("me", "p@ss")
    assert "p@ss" not in repr(source)
    assert source.name == "redis-stream://[::1]:7000/3/a,b%2Fc"


def test_bullmq():
    """BullMQ: the queues of a database, or all of them, with or without TLS."""
    source = parse("bullmq+redis://h/2/mail,render?prefix=%7Ba:b%7D&failed_is_dead_letter=true")
    assert (source.hosts, source.path[0], source.items) == ((("h", 6379),), "2", ("mail", "render"))
    assert source.options == {"prefix": "{a:b}", "failed_is_dead_letter": "true"}
    assert [parse(f"bullmq+rediss://h/0{queues}").items for queues in ("", "/", "/*")] == [(), (), ("*",)]
    assert faults("bullmq+redis://h/mail")


@pytest.mark.parametrize("scheme", ["rq+redis", "rq+rediss", "saq+redis", "saq+rediss"])
def test_watched(scheme):
    """A framework in Redis needs no more than its server; database and queues may be named."""
    source = parse(f"{scheme}://h")
    assert (source.hosts, source.path, source.items, source.name) == ((("h", 6379),), (), (), f"{scheme}://h")
    assert (parse(f"{scheme}://h/2").path, parse(f"{scheme}://h/2").items) == (("2",), ())
    assert parse(f"{scheme}://h/2/high,low").items == parse(f"{scheme}://h/2?queues=high,low").items == ("high", "low")
    assert faults(f"{scheme}://h/high") == [
        ("", f"the path starts with the number of the database: write {scheme}://host:6379/0[/queue,queue...]")
    ]


@pytest.mark.parametrize(
    ("url", "name", "path"),
    [
        ("unix:///run/t/e.sock", "unix:///run/t/e.sock", ("/run/t/e.sock",)),
        ("file:///var/a%20b.ndjson", "file:///var/a%20b.ndjson", ("/var/a b.ndjson",)),
        ("file:captures/a.jsonl", "file://captures/a.jsonl", ("captures/a.jsonl",)),
        ("stdin:", "stdin", ()),
        ("http://127.0.0.1:9810/v1/events", "http://127.0.0.1:9810/v1/events", ("v1", "events")),
    ],
)
def test_others(url, name, path):
    """The other kinds of source have a path, or nothing."""
    assert (parse(url).name, parse(url).path) == (name, path)


@pytest.mark.parametrize(
    ("url", "whole"),
    [
        ("redis://h/0", {"redis-stream", "celery+redis", "bullmq+redis", *(f"{name}+redis" for name in WATCHED)}),
        ("celery://h", {"celery+redis", "celery+rediss", "celery+amqp", "celery+amqps"}),
    ],
)
def test_a_part_of_a_kind_names_all_that_have_it(url, whole):
    """Whoever writes the server or the framework alone is not sent to one of the others."""
    ((_, message),) = faults(url)
    assert message.startswith(f"`{url.partition(':')[0]}` is only a part of a kind of source: write one of ")
    assert set(message.partition("one of ")[2].split(", ")) == whole | {"celery+redis+socket"}


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("orders", "a source is a URL: write, for example, kafka://host:9092/topic"),
        ("kafk://h/t", "unknown kind of source `kafk`: did you mean `kafka`?"),
        (
            "kafka://h",
            "what to read is missing: name it once, in the path, in `topics` or `topic_pattern`: kafka://host:9092/topic[,topic...]",
        ),
        (
            "kafka://h/t?topics=u",
            "what to read is given twice: name it once, in the path, in `topics` or `topic_pattern`: kafka://host:9092/topic[,topic...]",
        ),
        ("kafka://h/t/u", "too many parts in the path: write kafka://host:9092/topic[,topic...]"),
        ("kafka:///t", "the host has to be `host` or `host:port`: write kafka://host:9092/topic[,topic...]"),
        ("kafka://h:0/t", "the host has to be `host` or `host:port`: write kafka://host:9092/topic[,topic...]"),
        ("kafka://[::1/t", "not a URL: write kafka://host:9092/topic[,topic...]"),
        ("kafka://h/t?start=begin", "`start` is one of oldest, newest, stop"),
        ("kafka://h/t?strat=oldest", "unknown option of kafka sources `strat`: did you mean `start`?"),
        ("kafka://h/t?start=oldest&start=newest", "the option `start` is given twice: keep one"),
        ("kafka://h/t?clock=wall", "`clock` is one of broker, event, arrival"),
        (
            "kafka://h/t?start_max_age=1",
            "`start_max_age`: `1` is not a duration: write whole numbers with units, such as 30s, 5m or 1h30m",
        ),
        (
            "redis-stream://h/jobs",
            "the path starts with the number of the database: write redis-stream://host:6379/0/stream[,stream...]",
        ),
        (
            "redis-stream://a,b/0/s",
            "this kind of source takes one host: write redis-stream://host:6379/0/stream[,stream...]",
        ),
        (
            "redis-stream://h/0",
            "what to read is missing: name it once, in the path, in `streams`: redis-stream://host:6379/0/stream[,stream...]",
        ),
        ("unix://h/x", "this kind of source names no host: write unix:///run/tasktrail/events.sock"),
        ("file:", "the path is missing: write file:///path/to/events.ndjson"),
    ],
)
def test_refused(url, message):
    """A URL that cannot be used is refused with what is wrong and what to write."""
    assert faults(url) == [("", message)]


def test_fault_of_a_key():
    """What is wrong with a key beside the URL is told of that key, all of them at once."""
    assert faults("kafka://h/t?name=a", name="b", sart="x", topic_pattern="(") == [
        ("sart", "unknown option of kafka sources `sart`: did you mean `start`?"),
        ("topic_pattern", "`topic_pattern`: `(` is no regular expression that RE2 takes: missing ): ("),
        ("name", "the option `name` is given twice: keep one"),
        (
            "",
            "what to read is given twice: name it once, in the path, in `topics` or `topic_pattern`: kafka://host:9092/topic[,topic...]",
        ),
    ]


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["kafka:", "redis-stream:", "unix:", "file:", "stdin:", "http:", "", "x"]),
    st.text(alphabet="/:@?&=,[]%#0189ahz.~\u00e9 ", max_size=30),
)
def test_any_text(scheme, rest):
    """Whatever is written for a source is read or refused, never met with another exception."""
    try:
        outcome = parse(scheme + rest).scheme
    except UrlError as error:
        outcome = error.faults
    assert outcome


@pytest.mark.parametrize(
    ("url", "host", "path", "options"),
    [
        ("celery+redis://h", (("h", 6379),), (), {}),
        ("celery+rediss://:pw@h:7/3?enable_events=true", (("h", 7),), ("3",), {"enable_events": "true"}),
        (
            "celery+redis://h/0?db=*&global_keyprefix=acme:",
            (("h", 6379),),
            ("0",),
            {"db": "*", "global_keyprefix": "acme:"},
        ),
        ("celery+redis+socket:///run/r.sock?db=2", (), ("/run/r.sock",), {"db": "2"}),
    ],
)
def test_celery_on_redis(url, host, path, options):
    """A Celery broker is named as Celery names it, with the names that the application gave as options."""
    source = parse(url)
    assert (source.hosts, source.path, source.options) == (host, path, options)
    assert feed(source).build is not None


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("celery+redis://h/orders", "the path is the number of the database: write celery+redis://host:6379/0"),
        ("celery+redis://h/0/orders", "the path is the number of the database: write celery+redis://host:6379/0"),
        ("celery+redis://h?db=x", "`db`: the number of a database, or * for the channels of all"),
        ("celery+redis://h?results=no", "`results` is one of true, false"),
    ],
)
def test_celery_on_redis_is_checked(url, message):
    """What is no database, or no answer, is said with what to write."""
    assert faults(url) == [("", message)]
