"""Makes docs/pictures/demo.svg: what the demos print, as a terminal that plays it.

    scripts/pictures.py FILE < OUTPUT     OUTPUT: of scripts/demo-recovery.sh, then of scripts/demo-node-loss.sh

Each line of a demo begins with its time, and appears in the picture after as long, but for long waits. The animation is CSS
alone; where it is not wanted (prefers-reduced-motion) or not known, the last screen of each demo stands still.
"""

import html
import re
import sys

COLUMNS = 118
CHARACTER = 7.83  # Width of one at 13 px, in any of the fonts named below.
LINE = 19
MARGIN = 16
TITLE = 30
HOLD = 4.0  # Seconds for which a scene stays when it is over.
LONGEST_GAP = 0.9  # Between two lines, in seconds; the times that are shown stay true.
SHORTEST_GAP = 0.12  # Else lines of one moment come at once, and cannot be read.
# Lines that tell nothing about the failure.
LEFT_OUT = r"ranks talk through|each rank learns|the world has|OMP_NUM_THREADS|stopping on request|train accuracy|serving the"
# First match wins: what a line is about -> its class.
KINDS = [(r"^>>>", "blow"), (r"was killed by|is lost|is gone|a node was lost", "bad"),
         (r"resumed at|recovered in|trains again|joins|test accuracy", "good"), (r"^ddprun ", "ours"), (r"", "worker")]
STYLE = """
text { font: 13px ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace; white-space: pre; fill: #c9d1d9 }
.frame { fill: #0d1117; stroke: #444c56 } .title { fill: #8b949e } .time { fill: #6e7681 } .prompt { fill: #79c0ff }
.blow { fill: #ffffff; font-weight: bold } .bad { fill: #ff7b72 } .good { fill: #7ee787 } .ours { fill: #d2a8ff }
.scene + .scene { visibility: hidden }
@media (prefers-reduced-motion: no-preference) {
  .line { visibility: hidden; animation-duration: %(total).1fs; animation-iteration-count: infinite; animation-timing-function: step-end }
%(rules)s
}
"""


def scenes(text):
    """[(command, [(seconds, line)])] of each demo in what was printed."""
    found = []
    for line in text.splitlines():
        command = re.match(r"demo \| (ddprun .*)", line)
        timed = re.match(r" *(\d+\.\d) s  (.*)", line)
        if command:
            found.append((command[1], []))
        elif timed and found and not re.search(LEFT_OUT, timed[2]):
            found[-1][1].append((float(timed[1]), timed[2]))
    return [(command, until_recovered(lines)) for command, lines in found]


def until_recovered(lines):
    """Up to the end of the last recovery, and the line after it."""
    last = max((i for i, (_, line) in enumerate(lines) if "recovered in" in line), default=len(lines))
    return lines[:last + 2]


def moments(lines):
    """When each line appears, in seconds from the scene's beginning."""
    now, before, found = 0.0, 0.0, []
    for seconds, _ in lines:
        now += min(max(seconds - before, SHORTEST_GAP), LONGEST_GAP)
        before = seconds
        found.append(now)
    return found


def shown(line):
    cut = line if len(line) <= COLUMNS - 9 else line[:COLUMNS - 10] + "…"
    kind = next(kind for pattern, kind in KINDS if re.search(pattern, line))
    return html.escape(cut), kind


def picture(played):
    total = sum(moments(lines)[-1] + HOLD for _, lines in played)
    rules, groups, begun, number = [], [], 0.0, 0
    for command, lines in played:
        over = begun + moments(lines)[-1] + HOLD
        rows = []
        for row, (moment, (seconds, line)) in enumerate(zip([0.0, *moments(lines)], [(0.0, None), *lines])):
            number += 1
            start = 100 * (begun + moment) / total
            end = 100 * over / total
            rules.append(f"  @keyframes k{number} {{ 0% {{ visibility: hidden }} {start:.2f}% {{ visibility: visible }} "
                         f"{min(end, 99.99):.2f}% {{ visibility: hidden }} }} .l{number} {{ animation-name: k{number} }}")
            y = TITLE + MARGIN + LINE * (row + 0.5)
            if line is None:
                words = html.escape(command if len(command) <= COLUMNS - 2 else command[:COLUMNS - 3] + "…")
                rows.append(f'<text class="line l{number}" x="{MARGIN}" y="{y}"><tspan class="prompt">$ </tspan>{words}</text>')
            else:
                text, kind = shown(line)
                rows.append(f'<text class="line l{number}" x="{MARGIN}" y="{y}"><tspan class="time">{seconds:5.1f} s  </tspan>'
                            f'<tspan class="{kind}">{text}</tspan></text>')
        groups.append('<g class="scene">\n' + "\n".join(rows) + "\n</g>")
        begun = over
    height = TITLE + 2 * MARGIN + LINE * (1 + max(len(lines) for _, lines in played))
    width = round(2 * MARGIN + CHARACTER * COLUMNS)
    style = STYLE % {"total": total, "rules": "\n".join(rules)}
    style = style.replace("@media (prefers-reduced-motion: no-preference) {",
                          "@media (prefers-reduced-motion: no-preference) {\n  .scene + .scene { visibility: visible }")
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">
<title>A worker is killed and training continues; a node is lost and comes back</title>
<style>{style}</style>
<rect class="frame" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>
<circle cx="20" cy="18" r="6" fill="#ff5f57"/><circle cx="40" cy="18" r="6" fill="#febc2e"/><circle cx="60" cy="18" r="6" fill="#28c840"/>
<text class="title" x="{width / 2}" y="22" text-anchor="middle">ddprun: a worker killed, then a node lost (recorded; some lines left out, long waits cut)</text>
{chr(10).join(groups)}
</svg>
"""


def main():
    played = scenes(sys.stdin.read())
    if len(played) != 2 or not all(lines for _, lines in played):
        sys.exit("pictures.py: the input has not the output of two demos")
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(picture(played))


if __name__ == "__main__":
    main()
