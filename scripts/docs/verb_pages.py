"""Writes a manual page for each command of ddprun, of what `ddprun help COMMAND` prints: scripts/docs/verb_pages.py DIR

`cmake --install` calls it. DDPRUN names the program.
"""

import pathlib
import re
import sys

import references


def roff(text):
    """Words as a manual page shows them; what is between backquotes is bold."""
    text = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", text.replace("\\", "\\e").replace("-", "\\-"))
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.M)


def entries(rows):
    """A paragraph for each option: its names and form, and what it does."""
    made = []
    for option, does in rows:
        names, _, form = option.partition(" ")
        tag = f"\\fB{roff(names.replace(',', ', '))}\\fR" + (f" \\fI{roff(form)}\\fR" if form else "")
        made.append(f".TP\n{tag}\n{roff(does)}.\n")
    return "".join(made)


def page(command, text, version):
    about, usage, rows = references.described(text)
    rest = re.sub(r"^Options:\n +-h,--help .*\n+", "", text.partition(f"Usage: {usage}\n")[2].strip())
    name = f"ddprun-{command}"
    brief = re.split(r" \(|[:;.](?=\s)", " ".join((about or rest).split()))[0].strip()
    made = [f'.TH {roff(name.upper())} 1 "" "ddprun {version}" "User Commands"\n',
            f".SH NAME\n{roff(name)} \\- {roff(brief[0].lower() + brief[1:])}\n",
            f".SH SYNOPSIS\n.B {roff(usage)}\n.SH DESCRIPTION\n"]
    if about:
        made.append(f"{roff(about)}.\n")
    if rows:
        made.append(f".SH OPTIONS\n{entries(rows)}")
    elif rows is None:  # In another form.
        made.append(f".nf\n{roff(rest)}\n.fi\n")
    made.append('.SH "EXIT STATUS"\nSee\n.BR ddprun (1),\nunder "another command".\n.SH "SEE ALSO"\n.BR ddprun (1)\n')
    return "".join(made)


def main(folder):
    version = references.output(references.DDPRUN, "--version").split()[1]
    for command, text in references.helps().items():
        path = pathlib.Path(folder, f"ddprun-{command}.1")
        path.write_text(page(command, text, version), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
