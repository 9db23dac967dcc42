"""Floats as Go writes them, to the last digit."""

from __future__ import annotations

import math


def format_float(value: float, verb: str, precision: int = -1) -> str:
    """`value` by one of the verbs e E f F g G; precision -1 is the fewest digits that read back the same.

    Negative numbers carry their sign, infinities always do; NaN is `NaN`.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if precision >= 0:
        return f"{value:.{precision}{verb}}"
    negative = math.copysign(1.0, value) < 0
    digits, point = _shortest(abs(value))
    text = _LAYOUTS[verb.lower()](digits, point)
    return ("-" if negative else "") + (text.upper() if verb.isupper() else text)


def hex_float(value: float, verb: str, precision: int = -1) -> str:
    """`value` by the verb x or X: `0x1.8p+01`, with `precision` digits after the point."""
    if not math.isfinite(value):
        return format_float(value, "g")
    mantissa, exponent = math.frexp(abs(value))
    bits = int(mantissa * (1 << 53))  # 1.f as a whole number with 52 bits of f
    power = exponent - 1 if value else 0
    if 0 <= precision < 13:
        unit = 1 << (52 - 4 * precision)
        below, bits = bits % unit, bits // unit
        bits += below * 2 > unit or (below * 2 == unit and bits % 2 == 1)
        bits *= unit
        if bits >> 53:
            bits, power = bits >> 1, power + 1
    digits = f"{bits & ((1 << 52) - 1):013x}"
    digits = digits.rstrip("0") if precision < 0 else digits[:precision].ljust(precision, "0")
    text = f"0x{bits >> 52}{'.' if digits else ''}{digits}p{'-' if power < 0 else '+'}{abs(power):02d}"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    return sign + (text.upper() if verb == "X" else text)


def _shortest(value: float) -> tuple[str, int]:
    """The digits that matter, and how many of them stand before the point (Python and Go agree on the digits)."""
    mantissa, _, exponent = f"{value!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).rstrip("0")
    point = len(whole) + int(exponent or 0)
    stripped = digits.lstrip("0")
    if not stripped:
        return "0", 1
    return stripped, point - (len(digits) - len(stripped))


def _exponent_form(digits: str, point: int) -> str:
    exponent = point - 1
    fraction = "." + digits[1:] if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _point_form(digits: str, point: int) -> str:
    if point <= 0:
        return "0." + "0" * -point + digits
    whole, fraction = digits[:point].ljust(point, "0"), digits[point:]
    return whole + ("." + fraction if fraction else "")


def _general_form(digits: str, point: int) -> str:
    """Go's shortest form changes to an exponent below 1e-04 and from 1e+06 on (Python's from 1e+16 on)."""
    is_extreme = point - 1 < -4 or point - 1 >= 6
    return _exponent_form(digits, point) if is_extreme else _point_form(digits, point)


_LAYOUTS = {"e": _exponent_form, "f": _point_form, "g": _general_form}
