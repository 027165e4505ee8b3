"""Plays fresh seeds that follow from the commit, so that every commit tries other histories and
the same commit always the same ones.

usage: run_fresh.py DDPRUN_SIM SOURCE_DIR COUNT [ARGUMENT...]
"""
import subprocess
import sys


def commit_of(source_dir):
    try:
        answer = subprocess.run(["git", "-C", source_dir, "rev-parse", "HEAD"],
                                capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return "1"  # No repository, as in a source archive: always the same seeds.
    return answer.stdout.strip()[:16]


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    simulator, source_dir, count, *more = sys.argv[1:]
    command = [simulator, *more, f"--seeds={count}", f"--base={commit_of(source_dir)}"]
    print(*command, flush=True)
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
