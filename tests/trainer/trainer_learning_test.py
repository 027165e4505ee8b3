"""The flags about how a step is computed, and where data and results are; the result of five epochs of
MNIST."""

import json
import math
import os

import support
from trainer_models_test import TINY, loss

TOY = ["--model=toy", "--data-arg=train=400,test=40"]


class Learning(support.TrainerTest):
    # One step of SGD moves the parameters by the norm of the gradient times the learning rate.
    def test_clipping_is_of_the_whole_averaged_gradient(self):
        one_step = TOY + ["--limit-train=40", "--batch=40", "--epochs=1"]
        _, before = self.trained(one_step + ["--lr=1e-30"], "before")
        share = ["--batch=20", "--lr=1"]
        _, clipped = self.trained(one_step + share + ["--clip-norm=0.01"], "clipped", ranks=2)
        loose_run, loose = self.trained(one_step + share + ["--clip-norm=1000"], "loose", ranks=2)
        self.assertAlmostEqual(self.distance(before, clipped), 0.01, delta=1e-4)
        moved = self.distance(before, loose)
        self.assertGreater(moved, 0.1)
        # With a learning rate of 1 that is the gradient, and what is reported of it.
        with open(os.path.join(self.checkpoints, "metrics.jsonl")) as file:
            (point,) = map(json.loads, file)
        self.assertAlmostEqual(point["grad_norm"], moved, delta=1e-4 * moved)
        self.assertLessEqual({"t", "gen", "step", "epoch", "loss", "lr", "samples_per_s", "mem"}, point.keys())
        self.assertIn(f" norm {moved:.3g} lr 1.0e+00 ", loose_run[0].text("err"))

    def test_a_loss_that_is_no_number_is_said_once(self):
        workers = self.run_world(TOY + ["--epochs=2", "--lr=1e30"], ranks=2)
        self.assertEqual(workers[0].text("err").count("the loss of 2 of 2 ranks is nan in a step from 1 to 10."), 1)
        self.assertEqual(sum(worker.text("err").count("the loss of") for worker in workers), 1)

    def distance(self, one, other):
        one, other = support.parameters(one), support.parameters(other)
        return math.sqrt(sum((a - b) ** 2 for name in one for a, b in zip(one[name], other[name])))

    # Two numbers have one sum; of four it depends on the order.
    def test_ranks_of_several_nodes_average_as_those_of_one(self):
        arguments = TOY + ["--epochs=2"]
        _, one = self.trained(arguments, "one", ranks=2)
        # Of mpirun's ranks it may not be known which are of one node.
        unknown = {"nodes": 2, "environment": {"GROUP_RANK": 0}}
        for name, how in {"nodes": {"nodes": 2}, "unknown": unknown}.items():
            workers, other = self.trained(arguments, name, ranks=2, **how)
            self.assertIn("through Gloo", workers[0].text("err"))
            self.assert_same_bits(one, other, name)
        _, one = self.trained(arguments, "four", ranks=4)
        # Of many gradients each bucket is summed node by node. Ranks may not be in the order of the nodes.
        ways = (([0, 2, 1, 3], []), (2, ["--bucket-mib=0.001"]))
        for nodes, flags in ways:
            workers, other = self.trained(arguments + flags, f"four{nodes}{flags}", ranks=4, nodes=nodes)
            self.assertLess(support.largest_difference(one, other), 1e-5)
            way = "nodes through Gloo" if nodes == 2 else "through Gloo (not all"
            self.assertIn(way, workers[0].text("err"))

    def test_a_rank_that_dies_ends_those_of_all_nodes(self):
        endless = ["--model=toy", "--data-arg=train=400000,test=40", "--checkpoint-every=1000000"]
        # By turns: as `srun --distribution=cyclic` starts them.
        for nodes, neighbour in ((2, 2), ([0, 1, 0, 1], 1)):
            self.checkpoints = self.path(f"{neighbour}.ckpt")
            workers = self.start(endless, ranks=4, nodes=nodes)
            self.assertTrue(workers[0].wait_for_step(5))
            workers[3].kill()
            for worker in workers[:3]:
                self.assertEqual(worker.wait(), 75, worker.text("err"))
                self.assertIn("[peer-gone]", worker.text("err"))
            self.assertIn("the process of rank 3 has ended", workers[neighbour].text("err"))

    def test_compressed_gradients_are_close_and_not_equal(self):
        arguments = TOY + ["--epochs=2"]
        _, whole = self.trained(arguments, "whole", ranks=2)
        for kind, most in (("fp16", 1e-3), ("bf16", 1e-2)):
            _, small = self.trained(arguments + ["--compress=" + kind], kind, ranks=2)
            difference = support.largest_difference(whole, small)
            print(f"{kind}: largest difference {difference:.2g}", flush=True)
            self.assertGreater(difference, 0)
            self.assertLess(difference, most)

    def test_bfloat16_learns_about_as_well(self):
        flags = TINY["transformer"] + ["--epochs=4", "--lr=0.003"]
        whole = self.trained(flags, "f32")
        cast = self.trained(flags + ["--autocast=bf16"], "bf16", ranks=2)
        self.assertNotEqual(whole[1], cast[1])
        self.assertLess(loss(cast[0][0]), 1.2 * loss(whole[0][0]))

    def test_prefetch_and_determinism_change_no_bit(self):
        arguments = TINY["vgg11"] + ["--epochs=1", "--micro-batch=3"]
        _, whole = self.trained(arguments + ["--prefetch=off"], "off", ranks=2)
        _, ahead = self.trained(arguments + ["--prefetch=on", "--deterministic"], "on", ranks=2)
        self.assert_same_bits(whole, ahead)

    def test_the_result_is_json_also_of_a_training_that_is_finished_already(self):
        arguments = TOY + ["--epochs=2", "--result=" + self.path("result.json")]
        self.trained(arguments, "r", ranks=2)
        first = self.json_of("result.json")
        self.assertEqual((first["model"], first["world_size"], first["steps"]), ("toy", 2, 20))
        self.assertGreater(first["metrics"]["test_loss"], 0)
        os.unlink(self.path("result.json"))
        self.run_world(arguments, ranks=2, generation=2)
        self.assertEqual(self.json_of("result.json")["metrics"], first["metrics"])


class Accuracy(support.TrainerTest):
    def train(self, name, *arguments, ranks=1):
        (worker, *_), _ = self.trained(["--checkpoint-every=1000", *arguments], name, ranks=ranks)
        return support.accuracy(worker)

    def test_five_epochs(self):
        alone = self.train("alone")
        together = self.train("two", "--batch=32", ranks=2)
        print("alone:", alone, "two ranks:", together, flush=True)
        self.assertGreaterEqual(alone, 96.4)
        self.assertLessEqual(abs(together - alone), 0.3)
        self.assertGreaterEqual(together, 96.2)

    # The last global batch has one sample: two of three ranks have none, and its weight is that of
    # a batch of its own.
    def test_uneven_batches_weigh_the_same_on_any_world(self):
        arguments = ["--epochs=2", "--limit-train=121"]
        self.train("one", *arguments, "--batch=60", ranks=1)
        self.train("three", *arguments, "--batch=20", ranks=3)
        self.assertLess(support.largest_difference(self.bytes_of("one.st"), self.bytes_of("three.st")), 1e-5)
