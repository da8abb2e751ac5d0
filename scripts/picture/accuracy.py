"""The chart of docs/accuracy.md, as SVG: accuracy.py PAGE.

It reads the table of the page, which `cargo run --release -p tollgate-core --example accuracy`
prints, and shows for each kind of traffic and each algorithm how many more or fewer requests are
admitted than by an ideal sliding window.
"""

import pathlib
import re
import sys
from html import escape

WIDTH, LABELS, MIDDLE, ROW, HEAD = 880, 250, 560, 17, 34
STYLE = """
text{font:13px system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#17211f}
.quiet{fill:#52605c;font-size:12px} .head{font-weight:600} line{stroke:#d6dcd8}
.more{fill:#b3361e} .fewer{fill:#3556a8} .back{fill:#fff}
@media (prefers-color-scheme:dark){text{fill:#e6ecea} .quiet{fill:#a3b1ac} line{stroke:#33413d}
.more{fill:#ff8f7a} .fewer{fill:#9db8ff} .back{fill:#101614}}
"""


def rows(page):
    """Traffic, algorithm and difference of each row of the table."""
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 7 and re.fullmatch(r"[+−]\d+\.\d+ %", cells[3]):
            yield cells[0], cells[1].replace("`", ""), cells[3]


def main():
    table = list(rows(pathlib.Path(sys.argv[1]).read_text()))
    kinds = list(dict.fromkeys(traffic for traffic, _, _ in table))
    numbers = [float(text[:-2].replace("−", "-")) for _, _, text in table]
    scale = (WIDTH - MIDDLE - 90) / max(map(abs, numbers))
    height = 58 + len(table) * ROW + len(kinds) * HEAD
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img"'
        ' aria-label="Requests admitted more or fewer than by an ideal sliding window, by traffic and algorithm">',
        f"<style>{STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{height}"/>',
        '<text class="head" x="16" y="26">Admitted, against an ideal sliding window</text>',
        '<text class="quiet" x="16" y="44">left: fewer requests, right: more; a limit of 100 in 60 s,'
        " a million requests of each kind</text>",
        f'<line x1="{MIDDLE}" x2="{MIDDLE}" y1="58" y2="{height - 8}"/>',
    ]
    y = 58
    for kind in kinds:
        parts.append(f'<text class="head" x="16" y="{y + HEAD - 12}">{escape(kind)}</text>')
        y += HEAD
        for (traffic, algorithm, text), number in zip(table, numbers):
            if traffic != kind:
                continue
            length = max(1.0, abs(number) * scale)
            x = MIDDLE if number >= 0 else MIDDLE - length
            end = MIDDLE + length + 6 if number >= 0 else MIDDLE - length - 6
            anchor = "start" if number >= 0 else "end"
            shade = "more" if number >= 0 else "fewer"
            parts.append(f'<text x="32" y="{y + 4}">{escape(algorithm)}</text>')
            parts.append(f'<rect class="{shade}" x="{x:.1f}" y="{y - 6}" width="{length:.1f}" height="11" rx="2"/>')
            parts.append(f'<text class="quiet" x="{end:.1f}" y="{y + 4}" text-anchor="{anchor}">{text}</text>')
            y += ROW
    print("\n".join([*parts, "</svg>"]))


main()
