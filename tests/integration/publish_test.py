"""ddprun publish as a worker calls it: the newest world's result is seen, an older one is refused."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import DDPRUN, DdprunTest, read_text  # noqa: E402

# Publishes what it makes, and leaves its environment behind for somebody who comes too late.
WORKER = """
env -0 > env.$DDPRUN_GENERATION
echo "made in generation $DDPRUN_GENERATION" > new.$RANK
"$1" publish new.$RANK final || exit
test $DDPRUN_GENERATION -ge 2
"""


class Publish(DdprunTest):
    def left_environment(self, generation):
        items = read_text(self.path(f"env.{generation}")).rstrip("\0").split("\0")
        return dict(item.split("=", 1) for item in items)

    def published(self, source, target, environment, expect):
        return self.ask("publish", source, target, environment=environment, expect=expect)

    def test_a_worker_of_an_older_generation_is_refused_with_76(self):
        run = self.run_ddprun("--max-restarts=1", "--no-python", "sh", "-c", WORKER, "sh", DDPRUN)
        self.assertIn("published 'final'", run.out())
        self.assertEqual(read_text(self.path("final")), "made in generation 2\n")
        self.write("late", "late\n")
        late = self.published("late", "final", self.left_environment(1), expect=76)
        self.assertIn("generation 2", late.err())
        self.assertIn("this world was replaced; nothing was published", late.err())
        self.assertEqual(read_text(self.path("final")), "made in generation 2\n")
        self.assertEqual(read_text(self.path("late")), "late\n")
        # The world that wrote last may go on.
        self.published("late", "final", self.left_environment(2), expect=0)
        self.assertEqual(read_text(self.path("final")), "late\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
