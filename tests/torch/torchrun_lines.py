"""Command lines that torchrun and ddprun are compared on, and why they differ where they do.

Pure data. A line without a key of DIFFERENT must be taken, or refused, alike, and mean the same.
"""

# Why they differ -> on purpose. docs/from-torchrun.md has every sentence, word for word.
DIFFERENT = {
    "codes": "A bad value ends with exit code 2 and one line, not with 1 and a traceback.",
    "long lists": "`-r` and `-t` name local ranks of any number of digits.",
    "seconds": "Times may be fractions of a second.",
    "ranks": "A node rank that no node of the run can have is refused.",
    "standalone": "`--standalone` with `--nnodes=2` beside it is refused: a standalone run has one "
                  "node.",
    "workers": "`--nproc-per-node` must be 1 or more.",
    "empty": "An empty or spaced run id, or one with `/`, is refused: it names a directory and a "
             "run.",
    "empty flags": "An empty `PET_` variable of a flag without a value is ignored.",
    "PET_": "Every flag has its `PET_` variable; torchrun leaves out `--logs-specs` and "
            "`--numa-binding`.",
    "dev null": "With `--log-dir=/dev/null` `-r`, `-t` and the filter still say what the console "
                "shows; torchrun ignores them then.",
    "endpoint": "With `--rdzv-endpoint` the workers' store has a port of its own, unless "
                "`--rdzv-backend=static` is set too; torchrun takes static for granted.",
    "threads": "`OMP_NUM_THREADS`, where it is not set and there are several workers, is the allowed "
               "CPUs divided by the workers, not 1.",
    "arguments": "Arguments reach the program as they are, `$$` and a leading `--` too; only "
                 "`${local_rank}` is replaced.",
    "prefixes": "A prefix is enough where it names one flag; torchrun finds `--nproc` ambiguous, "
                "because it counts both spellings.",
}


# Those that only real runs show.
IN_REAL_RUNS = {"dev null", "endpoint", "threads"}


def line(*flags, pet=None, why=None, script=True, arguments=("a", "--b=c")):
    return {"flags": list(flags), "pet": {f"PET_{k}": v for k, v in (pet or {}).items()},
            "why": why, "program": ["./dump.py", *arguments] if script else []}


def both_spellings():
    """Every flag with a harmless value, with dashes and with underscores, joined and apart."""
    harmless = [
        ("nnodes", "1"), ("nproc-per-node", "2"), ("rdzv-backend", "c10d"), ("rdzv-id", "mine"),
        ("rdzv-conf", "join_timeout=60,read_timeout=30"), ("rdzv-endpoint", "localhost:0"),
        ("max-restarts", "3"), ("monitor-interval", "0.5"), ("start-method", "fork"),
        ("event-log-handler", "null"), ("role", "trainer"), ("log-dir", "logs"), ("redirects", "3"),
        ("tee", "0:1"), ("log-line-prefix-template", "[${rank}]"), ("local-ranks-filter", "0"),
        ("duplicate-stdout-filters", "x,,y,z"), ("duplicate-stderr-filters", "x"),
        ("node-rank", "0"), ("local-addr", "localhost"), ("master-addr", "127.0.0.1"),
        ("signals-to-handle", "SIGTERM,SIGUSR1"), ("shutdown-timeout", "7"),
    ]
    for name, value in harmless:
        yield line(f"--{name}={value}")
        yield line(f"--{name}", value)
        if "-" in name:
            yield line(f"--{name.replace('-', '_')}={value}")
    for name in ("standalone", "no-python", "run-path"):
        yield line(f"--{name}")
        if "-" in name:
            yield line(f"--{name.replace('-', '_')}")


