"""A rank that stands still: what ddprun keeps and names, and NCCL's own time-out."""

import contextlib
import glob
import os
import signal
import tarfile
import time

from groups import TWO_HOSTS, over_nccl, start_pair, two_hosts
from kit import HERE, Failed, Skipped, check, eventually, json_lines, read_text, workers_below

STEPS = os.path.join(HERE, "ddp_steps.py")


@check(30, gpu=False, after="nccl_two_ranks")
def hang_evidence(kit):
    """An ordinary torch program of two ranks, one of which takes part in nothing any more: the rank that is named, and the
    evidence that is kept."""
    if not kit.has_torch:
        raise Skipped("there is no torch")
    nccl = kit.two_nccl_ranks and not kit.pretend
    environment = {"KIT_FAKE_HOSTS": "1", **TWO_HOSTS} if nccl else {"KIT_BACKEND": "gloo"}
    folder = kit.folder()
    ended = kit.run(kit.ddprun("--nproc-per-node=2", "--preload=torch,torch._dynamo", "--hang-timeout=6s", "--on-hang=fail",
                               f"--log-dir={folder}/logs", STEPS, f"{folder}/stamps", "hang=20"), 70, environment, folder)
    bundles = sorted(glob.glob(f"{folder}/logs/**/evidence-*", recursive=True))
    files = {os.path.basename(path): os.path.getsize(path) for one in bundles for path in glob.glob(f"{one}/*")}
    told = {"backend": "nccl" if nccl else "gloo", "code": ended.code, "seconds": ended.seconds, "files": files, "verdict": ""}
    for one in bundles[:1]:
        told["verdict"] = read_text(f"{one}/verdict.txt")[:600]
        told["collectives"] = "".join(read_text(path)[:1500] for path in sorted(glob.glob(f"{one}/rank-0.collectives.json")))
        with tarfile.open(os.path.join(kit.out, "evidence.tar.gz"), "w:gz") as archive:
            archive.add(one, os.path.basename(one))
    kit.say(f"  {ended.code} {told['verdict']!r} {list(files)}")
    if ended.code != 124 or "rank 1" not in told["verdict"]:
        raise Failed(f"the verdict does not name rank 1: {ended.tail()}", told)
    if nccl and not {"rank_0", "rank_1"} <= set(files):
        raise Failed("there is no dump of NCCL's flight recorder", told)
    return told


@check(25, after="nccl_two_ranks")
def nccl_timeout(kit):
    """A stopped rank of ddprun-train, and nothing but NCCL's watchdog to notice: 75 after the time-out of 8 s and a bit."""
    if not kit.two_nccl_ranks:
        raise Skipped("two ranks of NCCL do not run here (nccl_two_ranks)")
    folder = kit.folder()
    metrics = os.path.join(folder, "metrics")
    command = [kit.train_path, *over_nccl(kit), "--epochs=100000", "--collective-timeout=8", "--progress-every=0.1",
               f"--checkpoint-dir={folder}/c", f"--metrics={metrics}"]
    processes = start_pair(kit, two_hosts(kit), command, folder)
    victim = None
    try:
        if not eventually(lambda: len(json_lines(metrics)) > 3, max(1, min(25, kit.left() - 15))):
            raise Failed("no step")
        victim = workers_below(processes[1].pid)[-1]
        began = time.monotonic()
        os.kill(victim, signal.SIGSTOP)
        over = eventually(lambda: "exit code 75" in read_text(os.path.join(folder, "node0.err")), max(1, min(40, kit.left() - 5)))
        took = time.monotonic() - began
    finally:
        if victim:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGCONT)
        ended = kit.stop_all(processes)
    told = {"seconds": round(took, 1), "codes": [one.code for one in ended], "said": ended[0].tail()[-600:]}
    if not over or took > 25:
        raise Failed("no exit code 75 within 25 s", told)
    return told
