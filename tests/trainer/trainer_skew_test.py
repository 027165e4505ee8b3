"""One rank is slower than the others, or so slow that they take it for gone."""

import re

import support

TOY = ["--model=toy", "--data-arg=train=400,test=40", "--epochs=1"]  # 10 steps of two ranks.
STEPS = 4  # That are looked at.


class Skew(support.TrainerTest):
    def seconds(self, rank, of):
        """Of all ranges and operations that `of` chooses, in the rank's trace."""
        events = [e for e in self.json_of(f"prof/trace-generation-1-rank-{rank}.json")["traceEvents"] if e["ph"] == "X"]
        return sum(e["dur"] for e in events if of(e)) / 1e6

    def test_the_others_wait_for_a_slow_rank_in_the_average_and_the_numbers_stay(self):
        _, even = self.trained(TOY, "even", ranks=2)
        workers, skewed = self.trained(TOY + ["--skew=1:150", "--profile=" + self.path("prof"),
                                              f"--profile-schedule=2,1,{STEPS}"], "skew", ranks=2)
        self.assertIn("rank 1 is made slower by 150 ms in every step (--skew)", workers[0].text("err"))
        self.assert_same_bits(even, skewed)
        self.assertGreaterEqual(self.seconds(1, lambda e: e["name"] == "skew"), STEPS * 0.15)
        self.assertEqual(self.seconds(0, lambda e: e["name"] == "skew"), 0)
        waited = [self.seconds(rank, lambda e: e["name"] == "average") for rank in range(2)]
        print(f"seconds in averages of {STEPS} steps: {waited}", flush=True)
        self.assertGreater(waited[0], STEPS * 0.15 / 2)
        self.assertLess(waited[1], waited[0])

    def test_without_sync_ranks_part_and_with_it_they_do_not(self):
        said = r"after 10 steps rank 1's parameters differ from rank 0's by up to ([0-9.e-]+)"
        alone = self.run_world(TOY + ["--no-sync"], ranks=2)[0].text("err")
        self.assertIn("gradients are not averaged (--no-sync)", alone)
        self.assertRegex(alone, said)
        self.assertGreater(float(re.search(said, alone)[1]), 1e-4)

    def test_a_rank_that_there_is_not_is_said(self):
        workers = self.run_world(TOY + ["--skew=5:60000"])
        self.assertIn("rank 5 is made slower by 60000 ms in every step (--skew), but there is none",
                      workers[0].text("err"))
