"""Programs of Lightning and transformers, and the steps of callbacks, started by ddprun in their own launchers' place."""

from torch_runs import TorchTest

# The variables of a job of one node and two tasks that the script finds; ddprun is started once,
# and starts both.
SLURM = {"SLURM_NTASKS": "2", "SLURM_JOB_NAME": "train", "SLURM_JOB_ID": "7", "SLURM_PROCID": "0",
         "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_NTASKS_PER_NODE": "2",
         "SLURM_NODELIST": "localhost", "SLURM_JOB_NODELIST": "localhost", "SLURM_NNODES": "1",
         "SLURM_JOB_NUM_NODES": "1", "SLURMD_NODENAME": "localhost"}


class Lightning(TorchTest):
    # Slurm's variables are what it looks for first; without them it finds the same.
    def test_a_trainer_starts_no_processes_of_its_own_under_slurm_either(self):
        self.environment.update(SLURM)
        self.run_program(2, "lightning_fit.py")
        told = self.reports()
        self.assertEqual([(r["world"], r["rank"], r["batches"]) for r in told],
                         [(2, 0, 20), (2, 1, 20)])
        self.assertEqual(len({r["parameters"] for r in told}), 1, told)
        self.assertEqual({r["environment"] for r in told}, {"TorchElasticEnvironment"})
        for r in told:
            self.assertLess(r["last"], r["first"] / 2)


class Callbacks(TorchTest):
    def test_ddprun_hears_the_steps_of_each(self):
        self.run_program(1, "steps_told.py")
        (told,) = self.reports()
        steps = [f"STEP={number}" for number in (1, 2, 3)]
        for name, first in (("lightning", "RESUME=0"), ("transformers", "RESUME=0"), ("accelerate", "READY=1")):
            with self.subTest(name):
                self.assertIn(first, told[name])
                self.assertEqual([line for line in told[name] if line.startswith("STEP=")], steps)
        self.assertIn("STEPS=3", told["lightning"])
        self.assertIn("STEPS=3", told["transformers"])
        self.assertIn("PHASE=validate 1", told["lightning"])
        self.assertIn("PHASE=checkpoint", told["lightning"])
        self.assertIn("PHASE=evaluate 1", told["transformers"])
