"""Draws the pictures of the pages, light and dark: scripts/docs/draw.py NAME FILE < INPUT

    recovery      docs/pictures/recovery.svg      INPUT: FILE of tests/bench/recovery.py --picture=FILE
    failover      docs/pictures/failover.svg      INPUT: of scripts/demo-takeover.sh
    architecture  docs/pictures/architecture.svg  no INPUT
    slurm         docs/pictures/slurm.svg         no INPUT
    restarts      docs/pictures/restarts.svg      no INPUT
    badges        docs/pictures/badges.svg        no INPUT

Each is an SVG that loads nothing. docs/pictures/demo.svg is made by scripts/pictures.py.
"""

import html
import json
import re
import sys

# Of the text, of boxes and of the parts of a bar.
STYLE = """
  text { font: 15px system-ui, 'Segoe UI', Roboto, Helvetica, 'DejaVu Sans', sans-serif; fill: #1f2328 }
  .small { font-size: 13px; fill: #59636e } .head { font-weight: 600 }
  .code { font-family: ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace; font-size: 13.5px }
  .page { fill: #ffffff } .node { fill: #f6f8fa; stroke: #d1d9e0 } .box { fill: #ffffff; stroke: #818b98 }
  .server { fill: #ddf4ff; stroke: #0969da } .worker { fill: #dafbe1; stroke: #1a7f37 } .blow { fill: #ffebe9; stroke: #cf222e }
  .line { fill: none; stroke: #59636e; stroke-width: 1.4 } .grid { stroke: #d1d9e0 } .tip { fill: #59636e }
  .part0 { fill: #8250df } .part1 { fill: #bf8700 } .part2 { fill: #0969da } .part3 { fill: #1a7f37 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9198a1 }
    .page { fill: #0d1117 } .node { fill: #151b23; stroke: #3d444d } .box { fill: #0d1117; stroke: #656c76 }
    .server { fill: #0c2d4f; stroke: #4493f8 } .worker { fill: #0f2e18; stroke: #3fb950 } .blow { fill: #42191c; stroke: #f85149 }
    .line { stroke: #9198a1 } .grid { stroke: #3d444d } .tip { fill: #9198a1 }
    .part0 { fill: #ab7df8 } .part1 { fill: #d29922 } .part2 { fill: #4493f8 } .part3 { fill: #3fb950 }
  }
"""
TIP = ('<marker id="to" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
       '<path class="tip" d="M0 0 8 4 0 8z"/></marker>')
SMALL, NARROW, WIDE = 6.8, 7.7, 8.2  # Of a character in small text, in text and in code, in pixels, at the most.


