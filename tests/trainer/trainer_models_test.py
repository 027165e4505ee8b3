"""Every model of the table trains with a peer, and continues to the same bits when stopped."""

import glob
import json

import support

TINY = {
    "toy": ["--model=toy", "--data-arg=train=4000,test=40", "--momentum=0.9", "--nesterov", "--schedule=cosine",
            "--warmup-steps=30"],
    "cnn": ["--model=cnn", "--dataset=synthetic", "--model-arg=width=2",
            "--data-arg=train=130,test=20", "--batch=8"],
    "vgg11": ["--model=vgg11", "--dataset=synthetic", "--model-arg=width=4",
              "--data-arg=train=130,test=20", "--batch=8"],
    "transformer": ["--model=transformer", "--model-arg=heads=2,layers=1,ff=16",
                    "--data-arg=train=120,test=8,d_model=8,target=3", "--batch=8",
                    "--optimizer=adamw", "--scale-lr"],
}
# Ranks that get no sample of the last step of an epoch: 17 = 8 + 8 + 1.
UNEVEN = {
    "vgg11": ["--model=vgg11", "--dataset=synthetic", "--model-arg=width=4",
              "--data-arg=train=17,test=3", "--batch=4"],
    "transformer": ["--model=transformer", "--model-arg=heads=2,layers=1,ff=16",
                    "--data-arg=train=17,test=3,d_model=8,target=3", "--batch=4"],
}


def loss(worker, of="train"):
    for line in worker.text("out").splitlines():
        if line.startswith(of + " "):
            return float(line.split("loss ")[1].split()[0])
    raise AssertionError(worker.text("out"))


class Models(support.TrainerTest):
    def test_every_model_has_a_row_here(self):
        refused = self.run_world(["--model=none"], expect=2)[0].text("err")
        known = refused.split("known: ")[1].splitlines()[0].split(", ")
        self.assertEqual(set(known), {*TINY, "mlp", "linear"}, "TINY lacks a model")

    def trained(self, arguments, name, ranks=1, epochs=2):
        workers, data = super().trained([*arguments, f"--epochs={epochs}", "--checkpoint-every=7"], name, ranks=ranks)
        return workers[0], data

    def test_a_model_in_two_parts_is_the_same_model(self):
        split = ["--split-devices=cpu,cpu"]
        for model in ("toy", "mlp"):
            flags = {"toy": TINY["toy"], "mlp": ["--limit-train=640", "--clip-norm=1"]}[model]
            _, whole = self.trained(flags, f"whole{model}", ranks=2)
            _, parts = self.trained(flags + split, f"parts{model}", ranks=2)
            self.assert_same_bits(whole, parts, model)
        # A training saved in one piece is continued in two.
        flags = TINY["toy"] + ["--checkpoint-every=3"]
        self.interrupt(flags + ["--epochs=2"], "mapped", ranks=2, step=8)
        self.run_world(flags + split + ["--epochs=2", "--resume=must", "--dump-parameters=mapped.st"],
                       ranks=2, generation=2)
        self.assert_same_bits(self.bytes_of("wholetoy.st"), self.bytes_of("mapped.st"))

    def test_a_model_is_split_only_where_that_can_be(self):
        for number, (flags, words) in enumerate((
                (["--model=toy", "--split-devices=cpu"], "a device for each of the model's 2 parts"),
                (["--model=linear", "--split-devices=cpu,cpu"], "this model cannot be split; toy and mlp can"),
                (["--model=toy", "--split-devices=cpu,warp:1"], "cannot put net2.weight on 'warp:1'"),
                (["--model=toy", "--split-devices=cpu,cuda:99"], "on 'cuda:99': "))):
            self.checkpoints = self.path(f"refused{number}.ckpt")
            (worker,) = self.run_world(flags + ["--epochs=1"], expect=2)
            self.assertIn(words, worker.text("err"))

    def test_a_graph_of_the_step_is_refused_where_there_is_no_gpu(self):
        (worker,) = self.run_world(["--cuda-graph", "--device=cpu"], expect=2)
        self.assertIn("--cuda-graph is not for --device=cpu", worker.text("err"))
        if not glob.glob("/dev/nvidia[0-9]*"):
            (worker,) = self.run_world(["--cuda-graph"], generation=2, expect=2)
            self.assertIn("--cuda-graph is for GPUs, and this rank computes on the CPU",
                          worker.text("err"))

    def test_interrupted_at_a_step_is_as_undisturbed(self):
        for model, arguments in TINY.items():
            with self.subTest(model):
                _, whole = self.trained(arguments, model + "whole", ranks=2, epochs=3)
                full = arguments + ["--epochs=3", "--checkpoint-every=2", f"--dump-parameters={model}.st"]
                self.interrupt(full, model, ranks=2, step=5)
                last = self.run_world(full + ["--resume=must"], ranks=2, generation=2)
                self.assertIn("resumed at step", last[0].text("err"))
                self.assert_same_bits(whole, self.bytes_of(model + ".st"), model)
                if model == "vgg11":
                    self.assert_buffers(whole)

    # Parts and ranks are only ways to compute the same gradient. (Not with batch norm, whose
    # statistics are of what is computed at a time.)
    def test_parts_and_ranks_give_the_same_step(self):
        for model, arguments in (("toy", TINY["toy"]), ("mlp", ["--limit-train=600"])):
            whole = self.trained(arguments + ["--batch=24"], model + "whole")[1]
            parts, log = self.trained(arguments + ["--batch=24", "--micro-batch=5"],
                                      model + "parts")[::-1]
            self.assertIn("in parts of at most 5", log.text("err"))
            ranks = self.trained(arguments + ["--batch=12", "--micro-batch=5"], model + "ranks",
                                 ranks=2)[1]
            for other in (parts, ranks):
                self.assertLess(support.largest_difference(whole, other), 2e-6)

    def test_a_rank_without_samples_takes_part(self):
        for model, arguments in UNEVEN.items():
            worker, data = self.trained(arguments, model + "uneven", ranks=2)
            self.assertIn("(17 samples)", worker.text("out"))
            self.assertTrue(all(value == value for value in support.parameters(data)))

    def assert_buffers(self, data):
        """Under their names, beside the parameters."""
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + size])
        for name in ("features.0.weight", "features.1.running_mean", "features.26.running_var",
                     "features.26.num_batches_tracked", "classifier.bias"):
            self.assertIn(name, header)
        self.assertEqual(header["features.1.num_batches_tracked"]["dtype"], "I64")
        start, end = header["features.1.num_batches_tracked"]["data_offsets"]
        steps = int.from_bytes(data[8 + size + start:8 + size + end], "little")
        self.assertEqual(steps, 3 * 9)  # 130 samples in steps of 16.
