"""The graph as a picture: one SVG, or one HTML page around it, which loads nothing and runs nothing."""

from __future__ import annotations

import math
from collections import Counter
from html import escape
from typing import TYPE_CHECKING

from vademecum.knowledge.records import Graph

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_GOLDEN = math.pi * (3 - math.sqrt(5))
#: Forces between all pairs take memory and time by the square of the nodes; more nodes stay where they begin.
_MOST_WITH_FORCES = 1_500
_MOST_ROUNDS = 120
_PAIRS = 40_000_000
_SPACING = 60.0
#: How strongly pages are drawn to the middle: enough for those without links not to wander off.
_PULL = 0.6
_MARGIN = 40.0
_LABEL_WIDTH = 240.0
_LABEL = 40

_STYLE = """
svg { font: 11px system-ui, sans-serif; background: #fff; }
line { stroke: #8888; }
text { fill: #222; paint-order: stroke; stroke: #fffc; stroke-width: 3px; }
circle { stroke: #fff; stroke-width: 1.5px; }
g:hover > circle { stroke: #222; }
marker path { fill: #888; }
"""
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ margin: 0; font: 14px system-ui, sans-serif; color: #222; background: #fff; }}
header {{ padding: 12px 16px; }}
h1 {{ font-size: 18px; margin: 0 0 4px; }}
ul {{ list-style: none; margin: 8px 0 0; padding: 0; display: flex; flex-wrap: wrap; gap: 4px 16px; }}
main {{ overflow: auto; }}
main svg {{ display: block; margin: auto; max-width: none; }}
</style>
</head>
<body>
<header><h1>{title}</h1><div>{counts}</div><ul>{legend}</ul></header>
<main>
{svg}</main>
</body>
</html>
"""


def to_html(graph: Graph, title: str) -> str:
    """A page with the picture, the counts and the colours of the categories."""
    legend = "".join(
        f'<li><span style="color:{_colour(graph, name)}">●</span> {_clean(name or "–")}</li>'
        for name in graph.categories
    )
    counts = f"{_count(len(graph.nodes), 'page')}, {_count(len(graph.edges), 'link')}"
    return _PAGE.format(title=_clean(title), counts=counts, legend=legend, svg=to_svg(graph))


def to_svg(graph: Graph) -> str:
    """The picture: a circle for each page, larger the more pages lead to it, and an arrow for each link."""
    places = _places(graph)
    left = min((x for x, _ in places.values()), default=0.0) - _MARGIN
    top = min((y for _, y in places.values()), default=0.0) - _MARGIN
    width = max((x for x, _ in places.values()), default=0.0) + _MARGIN + _LABEL_WIDTH - left
    height = max((y for _, y in places.values()), default=0.0) + _MARGIN - top
    incoming = Counter(edge.target for edge in graph.edges)
    radius = {node.id: 5 + 2 * math.sqrt(incoming[node.id]) for node in graph.nodes}
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{left:.1f} {top:.1f} {width:.1f} {height:.1f}" role="img">',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>',
    ]
    lines += [_line(places[edge.source], places[edge.target], radius[edge.target]) for edge in graph.edges]
    for node in graph.nodes:
        x, y = places[node.id]
        label = node.label if len(node.label) <= _LABEL else f"{node.label[: _LABEL - 1]}…"
        lines.append(
            f"<g><title>{_clean(f'{node.label} ({node.id})')}</title>"
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius[node.id]:.1f}" fill="{_colour(graph, node.category)}"/>'
            f'<text x="{x + radius[node.id] + 3:.1f}" y="{y + 4:.1f}">{_clean(label)}</text></g>'
        )
    return "\n".join([*lines, "</svg>", ""])


def _line(start: tuple[float, float], end: tuple[float, float], radius: float) -> str:
    """An arrow that ends at the rim of the circle that it leads to."""
    length = math.dist(start, end) or 1.0
    x, y = (b - (b - a) / length * radius for a, b in zip(start, end, strict=True))
    return f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{x:.1f}" y2="{y:.1f}" marker-end="url(#arrow)"/>'


def _places(graph: Graph) -> dict[str, tuple[float, float]]:
    """Where each page is; the same graph gives the same picture."""
    import numpy as np

    count = len(graph.nodes)
    # A sunflower, category by category, so that what belongs together begins together.
    order = sorted(range(count), key=lambda number: (graph.nodes[number].category, graph.nodes[number].id))
    turns = np.empty(count)
    turns[order] = np.arange(count)
    reach = _SPACING * np.sqrt(turns + 0.5)
    places = np.stack([reach * np.cos(turns * _GOLDEN), reach * np.sin(turns * _GOLDEN)], axis=1)
    if 1 < count <= _MOST_WITH_FORCES:
        numbers = {node.id: number for number, node in enumerate(graph.nodes)}
        pairs = np.array([(numbers[edge.source], numbers[edge.target]) for edge in graph.edges], np.intp).reshape(-1, 2)
        places = _settled(places, pairs)
    return {node.id: (float(x), float(y)) for node, (x, y) in zip(graph.nodes, places, strict=True)}


def _settled(places: NDArray[np.float64], pairs: NDArray[np.intp]) -> NDArray[np.float64]:
    """Places after the forces of Fruchterman and Reingold (Graph Drawing by Force-directed Placement, 1991):
    all pages repel one another by k²/d, linked ones attract by d²/k, and moves become smaller. A weak pull to the
    middle keeps apart what is not connected from drifting away."""
    import numpy as np

    for step in np.linspace(_SPACING, 1.0, min(_MOST_ROUNDS, _PAIRS // len(places) ** 2)):
        gaps = places[:, None, :] - places[None, :, :]
        squares = np.einsum("ijk,ijk->ij", gaps, gaps)
        np.fill_diagonal(squares, np.inf)
        force = np.einsum("ijk,ij->ik", gaps, _SPACING**2 / np.maximum(squares, 1e-3))
        pull = places[pairs[:, 0]] - places[pairs[:, 1]]
        pull *= np.linalg.norm(pull, axis=1, keepdims=True) / _SPACING
        np.subtract.at(force, pairs[:, 0], pull)
        np.add.at(force, pairs[:, 1], pull)
        force -= places * _PULL
        length = np.maximum(np.linalg.norm(force, axis=1, keepdims=True), 1e-9)
        places = places + force / length * np.minimum(length, step)
    return places


def _colour(graph: Graph, category: str) -> str:
    return f"hsl({graph.categories.index(category) * 137.508 % 360:.0f} 60% 45%)"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _clean(text: str) -> str:
    """``text`` for HTML and XML, which do not even allow some control characters as references."""
    return escape("".join(char if char.isprintable() else " " for char in text))
