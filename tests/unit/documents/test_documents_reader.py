"""Documents: every problem at its place, and structs that know where they stood."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
import pytest

from collector.documents import Duration, Place, Regex, Url, read
from collector.documents.reader import Rest
from collector.model.errors import ProblemsError
from collector.model.secret import Secret


class Item(msgspec.Struct, kw_only=True):
    """With a shorthand, bounds and free keys."""

    SHORTHAND: ClassVar[str] = "url"
    place: Place
    url: str
    count: Annotated[int, msgspec.Meta(ge=1, le=9)] = 3
    others: Rest = msgspec.field(default_factory=Rest)


class Inner(msgspec.Struct):
    """Holds itself."""

    depth: int = 0
    inner: Inner | None = None


class Document(msgspec.Struct, kw_only=True, rename={"hold": "for"}):
    """A field of every kind."""

    place: Place
    hold: Duration = Duration(60)
    items: list[Item] = []
    mode: Literal["fast", "slow"] = "fast"
    flag: bool = False
    ratio: float = 0.5
    whole: int = 1
    name: str = ""
    labels: dict[str, str] = {}
    url: Url | None = None
    pattern: Regex | None = None
    secret: Secret | None = None
    inner: Inner | None = None
    either: str | list[str] = ""


def problems(text, **options):
    """`line:column: message` of every problem."""
    try:
        return [f"{p.line}:{p.column}: {p.message}" for p in sorted(read("f", text, Document, **options)[1])]
    except ProblemsError as error:
        return [f"{p.line}:{p.column}: {p.message}" for p in error.problems]


def value(text, **options):
    """The document of a text without problems."""
    document, found = read("f", text, Document, **options)
    assert found == []
    return document


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nam: x", "1:1: unknown key `nam`: did you mean `name`?"),
        ("name: a\nname: b", "2:1: the key `name` is given twice, first on line 1: keep one"),
        ("for: soon", "1:6: `soon` is not a duration: write whole numbers with units, such as 30s, 5m or 1h30m"),
        ("for: 30", "1:6: `30` is not a duration: write whole numbers with units, such as 30s, 5m or 1h30m"),
        ("for: 300y", "1:6: `300y` is too long: the longest duration is 292y"),
        ("for: [1]", "1:6: expected a duration such as 30s, 5m or 1h30m, got a list"),
        ("mode: fats", "1:7: expected one of fast, slow, got `fats`: did you mean `fast`?"),
        ("flag: 'yes'", "1:7: expected true or false, got `yes`: remove the quotes"),
        ("flag: maybe", "1:7: expected true or false, got `maybe`"),
        ("whole: 1.5", "1:8: expected a whole number, got `1.5`"),
        ("whole: 010", "1:8: expected a whole number, got `010`"),
        ("ratio: much", "1:8: expected a number, got `much`"),
        ("name: {a: b}", "1:7: expected text, got a mapping"),
        ("labels: [a]", "1:9: expected a mapping (lines of `key: value`), got a list"),
        ("items: x", "1:8: expected a list (each item on its own line after `- `), got `x`"),
        ("items:\n- count: 0", "2:3: the key `url` is missing: add `url: ...`"),
        ("items:\n- url: x\n  count: 0", "3:10: 0 is too small: at least 1"),
        ("items:\n- url: x\n  count: 10", "3:10: 10 is too large: at most 9"),
        ("items:\n- ~", "2:3: expected a mapping (lines of `key: value`), got nothing: write a value"),
        ("url: ftp://x", "1:6: `ftp://x` is not an http or https URL: write it as https://host/path"),
        (
            "name: !!python/object:os.system x",
            "1:7: the tag `tag:yaml.org,2002:python/object:os.system` is not allowed: write plain YAML",
        ),
        ("? [a]\n: b", "1:3: a key has to be plain text: check for a stray `?`, `[` or `{`"),
        ("labels:\n  <<: 3", "2:7: `<<` takes a mapping or a list of mappings: write `<<: *name`"),
        ("- a", "1:1: expected a mapping (lines of `key: value`), got a list"),
        (
            "a: b: c",
            (
                "1:5: not valid YAML: mapping values are not allowed in this context: "
                "put text that holds `: ` in quotes, or check the indentation"
            ),
        ),
        (
            "name: 'x",
            "1:9: not valid YAML: while scanning a quoted scalar, found unexpected end of stream: close the quote",
        ),
        ("a: *x", "1:4: not valid YAML: found undefined alias: define it first, as `&name`"),
        ("name: a\x07", "1:8: the character U+0007 is not allowed in YAML: remove it"),
        (
            "--- {}\n--- {}",
            (
                "2:1: not valid YAML: expected a single document in the stream, but found another document: "
                "keep one document in a file: remove the line `---`"
            ),
        ),
        ("inner: &a {inner: *a}", "1:8: this anchor holds itself: write the value out"),
    ],
)
def test_problem(text, message):
    """A mistake is told at its place, with what is wrong and what to do."""
    assert message in problems(text)


def test_bad_regex():
    """A pattern that only a backtracking engine could run is refused."""
    assert "is no regular expression that RE2 takes" in problems(r"pattern: (a)\1")[0]


def test_all_at_once():
    """Every problem of a file is found in one reading."""
    assert len(problems("for: soon\nmode: fats\nwhole: x\nnope: 1\nitems:\n- {}\n- count: x\n  url: y")) == 6


def test_values():
    """Values are read by type: durations in seconds, any scalar as text, either member of a union."""
    document = value("for: 1h30m\nname: 007\nlabels: {a: 1, b: , c: true}\nflag: on\nratio: 1e3\neither: [a, b]")
    assert (document.hold, document.name, document.flag, document.ratio) == (5400, "007", True, 1000)
    assert document.labels == {"a": "1", "b": "", "c": "true"}
    assert document.either == ["a", "b"]


def test_nothing_is_the_default():
    """An empty file and empty values give the defaults."""
    assert value("").hold == value("for:\nitems: ~").hold == 60


def test_shorthand_and_rest():
    """A scalar stands for a struct's one important field, and keys that are no fields are kept where wanted."""
    first, second = value("items:\n- a\n- url: b\n  topics: [x, y]\n  tls: true").items
    assert (first.url, second.url, second.others) == ("a", "b", {"topics": "x,y", "tls": "true"})


