"""A launch inside an outer launch or a scheduler job, and the Python and programs of its environment."""

import os
import shutil
import sys

from ddprun_runs import DDPRUN, DdprunTest

SAY = "echo inner $RANK of $WORLD_SIZE"
JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "n[0-1]",
       "SLURM_NODELIST": "n[0-1]", "SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_JOB_CPUS_PER_NODE": "2(x2)"}


class NestedLaunch(DdprunTest):
    """A launch of its own: what configured the outer one does not reach it."""

    def inner(self, *flags, environment=None, command=()):
        """The world of the inner launch, which two outer workers start one each."""
        run = self.run_ddprun("--nproc-per-node=2", *command, "sh", "-c", f"{DDPRUN} {' '.join(flags)} sh -c '{SAY}'",
                              environment=environment)
        return sorted(line for line in run.out().splitlines() if line.startswith("inner"))

    def test_variables_of_flags_stay_with_the_outer_one(self):
        outer = {"PET_NNODES": "1", "DDPRUN_MAX_RESTARTS": "2", "PET_NPROC_PER_NODE": "2", "DDPRUN_NPROC_PER_NODE": "2"}
        self.assertEqual(self.inner(environment=outer), ["inner 0 of 1"] * 2)
        run = self.run_ddprun("sh", "-c", "env | grep -E '^(PET_|DDPRUN_MAX)' || echo none", environment=outer)
        self.assertEqual(run.out().splitlines()[-1], "none")

    def test_a_file_of_settings_stays_with_it_unless_it_is_named(self):
        self.write("ddprun.toml", "nproc-per-node = 2\n")
        self.assertEqual(self.inner(), ["inner 0 of 1"] * 2)
        self.assertEqual(self.inner("--config=ddprun.toml"), ["inner 0 of 2"] * 2 + ["inner 1 of 2"] * 2)

    def test_a_scheduler_that_placed_the_outer_one_places_no_other(self):
        # As the one task of a node in a job of two; the outer launch says that it is alone.
        job = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NNODES": "2", "SLURM_JOB_NUM_NODES": "2", "SLURM_NODEID": "0",
               "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "2",
               "SLURM_JOB_NODELIST": "n[0-1]", "SLURM_STEP_NODELIST": "n[0-1]", "SLURM_NODELIST": "n[0-1]"}
        self.assertEqual(self.inner(environment=job, command=("--standalone",)), ["inner 0 of 1"] * 2)

    def test_an_end_of_the_job_in_the_past_stops_nothing(self):
        job = {**JOB, "SLURM_JOB_END_TIME": "1000"}
        run = self.run_ddprun("--standalone", "--stop-before=60", "true", environment=job)
        self.assertIn("warning: ignoring --stop-before: SLURM_JOB_END_TIME does not give a usable end of the job", run.err())

    def test_standalone_wins_over_an_inherited_number_of_nodes(self):
        run = self.run_ddprun("--standalone", "sh", "-c", SAY, environment={"PET_NNODES": "2", "PET_NODE_RANK": "1"})
        self.assertEqual(run.out(), "inner 0 of 1\n")
        self.ask("--standalone", "--nnodes=2", "true", expect=2)


class Srun(DdprunTest):
    """A fake one, which ddprun puts before itself, says what it finds."""

    def found(self, **variables):
        self.write(self.path("bin", "srun"), "#!/bin/sh\nenv | grep -E '^SLURM_(TRES|CPU_BIND)' | sort\n", 0o755)
        run = self.ask("true", environment={**JOB, **variables, "PATH": f"{self.path('bin')}:/usr/bin:/bin"})
        self.assertIn("srun was forgotten", run.err())
        return run.out().splitlines()

    def test_the_cpus_of_another_step_are_not_passed_on(self):
        mask = {"SLURM_CPU_BIND": "quiet,mask_cpu:0x1", "SLURM_CPU_BIND_LIST": "0x1", "SLURM_CPU_BIND_TYPE": "mask_cpu:",
                "SLURM_CPU_BIND_VERBOSE": "quiet"}
        self.assertEqual(self.found(**mask, SLURM_TRES_PER_TASK="cpu=2"), [])

    def test_a_kind_of_binding_that_the_user_chose_is(self):
        self.assertEqual(self.found(SLURM_CPU_BIND="cores"), ["SLURM_CPU_BIND=cores"])


class WhichPython(DdprunTest):
    """And which program a name means: what the user's shell would take, unless ddprun is in an environment."""

    def setUp(self):
        super().setUp()
        self.environment.pop("PYTHON_EXEC", None)
        self.write("train.py", "import os, sys\nprint('ran by', os.environ['WHO'] if 'WHO' in os.environ else sys.executable)\n")

    def folder(self, name, *programs):
        """A folder of programs that say whose they are; a Python continues with the script."""
        place = self.path(name, "bin")
        os.makedirs(place)
        for program in programs:
            path = os.path.join(place, program)
            self.write(path, f"#!/bin/sh\nexport WHO={name}\n" + (f'exec {sys.executable} "$@"\n' if program == "python3" else
                                                                f"echo ran by {name}\n"), 0o755)
        return place

    def ran_by(self, ddprun, program, path, **variables):
        run = self.ask(program, executable=ddprun, environment={"PATH": f"{path}:/usr/bin:/bin", **variables})
        return run.out().split("ran by ")[1].split()[0]

    def installed(self, name, *programs):
        place = self.folder(name, *programs)
        os.link(DDPRUN, os.path.join(place, "ddprun")) if os.stat(DDPRUN).st_dev == os.stat(place).st_dev else shutil.copy(DDPRUN, place)
        return os.path.join(place, "ddprun")

    def test_the_first_in_path_beats_what_lies_beside_an_installed_ddprun(self):
        system = self.installed("usr", "python3", "tool", "ddprun-own")
        venv = self.folder("venv", "python3", "tool", "ddprun-own")
        self.assertEqual(self.ran_by(system, "train.py", venv), "venv")
        self.assertEqual(self.ran_by(system, "tool", venv), "venv")
        self.assertEqual(self.ran_by(system, "tool", "/nowhere"), "usr")  # Nothing else has it.
        self.assertEqual(self.ran_by(system, "ddprun-own", venv), "usr")  # The other one is of another build.

    def test_a_variable_left_over_from_another_shell_is_ignored(self):
        system = self.installed("usr", "python3")
        self.folder("old", "python3")
        venv = self.folder("venv", "python3")
        for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            self.assertEqual(self.ran_by(system, "train.py", venv, **{variable: self.path("old")}), "venv")

    def test_a_ddprun_of_an_environment_runs_its_python_also_where_that_is_not_active(self):
        other = self.folder("other", "python3", "tool")
        for mark in ("pyvenv.cfg", "conda-meta"):
            name = mark.partition(".")[0]
            ddprun = self.installed(name, "python3", "tool")
            open(self.path(name, mark), "w").close()
            self.assertEqual(self.ran_by(ddprun, "train.py", other), name)
            self.assertEqual(self.ran_by(ddprun, "tool", other), name)

    def test_a_link_in_an_environment_counts_as_that(self):
        system = self.installed("usr", "python3")
        venv = self.folder("venv", "python3")
        open(self.path("venv", "pyvenv.cfg"), "w").close()
        link = os.path.join(venv, "torchrun")
        os.symlink(system, link)
        self.assertEqual(self.ran_by(link, "train.py", self.folder("other", "python3")), "venv")
