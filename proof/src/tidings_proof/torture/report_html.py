"""The verdict as one page without a script: a picture of the run as inline SVG, the promises, the faults.

The picture: acknowledged sends of every second above, what was suffered as bars below, violations as marks between.
It needs nothing but itself, so it can be kept beside a release. Written by cli_torture.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from tidings_proof.judge.checker import Finding
from tidings_proof.torture.report import again, verdict
from tidings_proof.torture.run import Beat, Done, Outcome

WIDTH = 1000
LEFT = 150  # names of faults
CHART = 140
ROW = 16
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1060px;padding:0 1rem;color:#1a1a1a;background:#fff}
h1{font-size:1.4rem} .kept{color:#12722e} .broken{color:#b3261e;font-weight:600} .not-looked-at{opacity:.7}
table{border-collapse:collapse;width:100%} td,th{padding:.25rem .6rem;text-align:left;border-bottom:1px solid #ddd;
vertical-align:top} code{background:#f2f2f2;padding:.1rem .3rem} svg{width:100%;height:auto} ul{margin:.2rem 0}
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616} td,th{border-color:#333}
code{background:#262626}
.kept{color:#6fcf8a} .broken{color:#ff8a80}}
"""


def as_html(outcome: Outcome) -> str:
    options = outcome.options
    said = verdict(outcome)
    where = "nodes that run already" if options.addresses else options.stores
    rows = "".join(_promise(finding) for finding in outcome.findings)
    did = " · ".join(f"{escape(name)} {count:,}" for name, count in outcome.counts.items())
    left_out = "".join(f"<li>{escape(name)}: {escape(why)}</li>" for name, why in outcome.left_out.items())
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>torture, seed {options.seed}: {said}</title><style>{_STYLE}</style>"
        f'<h1>Torture, seed {options.seed}: <span class="{"kept" if outcome.is_kept else "broken"}">{said}</span></h1>'
        f"<p>{options.seconds:g} s of faults, {outcome.took_s:g} s in all, on {escape(where)}. {did}.</p>"
        f"{timeline(outcome)}<p>Again: <code>{escape(again(options))}</code></p>"
        f"<table><thead><tr><th>promise<th><th>what it says<th>looked at</thead><tbody>{rows}</tbody></table>"
        + (f"<p>Left out:</p><ul>{left_out}</ul>" if left_out else "")
        + "</html>"
    )


def _promise(finding: Finding) -> str:
    shown = "".join(
        f"<li>{f'{one.at_s:.2f} s: ' if one.at_s is not None else ''}{escape(one.what)}</li>"
        for one in finding.violations
    )
    state = f"broken x{finding.broken:,}" if finding.is_broken else finding.state
    return (
        f'<tr><td>{finding.id}<td class="{finding.state.replace(" ", "-")}">{state}<td>{escape(finding.about)}'
        f"{f'<ul>{shown}</ul>' if shown else ''}<td>{finding.looked:,}</tr>"
    )


# --- the picture ------------------------------------------------------------------------------------


def timeline(outcome: Outcome) -> str:
    """Seconds from left to right."""
    names = sorted({done.fault for done in outcome.done})
    span_s = max([1.0, *(beat.at_s for beat in outcome.beats), *(done.ended_s for done in outcome.done)])
    height = CHART + 40 + ROW * len(names)
    parts = [
        *_axis(span_s, height),
        _sends(outcome.beats, span_s),
        *_marks(outcome.findings, span_s),
        *(part for at, name in enumerate(names) for part in _bars(name, at, outcome.done, span_s)),
    ]
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" font-size="11" fill="currentColor" '
        f'aria-label="acknowledged sends per second above, faults as bars below">{"".join(parts)}</svg>'
    )


def _x(at_s: float, span_s: float) -> float:
    return round(LEFT + (WIDTH - LEFT - 10) * at_s / span_s, 1)


def _axis(span_s: float, height: int) -> Iterable[str]:
    step = next(step for step in (1, 5, 10, 30, 60, 300, 600, 3_600) if span_s / step <= 12 or step == 3_600)
    for at_s in range(0, int(span_s) + 1, step):
        x = _x(at_s, span_s)
        yield f'<path d="M{x} 10V{height}" stroke="currentColor" opacity=".12"/>'
        yield f'<text x="{x}" y="{CHART + 26}" text-anchor="middle">{at_s} s</text>'


def _sends(beats: Sequence[Beat], span_s: float) -> str:
    top = max((beat.acknowledged for beat in beats), default=1) or 1
    points = " ".join(f"{_x(b.at_s, span_s)},{round(CHART - (CHART - 20) * b.acknowledged / top, 1)}" for b in beats)
    label = f'<text x="0" y="24">acknowledged a second</text><text x="0" y="40">at most {top}</text>'
    return f'{label}<polyline points="{points}" fill="none" stroke="#1f77b4" stroke-width="1.6"/>'


def _marks(findings: Sequence[Finding], span_s: float) -> Iterable[str]:
    for finding in findings:
        for violation in finding.violations:
            if violation.at_s is not None:
                x = _x(violation.at_s, span_s)
                title = escape(f"{finding.id} at {violation.at_s:.2f} s: {violation.what}")
                yield f'<path d="M{x} {CHART}l-4 9h8z" fill="#d62728"><title>{title}</title></path>'


def _bars(name: str, at: int, done: Sequence[Done], span_s: float) -> Iterable[str]:
    y = CHART + 36 + ROW * at
    yield f'<text x="0" y="{y + 10}">{escape(name)}</text>'
    for one in done:
        if one.fault == name:
            x = _x(one.began_s, span_s)
            width = max(2.0, round(_x(one.ended_s, span_s) - x, 1))
            title = f"<title>{escape(name)} {one.began_s:.1f} to {one.ended_s:.1f} s</title>"
            yield f'<rect x="{x}" y="{y}" width="{width}" height="{ROW - 4}" fill="#e67e22" opacity=".8">{title}</rect>'