def test_merge_keys():
    """A merge key gives what is not written, what is written wins, and neither counts as given twice."""
    items = value("items:\n- &base {url: a, count: 2}\n- {<<: *base, count: 4}\n- <<: [{count: 5}, *base]").items
    assert [(item.url, item.count) for item in items] == [("a", 2), ("a", 4), ("a", 5)]


def test_places():
    """A struct knows its own place, those of its keys and values, and of the first character of a text."""
    place = value('items:\n  - url: "x"\n    count: 2\nlabels:\n  a: |\n\n    text\n').place
    assert [(p.line, p.column) for p in (place.at("items", 0), place.at("items", 0, "count"))] == [(2, 5), (3, 12)]
    assert (place.key("labels").line, place.key("labels").column) == (4, 1)
    quoted, block = place.at("items", 0, "url").content(), place.at("labels", "a").content()
    assert [(p.line, p.column) for p in (quoted, block)] == [(2, 11), (7, 5)]
    assert place.at("items", 7, "url").line == 2
    assert (place.has("items"), place.has("for")) == (True, False)


def test_places_of_merged_keys():
    """A key that came by a merge stands where it was written."""
    place = value("labels: &l {a: b}\nitems:\n- <<: [*l, {count: 2}]\n  url: x\n").place.at("items", 0)
    assert [(p.line, p.column) for p in (place.at("count"), place.at("a"), place.at("none"))] == [
        (3, 20),
        (1, 16),
        (3, 3),
    ]


def test_environment():
    """References take the variable, else the default; a doubled dollar sign stays a single one."""
    environ = {"NAME": "n", "EMPTY": "", "TWO": "2"}
    document = value("name: a-${NAME}-${X:-d}-${EMPTY:-e}-$${NAME}\nwhole: ${TWO}", environ=environ)
    assert (document.name, document.whole) == ("a-n-d-e-${NAME}", 2)
    assert problems("name: ${X}", environ={}) == [
        "1:7: the environment variable X is not set: set it, or write ${X:-default}"
    ]
    assert "starts an environment variable" in problems("name: ${a b}", environ={})[0]
    assert value("name: ${X}").name == "${X}"


def test_environment_values_are_not_shown():
    """A value from the environment that is wrong in its place is not in the message."""
    assert "hunter2" not in problems("for: ${P}\nmode: ${P}\nurl: ${P}", environ={"P": "hunter2"})[0]


def test_secrets(tmp_path):
    """A secret may come from a file, is never shown, and a bad file is named with its place."""
    (tmp_path / "s").write_text("hunter2\n")

    def read_file(path):
        return (tmp_path / path).read_text()

    document = value("secret: file:s", read_file=read_file)
    assert document.secret.reveal() == "hunter2"
    assert "hunter2" not in repr(document)
    assert problems("secret: file:none", read_file=read_file) == [
        "1:9: the secret file none cannot be used: No such file or directory: check the path and its rights"
    ]


def test_scalars_show_themselves():
    """A pattern prints as its text and matches whole texts; a place prints as people write it."""
    document = value("pattern: a+\nname: x")
    assert (repr(document.pattern), document.pattern.matches("aa"), document.pattern.matches("ab")) == (
        "Regex('a+')",
        True,
        False,
    )
    assert repr(document.place.at("name")) == "f:2:7"
    assert document.place.at("pattern", 3).content().column == 10
    assert document.place.key("none").line == 1


def test_unusable_urls():
    """A URL that cannot even be split is refused without showing what it holds."""
    assert problems("url: 'http://[::1/u:hunter2'") == [
        "1:6: `***` is not an http or https URL: write it as https://host/path"
    ]


def test_empty_secret_file():
    """A secret file without content is a mistake, not an empty password."""
    assert problems("secret: file:x", read_file=lambda _: "\n") == [
        "1:9: the secret file x is empty: write the secret into it"
    ]


def test_size():
    """A file of absurd size is refused before anything looks at it."""
    assert "split it" in problems("#" * 8_000_001)[0]


def test_alias_bomb():
    """A file whose aliases stand for more than can be walked is refused, quickly."""
    lines = ["a: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"b{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert "with its aliases written out" in problems("\n".join(lines))[0]


@pytest.mark.parametrize("text", ["[" * 500 + "]" * 500, "[" * 20_000 + "]" * 20_000, "- " * 2000, "{a: " * 300])
def test_deep_nesting(text):
    """Nesting that nobody writes is refused, whatever closes it."""
    assert len(problems(text)) == 1
