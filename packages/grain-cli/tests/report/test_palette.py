"""The colours of runs can be told apart, also by those who are blind to red or to green.

Colours are simulated with the matrices for severity 1.0 of G. M. Machado, M. M. Oliveira, L. A. F.
Fernandes, "A physiologically-based model for simulation of color vision deficiency", IEEE TVCG 15,
2009, in linear RGB; distances are CIEDE2000 (ISO/CIE 11664-6), of which 1 is about what can just be
seen.
"""

from __future__ import annotations

import math
import re
from importlib.resources import files
from itertools import combinations

import pytest

Vector = tuple[float, float, float]
Matrix = tuple[Vector, Vector, Vector]

SIGHTS: dict[str, Matrix] = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}
# IEC 61966-2-1, with the white of D65 divided out.
TO_XYZ: Matrix = (
    (0.4124564 / 0.95047, 0.3575761 / 0.95047, 0.1804375 / 0.95047),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339 / 1.08883, 0.1191920 / 1.08883, 0.9503041 / 1.08883),
)


def times(matrix: Matrix, vector: Vector) -> Vector:
    first, second, third = (
        sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix
    )  # fmt: skip
    return first, second, third


def linear(colour: str) -> Vector:
    """Return a colour as #rrggbb in linear RGB."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))

    def straight(value: float) -> float:
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    return straight(red), straight(green), straight(blue)


def lab(colour: Vector) -> Vector:
    def root(t: float) -> float:
        return t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116

    x, y, z = map(root, times(TO_XYZ, colour))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def distance(one: Vector, two: Vector) -> float:
    """Return the CIEDE2000 distance of two colours in CIELAB."""
    (l1, a1, b1), (l2, a2, b2) = one, two
    mean = ((math.hypot(a1, b1) + math.hypot(a2, b2)) / 2) ** 7
    a1, a2 = (a * (1.5 - 0.5 * math.sqrt(mean / (mean + 25**7))) for a in (a1, a2))
    c1, c2 = math.hypot(a1, b1), math.hypot(a2, b2)
    h1, h2 = (math.degrees(math.atan2(b, a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    hue = (h1 + turn / 2) % 360 if c1 * c2 else h1 + h2
    light, chroma = (l1 + l2) / 2, (c1 + c2) / 2

    def cos(degrees: float) -> float:
        return math.cos(math.radians(degrees))

    t = 1 - 0.17 * cos(hue - 30) + 0.24 * cos(2 * hue) + 0.32 * cos(3 * hue + 6)
    t -= 0.20 * cos(4 * hue - 63)
    by_light = (l2 - l1) / (1 + 0.015 * (light - 50) ** 2 / math.sqrt(20 + (light - 50) ** 2))
    by_chroma = (c2 - c1) / (1 + 0.045 * chroma)
    by_hue = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn / 2)) / (1 + 0.015 * chroma * t)
    rotation = -2 * math.sqrt(chroma**7 / (chroma**7 + 25**7))
    rotation *= math.sin(math.radians(60 * math.exp(-(((hue - 275) / 25) ** 2))))
    square = by_light**2 + by_chroma**2 + by_hue**2 + rotation * by_chroma * by_hue
    return math.sqrt(square)


def palettes() -> dict[str, dict[str, str]]:
    """Return the colours of runs and of the page, in its light and its dark theme."""
    style = (files("grain.cli.report") / "templates" / "style.css").read_text(encoding="utf-8")
    found = re.findall(r"--(page|f[0-8]|vain): (#[0-9a-f]{6});", style)
    assert 22 == len(found)
    return {"light": dict(found[:11]), "dark": dict(found[11:])}


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, -1.3802, -84.2814), (50.0, 0.0, -82.7485), 1.0),
        ((50.0, 2.5, 0.0), (61.0, -5.0, 29.0), 22.8977),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_distances_are_those_of_the_published_test_data(
    one: Vector, two: Vector, expected: float
) -> None:
    """By G. Sharma, W. Wu, E. N. Dalal, Color Research and Application 30, 2005."""
    assert expected == pytest.approx(distance(one, two), abs=1e-4)


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_two_colours_of_runs_look_alike(theme: str, sight: str) -> None:
    colours = palettes()[theme]
    del colours["page"]
    seen = {}
    for name, colour in colours.items():
        red, green, blue = (
            min(1.0, max(0.0, one)) for one in times(SIGHTS[sight], linear(colour))
        )  # fmt: skip
        seen[name] = lab((red, green, blue))

    least, pair = min(
        (distance(seen[one], seen[two]), (one, two)) for one, two in combinations(seen, 2)
    )
    assert least >= 12, pair


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_runs_stand_out_from_the_page(theme: str) -> None:
    colours = palettes()[theme]
    bright = {name: times(TO_XYZ, linear(colour))[1] + 0.05 for name, colour in colours.items()}

    page = bright.pop("page")
    assert 2.3 < min(max(page, one) / min(page, one) for one in bright.values())