class Picture:
    def __init__(self, width, height, title):
        self.width, self.height, self.title, self.parts = width, height, title, []

    def text(self, x, y, words, kind="", anchor="start"):
        self.parts.append(f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{html.escape(words)}</text>')

    def rect(self, x, y, width, height, kind, radius=6):
        self.parts.append(f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}"/>')

    def box(self, x, y, width, lines, kind="box"):
        """Lines of (words, kind of text) in the middle of a box; its height."""
        height = 16 + 19 * len(lines)
        self.rect(x, y, width, height, kind)
        for row, (words, of) in enumerate(lines):
            character = WIDE if "code" in of else SMALL if of == "small" else NARROW
            assert len(words) * character < width, f"too long for its box: {words}"
            self.text(x + width / 2, y + 22 + 19 * row, words, of, "middle")
        return height

    def arrow(self, *points, tip=True):
        path = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
        self.parts.append(f'<path class="line" d="{path}"' + (' marker-end="url(#to)"/>' if tip else "/>"))

    def svg(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
                f'height="{self.height}" role="img">\n<title>{html.escape(self.title)}</title>\n<style>{STYLE}</style>\n'
                f'<defs>{TIP}</defs>\n<rect class="page" width="{self.width}" height="{self.height}" rx="8"/>\n'
                + "\n".join(self.parts) + "\n</svg>\n")


def seconds(ms):
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms"


def bars(picture, rows, top, most):
    """A row for each, to a scale on which `most` ms are the whole width."""
    left, width = 300, 540
    for row, what in enumerate(rows):
        y, x = top + 34 * row, left
        assert len(what["name"]) * WIDE < left - 36, f"too long before its bar: {what['name']}"
        picture.text(left - 12, y + 17, what["name"], anchor="end")
        for part, took in enumerate(what["parts"].values()):
            picture.rect(x, y, width * took / most, 24, f"part{part}", 0)
            x += width * took / most
        picture.text(x + 8, y + 17, seconds(what["whole"]), "head")
    return top + 34 * len(rows)


def recovery(given):
    """What passes from a worker's death to the next step, in parts, on one scale; the short ones once more, larger."""
    measured = json.loads(given)
    rows = measured["rows"]
    short = [row for row in rows if row["whole"] < 0.1 * max(other["whole"] for other in rows)]
    picture = Picture(940, 150 + 34 * (len(rows) + len(short)) + 60, "From a worker's death to the next step of all workers")
    picture.text(24, 34, "From a worker's death to the next step of all workers", "head")
    x = 24
    for part, name in enumerate(rows[0]["parts"]):
        picture.rect(x, 50, 14, 14, f"part{part}", 2)
        picture.text(x + 20, 62, name)
        x += 50 + NARROW * len(name)
    most = max(row["whole"] for row in rows)
    y = bars(picture, rows, 86, most)
    times = most / (1.1 * max(row["whole"] for row in short))
    picture.text(24, y + 30, f"The short ones, {times:.0f} times as wide", "head")
    y = bars(picture, short, y + 46, most / times)
    runs = rows[0]["runs"]
    picture.text(24, y + 30, "Two workers of a small DDP program, whose first step imports torch._dynamo. ddprun loads both ahead, "
                 "but for --preload=none.", "small")
    picture.text(24, y + 48, f"Medians of {runs} each, in turn on one machine: {measured['machine']}, {measured['date']}.", "small")
    return picture


# What a line of scripts/demo-takeover.sh is about: pattern, lanes, what is said of it, kind of box, the claim that is made or read.
TIMELINE = [
    (r"serving the rendezvous at", [0], "n0 hosts the server", "server", "claim 1"),
    (r">>> the host of the server is switched off", [0], "n0 is switched off", "blow", ""),
    (r"cannot reach the rendezvous", [2], "n1 gets no answer", "box", "claim 1 stands still"),
    (r"becoming the leader", [2], "n1 hosts the server", "server", "claim 2"),
    (r"started rank 0 of 1", [2], "n1 trains alone", "worker", ""),
    (r">>> the old host is started again", [0], "n0 is started again", "box", "claim 2"),
    (r"started rank 1 of 2", [0, 2], "both train", "worker", ""),
]


def failover(given):
    """Which node does what while the server moves, by the times of a real run."""
    lines = [(float(time), words) for time, words in re.findall(r"^ *(\d+\.\d) s  (.*)$", given, re.M)]
    picture = Picture(940, 100 + 62 * len(TIMELINE) + 40, "The host of the server is lost, and another node takes over")
    picture.text(24, 34, "The host of the server is lost, and another node takes over", "head")
    lanes = [230, 520, 800]
    bottom = 96 + 62 * len(TIMELINE)
    for x, name in zip(lanes, ("node n0", "shared directory (--run-dir)", "node n1")):
        picture.text(x, 70, name, "head", "middle")
        picture.parts.append(f'<line class="grid" x1="{x}" y1="80" x2="{x}" y2="{bottom}"/>')
    after = -1.0
    for row, (pattern, boxes, words, kind, claim) in enumerate(TIMELINE):
        after = next((time for time, line in lines if time >= after and re.search(pattern, line)), None)
        if after is None:
            sys.exit(f"draw.py: no line of the input is '{pattern}'")
        y = 92 + 62 * row
        picture.text(24, y + 23, f"{after:4.1f} s", "code")
        for lane in boxes:
            picture.box(lanes[lane] - 110, y, 220, [(words, "")], kind)
        if claim:
            picture.box(lanes[1] - 90, y, 180, [(claim, "small")], "node")
            ends = [(lanes[lane] + (110 if lane == 0 else -110), lanes[1] + (-90 if lane == 0 else 90)) for lane in boxes]
            for near, far in ends:  # The server writes its claim, the others read it.
                picture.arrow(*[(x, y + 18) for x in ((near, far) if kind == "server" else (far, near))])
    picture.text(24, bottom + 26, "A real run of scripts/demo-takeover.sh on one machine, in its first minute, when leases are long.", "small")
    return picture


def architecture(_):
    """The processes of a run of two nodes, and what passes between them."""
    picture = Picture(940, 430, "On each node a guard starts an agent, and the agent starts the workers. "
                                "One agent hosts the rendezvous server.")
    for node, x in enumerate((20, 520)):
        picture.rect(x, 20, 400, 280, "node", 10)
        picture.text(x + 18, 46, f"node n{node}", "head")
    picture.box(38, 62, 122, [("guard", ""), ("outlives agent", "small")])
    picture.rect(190, 62, 214, 108, "box")
    picture.text(206, 84, "agent")
    picture.box(206, 96, 182, [("rendezvous server", ""), ("forms worlds, one port", "small")], "server")
    picture.arrow((160, 86), (190, 86))
    picture.rect(538, 62, 226, 108, "box")
    picture.text(554, 84, "agent")
    for row, words in enumerate(("starts and watches workers;", "becomes the leader if n0 dies", "and both share a directory")):
        picture.text(554, 106 + 19 * row, words, "small")
    picture.box(800, 62, 102, [("guard", "")])
    picture.arrow((800, 80), (764, 80))
    for y, words, below, points in ((112, "report", -7, (538, 388)), (138, "directive", 18, (388, 538))):
        picture.arrow((points[0], y), (points[1], y))
        picture.text(471, y + below, words, "small", "middle")
    for rank, x in enumerate((190, 306, 538, 654)):
        picture.box(x, 222, 98, [("worker", ""), (f"rank {rank}", "small")], "worker")
        picture.arrow((x + 49, 170), (x + 49, 222))
    for y, words in ((190, "environment,"), (208, "notify socket")):
        picture.text(297, y, words, "small", "middle")
    picture.arrow((471, 249), (538, 249))
    picture.arrow((471, 249), (404, 249))
    for y, words in ((240, "NCCL, Gloo;"), (268, "one store per"), (285, "generation")):
        picture.text(471, y, words, "small", "middle")
    picture.box(190, 342, 562, [("shared directory", ""),
                                ("claims (which node hosts the server), and checkpoints fenced by world", "small")], "node")
    picture.arrow((239, 276), (239, 342))
    picture.arrow((703, 276), (703, 342))
    picture.text(38, 356, "you", "head")
    for row, words in enumerate(("ddprun status, logs,", "stacks, drain; page", "and metrics")):
        picture.text(38, 376 + 18 * row, words, "small")
    picture.arrow((52, 340), (52, 190), (176, 190), (176, 134), (206, 134))
    return picture


def slurm(_):
    """Which process starts which in a Slurm job of two nodes."""
    picture = Picture(940, 500, "What starts what in a Slurm job")
    picture.text(24, 34, "What starts what in a Slurm job: srun --ntasks-per-node=1 ddprun ./train.py", "head")
    picture.box(24, 60, 200, [("sbatch job.sbatch", "code")])
    picture.box(330, 60, 250, [("Slurm chooses the nodes", ""), ("limits, time, requeue", "small")])
    picture.arrow((224, 78), (330, 78))
    for node in (0, 1):
        x = 24 + 460 * node
        picture.rect(x, 140, 432, 296, "node", 10)
        picture.text(x + 416, 164, f"node {node} of the job", "head", "end")
        picture.box(x + 216, 194, 200, [("slurmstepd", ""), ("one task of the step", "small")])
        picture.box(x + 216, 264, 200, [("ddprun: guard", ""), ("outlives its agent", "small")])
        picture.box(x + 216, 334, 200, [("ddprun: agent", ""), ("hosts the server" if node == 0 else "reports to the server", "small")],
                    "server" if node == 0 else "box")
        picture.box(x + 16, 334, 168, [("workers", ""), ("one for each GPU", "small")], "worker")
        picture.arrow((x + 316, 248), (x + 316, 264))
        picture.arrow((x + 316, 318), (x + 316, 334))
        picture.arrow((x + 216, 361), (x + 184, 361))
        picture.text(x + 16, 420, "forked from the preload process, once that has loaded torch", "small")
    picture.box(40, 194, 168, [("batch script", ""), ("on the first node only", "small")])
    picture.box(40, 264, 168, [("srun", "code"), ("once for the step", "small")])
    picture.arrow((400, 114), (400, 128), (124, 128), (124, 194))
    picture.arrow((124, 248), (124, 264))
    picture.arrow((208, 291), (224, 291), (224, 180), (340, 180), (340, 194))
    picture.arrow((340, 180), (800, 180), (800, 194))
    picture.text(24, 462, "Slurm starts one ddprun on each node, and ddprun starts the workers.", "small")
    picture.text(24, 482, "srun is on the first node: when that is lost, only --log-dir (or -r 3, -t 3) keeps the output.", "small")
    return picture


# A question, what to set where the answer is yes, and why.
QUESTIONS = [
    ("Does the program continue from", "a checkpoint of its own?", "--max-restarts=3", "after a failure all workers start again"),
    ("May a node be lost, and can", "fewer nodes continue?", "--nnodes=MIN:MAX", "the others continue; uses no restart"),
    ("May the host of the server", "be lost too?", "--run-dir=SHARED", "another node becomes the leader"),
    ("Does the job have a time limit,", "or can it be preempted?", "--stop-before=180s", "all save; 75: start the job again"),
    ("Can it hang", "without ending?", "--hang-timeout=5m", "stacks are kept; restarts if --max-restarts is set"),
    ("Are its imports slow, beyond", "torch, which is loaded ahead?", "--preload=imports", "a restart takes less than a second"),
    ("Do you start it", "again and again?", "--keep-warm=10m", "the next run starts without its imports"),
]


def restarts(_):
    """Which flags a run needs, question by question."""
    picture = Picture(940, 92 + 88 * len(QUESTIONS), "Which restart do I need?")
    picture.text(24, 34, "Which restart do I need? Answer from the top; every yes adds a flag.", "head")
    for row, (first, second, flag, why) in enumerate(QUESTIONS):
        y = 60 + 88 * row
        picture.box(24, y, 340, [(first, ""), (second, "")], "node")
        picture.arrow((364, y + 27), (470, y + 27))
        picture.text(417, y + 21, "yes", "small", "middle")
        picture.box(470, y, 446, [(flag, "code head"), (why, "")], "worker")
        if row + 1 < len(QUESTIONS):
            picture.arrow((194, y + 54), (194, y + 88))
            picture.text(204, y + 75, "no: a restart begins anew, so leave this flag out" if row == 0 else "", "small")
    y = 60 + 88 * len(QUESTIONS)
    picture.text(24, y + 10, "If the job must always have all its nodes, let the scheduler start it again: ddprun slurm-script, ddprun k8s-manifest.",
                 "small")
    return picture


BADGES = (("licence", "Apache-2.0"), ("Python", "3.10 to 3.13"), ("platform", "Linux x86-64, glibc 2.34 or newer"))


def badges(_):
    """The licence, and where ddprun runs."""
    places = []
    x = 0
    for name, value in BADGES:
        places.append((x, name, value))
        x += SMALL * len(name + value) + 40
    picture = Picture(round(x - 8), 26, "; ".join(f"{name}: {value}" for name, value in BADGES))
    for x, name, value in places:
        left, right = SMALL * len(name) + 16, SMALL * len(value) + 16
        picture.rect(x, 1, left, 24, "node", 4)
        picture.rect(x + left, 1, right, 24, "server", 4)
        picture.text(x + left / 2, 17, name, "small", "middle")
        picture.text(x + left + right / 2, 17, value, "small", "middle")
    return picture


DRAWN = {"recovery": recovery, "failover": failover, "architecture": architecture, "slurm": slurm, "restarts": restarts,
         "badges": badges}


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in DRAWN:
        sys.exit(f"usage: draw.py {'|'.join(DRAWN)} FILE < INPUT")
    given = sys.stdin.read() if sys.argv[1] in ("recovery", "failover") else ""
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(DRAWN[sys.argv[1]](given).svg())


if __name__ == "__main__":
    main()
