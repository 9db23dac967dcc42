"""A route file as it may be shown: its text, with every secret replaced as Alertmanager replaces them."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import yaml

from collector.documents.nodes import LOADER
from collector.routing.route import Route

_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
SECRET = "<secret>"  # noqa: S105  what stands in its place
_NAMES = re.compile(r"(?:.*_)?(?:url|key|token|password|secrets?|credentials|chat_id|values)")
"""Keys whose values may be secrets: the address of a webhook is one, too."""
_FREE = frozenset(("opsgenie_api_url", "victorops_api_url", "wechat_api_url", "telegram_api_url", "pagerduty_url"))


def masked(text: str) -> str:
    """The text of a valid route file without its secrets; comments are lost."""
    return str(
        yaml.dump(
            _masked(yaml.load(text, Loader=LOADER)),  # noqa: S506  both loaders are safe ones
            Dumper=_DUMPER,
            sort_keys=False,
            allow_unicode=True,
            width=120,
        )
    )


def of_route(route: Route) -> str:
    """A route without a file, as one would be written."""
    top = {
        "receiver": route.receiver,
        "group_by": list(route.group_by or ("...",)),
        "group_wait": f"{route.group_wait:g}s",
        "group_interval": f"{route.group_interval:g}s",
        "repeat_interval": f"{route.repeat_interval:g}s",
    }
    return yaml.safe_dump({"route": top, "receivers": [{"name": route.receiver}]}, sort_keys=False)


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _hidden(key, one) if _is_secret(key, one) else _masked(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_masked(one) for one in value]
    return value


def _hidden(key: str, value: Any) -> str:
    """Of a webhook's address the place stays, as older versions of amtool read it as an address."""
    parts = urlsplit(str(value)) if key == "url" else None
    if parts is None or parts.scheme not in ("http", "https"):
        return SECRET
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/{SECRET}"


def _is_secret(key: Any, value: Any) -> bool:
    is_named = isinstance(key, str) and _NAMES.fullmatch(key) is not None and key not in _FREE
    return is_named and value not in (None, "") and not isinstance(value, dict)