def from_the_environment():
    yield line(pet={"NPROC_PER_NODE": "2", "ROLE": "trainer", "MAX_RESTARTS": "4"})
    yield line("--nproc-per-node=1", "--role=other", pet={"NPROC_PER_NODE": "2", "ROLE": "trainer"})
    yield line(pet={"RDZV_BACKEND": "c10d", "RDZV_ENDPOINT": "localhost:0", "RDZV_ID": "abc"})
    yield line(pet={"STANDALONE": "1", "NNODES": "1:1"})
    yield line(pet={"STANDALONE": "0", "NO_PYTHON": "1"})
    yield line("--no-python", pet={"NO_PYTHON": "0"})
    yield line("--max-restarts=2", pet={"MAX_RESTARTS": "x"})
    yield line(pet={"SIGNALS_TO_HANDLE": "SIGTERM", "TEE": "3", "REDIRECTS": "0:3"})
    yield line(pet={"NPROC_PER_NODE": "none"}, why="codes")
    yield line(pet={"MAX_RESTARTS": "x"})
    yield line(pet={"NO_PYTHON": "yes"}, why="codes")
    yield line(pet={"STANDALONE": ""}, why="empty flags")
    yield line(pet={"LOGS_SPECS": "mine"}, why="PET_")


def abbreviations():
    yield line("--nproc=2", why="prefixes")
    yield line("--redirect=3")
    yield line("--max-rest=2")
    yield line("--dup=x")  # Ambiguous.
    yield line("--rdzv=x")  # Ambiguous.
    yield line("--n=1")  # Ambiguous.
    yield line("--master=x")  # Ambiguous.
    yield line("--rdzv_i=me", "--rdzv-b=c10d", "--rdzv-endp=localhost:0")
    yield line("--nosuch")
    yield line("-x")
    yield line("-r3", "-t", "3")
    yield line("-r=3")


def values():
    yield line("--nnodes=2:1", why="codes")
    yield line("--nnodes=0", why="codes")
    yield line("--nnodes=a", why="codes")
    yield line("--nnodes=1:2:3", why="codes")
    yield line("--nproc-per-node=cpu")
    yield line("--nproc-per-node=auto")
    yield line("--nproc-per-node=gpu", why="codes")
    yield line("--nproc-per-node=tpu", why="codes")
    yield line("--nproc-per-node=0", why="workers")
    yield line("--nproc-per-node=-1", why="workers")
    yield line("--max-restarts=-1", why="codes")
    yield line("--max-restarts=1.5")
    yield line("--max-restarts=x")
    yield line("--monitor-interval=x")
    yield line("--start-method=thread")
    yield line("--node-rank=x")
    yield line("--node-rank=1", why="ranks")
    yield line("--master-port=x")
    yield line("--shutdown-timeout=x")
    yield line("--shutdown-timeout=1.5", why="seconds")
    yield line("--shutdown-timeout=-1", why="codes")
    yield line("-r", "4", why="codes")
    yield line("-r", "0:4", why="codes")
    yield line("-t", "0:1,", why="codes")
    yield line("-t", "0:1,1:3")
    yield line("-r", "10:3", why="long lists")
    yield line("--local-ranks-filter=0,x", why="codes")
    yield line("--local-ranks-filter=0,", why="codes")
    yield line("--rdzv-conf=a", why="codes")
    yield line("--rdzv-conf=join_timeout=", why="codes")
    yield line("--rdzv-conf==3", why="codes")
    yield line("--role=")
    yield line("--rdzv-id=", why="empty")
    yield line("--rdzv-id=a b", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", why="empty")
    yield line("--rdzv-id=a/b", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", why="empty")
    yield line("--no-python", "-m", why="codes")
    yield line("--logs-specs=mine", why="codes")
    yield line("--standalone", "--nnodes=2", why="standalone")
    yield line("--standalone", "--rdzv-id=mine", "--rdzv-endpoint=elsewhere:1")
    yield line("--role=a", "--role=b")
    yield line(script=False)
    yield line("--role=a", script=False)


def programs():
    yield line(arguments=("--nproc-per-node=2", "-m", "--", "-h"))
    yield line(arguments=("", "a b", "ä", "*"))
    yield line("--")
    yield line(arguments=("--", "x"), why="arguments")


LINES = [*both_spellings(), *from_the_environment(), *abbreviations(), *values(), *programs()]
