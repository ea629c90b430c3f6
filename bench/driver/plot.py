"""The plot of docs/performance.md: for each row the time of JAX and of hand-written C++ over ours, as bars of SVG."""
import math
from xml.sax.saxutils import escape

import figures

LEFT, WIDTH, BAR, RIGHT = 250, 560, 7, 60  # pixels: names, scale, height of a bar, figures
COLOURS = {"jax": "#3b6fb6", figures.HAND: "#e08a2c"}
LABELS = {"jax": "JAX / Telamon", figures.HAND: "hand-written C++ / Telamon"}


def rows_of(lines):
    """[(name, {contender: ratio}, those that were stopped)] of one metric a workload."""
    rows = []
    for line in lines:
        ratios = {c: line.ratio(c) for c in COLOURS if not line.serial(c)}
        if line.metric in ("time", "total") and any(ratios.values()):
            rows.append((line.name, {c: r for c, r in ratios.items() if r}, [c for c in ratios if line.stopped(c)]))
    return rows


class Scale:
    """Logarithmic, from a power of ten to another."""

    def __init__(self, ratios):
        self.low = min(-1, math.floor(math.log10(min(ratios))))
        self.high = max(1, math.ceil(math.log10(max(ratios))))

    def x(self, ratio):
        return LEFT + WIDTH * (math.log10(ratio) - self.low) / (self.high - self.low)


def text(x, y, words, anchor="start", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def grid(scale, top, bottom):
    """A line for each power of ten; that of 1 is strong."""
    parts = []
    for power in range(scale.low, scale.high + 1):
        x, strong = scale.x(10.0**power), power == 0
        parts.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" '
                     f'stroke="{"#333" if strong else "#ddd"}"/>')
        parts.append(text(x, top - 4, f"{10.0**power:g}×", "middle"))
    return parts


def bars(name, ratios, stopped, scale, y):
    parts = [text(LEFT - 6, y + BAR + 3, name, "end")]
    for k, (contender, ratio) in enumerate(ratios.items()):
        figure = f"{'>= ' if contender in stopped else ''}{ratio:.3g}"
        start, end = sorted((scale.x(1), scale.x(ratio)))
        parts.append(f'<rect x="{start:.1f}" y="{y + k * BAR}" width="{max(end - start, 0.5):.1f}" height="{BAR - 1}" '
                     f'fill="{COLOURS[contender]}"><title>{escape(name)}: {escape(figure)}</title></rect>')
        parts.append(text(end + 3, y + k * BAR + BAR - 1, figure, more=' font-size="7"'))
    return parts


def svg(result):
    """Bars to the right of 1: we are faster."""
    rows = rows_of(figures.lines_of(result))
    top, step = 58, 2 * BAR + 4
    bottom = top + step * len(rows) + 4
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + RIGHT}" height="{bottom + 10}" '
             'font-family="sans-serif" font-size="10">', '<rect width="100%" height="100%" fill="white"/>',
             text(10, 16, f"Time over Telamon's, {result['threads']} thread(s), {result['machine']['cpu']}, "
                  f"{result['date']}: to the right of 1 Telamon is faster", more=' font-size="12"')]
    for k, (contender, label) in enumerate(LABELS.items()):
        parts.append(f'<rect x="{10 + 180 * k}" y="26" width="10" height="10" fill="{COLOURS[contender]}"/>')
        parts.append(text(24 + 180 * k, 35, label))
    if rows:
        scale = Scale([r for _, ratios, _ in rows for r in ratios.values()])
        parts += grid(scale, top, bottom)
        for k, (name, ratios, stopped) in enumerate(rows):
            parts += bars(name, ratios, stopped, scale, top + 4 + k * step)
    return "\n".join([*parts, "</svg>", ""])
