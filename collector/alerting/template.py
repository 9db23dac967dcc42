"""Templates of alerts: Go's language with Prometheus' data and functions.

Compiled at load, where a mistake has a place; expanded at every evaluation, where a failure is returned, not raised.
"""

from __future__ import annotations

from collector.alerting.functions import FUNCTIONS, Scene
from collector.gotext import Structure, Template, TemplateError
from collector.model.labels import Labels

_VARIABLES = ("$labels", "$externalLabels", "$externalURL", "$value")


_LOOKING_OUTSIDE = frozenset(("query", "now", "since"))


def is_repeatable(template: Template) -> bool:
    """Whether the same element always gives the same text."""
    return not template.called & _LOOKING_OUTSIDE


def compile_template(text: str) -> Template:
    """The template of a label or an annotation. Raises TemplateError (`line:column: ...` in the text)."""
    return Template(text, FUNCTIONS, _VARIABLES)


def expand(template: Template, labels: Labels, value: float, scene: Scene) -> tuple[str, str]:
    """The text for one element of a rule's result, and why it failed ("" where it did not; the text is "" then).

    `labels` are the element's own, with `__name__`, as `$labels` shows them.
    """
    if template.plain is not None:
        return template.plain, ""
    shown = dict(labels)
    data = Structure(
        "template.alertData",
        {
            "Labels": shown,
            "ExternalLabels": scene.external_labels,
            "ExternalURL": scene.external_url,
            "Value": value,
        },
    )
    variables = {
        "$labels": shown,
        "$externalLabels": scene.external_labels,
        "$externalURL": scene.external_url,
        "$value": value,
    }
    try:
        return template.execute(data, variables, scene), ""
    except TemplateError as error:
        return "", str(error)
