"""The real trainer, killed at random steps: continued from memory, or from memory and checkpoints in
turn, it ends with the bits of an undisturbed run.

DDPRUN_MEMORY_KILLS=1000 kills it that often instead of 6 times, DDPRUN_SEED chooses the instants.
"""

import os
import random
import re
import signal
import sys

from ddprun_runs import TRAIN, DdprunTest, read_bytes

KILLS = int(os.environ.get("DDPRUN_MEMORY_KILLS", "6"))
SEED = int(os.environ.get("DDPRUN_SEED", "1"))
STEPS, BATCH = 150, 64
EPOCHS = 2 + KILLS // 3
LIMIT = 120 + 10 * KILLS
NEVER = "--checkpoint-every=1000000"  # But at the end of each epoch.
TOLD = re.compile(r"step (\d+)/|(resumed at|training mlp)")


class MemoryRecovery(DdprunTest):
    def training(self, name, *more, epochs=EPOCHS):
        return [TRAIN, f"--epochs={epochs}", f"--batch={BATCH}", f"--limit-train={STEPS * BATCH * 2}",
                "--threads=1", f"--checkpoint-dir={self.path(name)}", "--progress-every=0.01",
                f"--dump-parameters={self.path(name + '.parameters')}", *more]

    def parameters(self, name):
        data = read_bytes(self.path(name + ".parameters"))
        self.assertGreater(len(data), 1000)
        return data

    def calm(self):
        self.run_ddprun("--nproc-per-node=2", *self.training("calm"), limit=LIMIT)
        return self.parameters("calm")

    def kill_often(self, *runs):
        """How often: each time after some steps that the newest world has reported."""
        chance = random.Random(SEED)
        told = runs[0]
        seen, kills = 0, 0
        while kills < KILLS:
            wanted = chance.choice((1, 3, 8, 20))  # Lines of progress.

            def ready():
                text = told.all()[seen:]
                starts = [m for m in TOLD.finditer(text) if m[2]]
                return (len([m for m in TOLD.finditer(text, starts[-1].end()) if m[1]]) >= wanted
                        if starts else False)

            self.wait_for(lambda: any(r.process.poll() is not None for r in runs) or ready(), *runs, limit=LIMIT)
            workers = self.trainers()
            newest = [pid for pid, (generation, _) in workers.items() if generation == max(workers.values())[0]]
            if any(r.process.poll() is not None for r in runs) or not newest:
                return kills
            seen = len(told.all())
            try:
                os.kill(chance.choice(newest), signal.SIGKILL)
                kills += 1
            except ProcessLookupError:
                pass
        return kills

    def hunted(self, name, *more, nodes=1):
        flags = [f"--max-restarts={10 * KILLS}", "--crash-loop-limit=0"]
        training = self.training(name, "--skew=0:3", *more)
        if nodes == 1:
            runs = [self.start("--nproc-per-node=2", *flags, *training)]
        else:
            endpoint = self.free_endpoint()
            runs = [self.start("--nnodes=2", f"--node-rank={rank}", f"--rdzv-id={self.run_id}",
                               f"--rdzv-endpoint={endpoint}", *flags, *training) for rank in range(2)]
        kills = self.kill_often(*runs)
        self.all_end(runs, limit=LIMIT)
        self.assertGreater(kills, KILLS // 2, "the training ended before most kills")
        from_memory = len(re.findall("continuing from memory", runs[0].err()))
        print(f"{name}: {kills} kills, {from_memory} starts from memory", file=sys.stderr)
        return from_memory, runs[0]

    def test_the_bits_stay(self):
        calm = self.calm()
        for name, nodes, more in (("both", 1, ["--checkpoint-every=40"]), ("nodes", 2, [NEVER])):
            with self.subTest(name):
                from_memory, run = self.hunted(name, *more, nodes=nodes)
                self.assertTrue(self.parameters(name) == calm, f"parameters differ (seed {SEED})\n{run.all()}")
                if name == "nodes":
                    self.assertGreater(from_memory, 0, run.all())

    def steps_told(self, run):
        """Since it began, or continued, the last time."""
        return len(TOLD.findall(re.split("global batch", run.all())[-1]))

    def kill_a_worker(self, rank=0):
        for pid, (_, its) in self.trainers().items():
            if its == rank:
                os.kill(pid, signal.SIGKILL)

    # Whichever node is lost, the other one has the state.
    def test_a_node_that_is_new_has_the_state_sent(self):
        calm = self.calm()
        for lost in (0, 1):
            with self.subTest(lost=lost):
                name, endpoint = f"lost{lost}", self.free_endpoint()

                def node(rank):
                    return self.start("--nnodes=2", f"--node-rank={rank}", f"--rdzv-id={name}",
                                      f"--rdzv-endpoint={endpoint}", "--max-restarts=3",
                                      *self.training(name, "--skew=0:3", NEVER))
                stays = node(1 - lost)  # The first one there is the server.
                self.wait_for_text(stays, "rendezvous|waiting|server", limit=LIMIT)
                goes = node(lost)
                told = goes if lost == 0 else stays
                self.wait_for(lambda: self.steps_told(told) > 20, stays, goes, limit=LIMIT)
                os.kill(goes.process.pid, signal.SIGKILL)
                again = node(lost)
                first = again if lost == 0 else stays
                self.wait_for_text(first, f"continuing from memory, where rank {1 - lost} has the newest", limit=LIMIT)
                self.all_end((stays, again), limit=LIMIT)
                self.assertTrue(self.parameters(name) == calm, first.all())

    # Else kills that come sooner than checkpoints would keep it from ever being saved.
    def test_a_start_from_memory_is_saved_soon(self):
        run = self.start("--nproc-per-node=1", "--max-restarts=1",
                         *self.training("saved", "--skew=0:20", NEVER, epochs=1000))
        self.wait_for(lambda: self.steps_told(run) > 10, run, limit=LIMIT)
        self.kill_a_worker()
        self.wait_for_text(run, r"resumed at step \d+", limit=LIMIT)
        step = int(re.search(r"resumed at step (\d+)", run.all())[1])
        self.assertIn("continuing from memory", run.all())

        def newest():
            saved = [entry for entry in os.listdir(self.path("saved")) if entry.startswith("step-")]
            return max(int(entry.split("-")[1]) for entry in saved)
        self.wait_for(lambda: newest() > step, run, limit=LIMIT)
        run.signal(signal.SIGTERM)
        run.wait(LIMIT)
