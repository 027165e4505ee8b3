"""Five epochs learn MNIST; two ranks learn the same as one; another seed gives other bits."""

import unittest

import support


class Accuracy(support.TrainerTest):
    def train(self, name, *arguments, ranks=1):
        (worker, *_), _ = self.trained(["--checkpoint-every=1000", *arguments], name, ranks=ranks)
        return support.accuracy(worker)

    def test_five_epochs(self):
        alone = [self.train(f"s{seed}", f"--seed={seed}") for seed in (1, 2)]
        together = self.train("two", "--seed=1", "--batch=32", ranks=2)
        print("alone, seeds 1 and 2:", alone, "two ranks, seed 1:", together, flush=True)
        for one in alone:
            self.assertGreaterEqual(one, 96.2)
        self.assertGreaterEqual(sum(alone) / len(alone), 96.4)
        self.assertLessEqual(abs(together - alone[0]), 0.3)
        self.assertGreaterEqual(together, 96.2)

    # The last global batch has one sample: two of three ranks have none, and its weight is that of
    # a batch of its own.
    def test_uneven_batches_weigh_the_same_on_any_world(self):
        arguments = ["--epochs=2", "--limit-train=121"]
        self.train("one", *arguments, "--batch=60", ranks=1)
        self.train("two", *arguments, "--batch=30", ranks=2)
        self.train("three", *arguments, "--batch=20", ranks=3)
        one = self.bytes_of("one.st")
        for name in ("two.st", "three.st"):
            self.assertLess(support.largest_difference(one, self.bytes_of(name)), 1e-5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
