"""Programs on the trainer's library that use it in another way than the examples, rightly and wrongly."""

import support


class Use(support.TrainerTest):
    def ends(self, how, code, says, *flags):
        self.checkpoints = self.path(how)
        (worker,) = self.run_world(["--how", how, "--epochs=2", "--batch=16", *flags], expect=code)
        if says:
            self.assertIn(says, worker.text("err"))

    def test_wrong_use_is_refused_with_the_reason(self):
        for how, says in (
                ("replicates a part", "the parameter 'weight' is replicated already"),
                ("keeps nothing", "nothing is kept"),
                ("keeps late", "Keep: call it before Batches"),
                ("changes early", "'net.first.bias' was changed before Backward"),
                ("two lines", "has a control character"),
                ("names a metric twice", "EndStep: two metrics are named 'late'"),
                ("gives two numbers", "EndStep: the metric 'late' must be one number, not a tensor of shape [2]"),
                ("adds a group", "add_param_group: call it before Batches"),
                ("adds to a group", "add_parameters. No checkpoint holds the state"),
                ("its own backward", "Call session.Backward(loss) in place of loss.backward()"),
                ("misuses in a score", "the program has no such flag"),
                ("scores nothing", "Validate: the score has no metric"),
                ("scores other names", "Validate: the metrics are loss, other, those of the first time were loss, twice"),
                ("catches", "an exception left the loop over session.Batches")):
            with self.subTest(how):
                self.ends(how, 2, says)

    def test_parts_are_not_left_early(self):
        self.ends("leaves the parts", 2, "Finish the loop over Parts", "--micro-batch=5")

    def test_parts_are_of_equal_size(self):
        self.ends("wants larger parts", 0, "session.Parts cuts each rank's 16 samples of a step into parts of at most 5",
                  "--micro-batch=5")

    def test_a_module_that_earlier_parts_alone_reach_is_refused(self):
        self.ends("reaches a module early", 2, "the gradients of the module with 'weight' were not averaged",
                  "--micro-batch=5")

    def test_a_loss_after_the_parts_is_one_of_the_whole_batch(self):
        self.ends("adds a loss", 0, None, "--micro-batch=5")

    def test_ranks_without_a_sample_to_validate_on_have_the_metrics_of_the_others(self):
        workers = self.run_world(["--how=validates on one", "--epochs=1", "--validate-every=2",
                                  "--result=" + self.path("result")], ranks=2)
        self.assertRegex(workers[0].text("out"), r"^validation loss [\d.]+, twice [\d.]+ \(1 samples\)$")
        metrics = self.json_of("result")["metrics"]
        self.assertAlmostEqual(metrics["validation_twice"], 2 * metrics["validation_loss"], delta=1e-6)

    def test_ranks_that_keep_or_score_differently_are_told_apart(self):
        for how, says in (
                ("keeps on rank 0",
                 "rank 1 keeps or replicates optimizer.momentum_buffer.net.first.weight where rank 0 has late[]"),
                ("scores on rank 0",
                 "Validate: the metrics of rank 1 are loss, twice, those of rank 0 are loss, other")):
            with self.subTest(how):
                self.checkpoints = self.path(how)
                workers = self.start(["--how=" + how], ranks=2)
                self.assertEqual(workers[1].wait(), 2)
                self.assertIn(says, workers[1].text("err"))
                workers[0].wait()

    def test_a_rank_that_leaves_the_loop_before_the_others_is_named(self):
        for backend in ("shm", "gloo"):
            with self.subTest(backend):
                self.checkpoints = self.path(backend)
                workers = self.start(["--how=leaves on rank 1", "--batch=16", "--collective-timeout=8",
                                      "--backend=" + backend], ranks=2)
                self.assertEqual(workers[1].wait(), 2)
                left = "rank 1 left the loop over session.Batches after step 1, and "
                self.assertIn(f"warning: {left}waits for the other ranks. All ranks must", workers[1].text("err"))
                self.assertIn(f"error: {left}not all others did. All ranks must", workers[1].text("err"))
                self.assertEqual(workers[0].wait(), 75)

    def test_ranks_that_leave_the_loop_together_have_finished(self):
        for worker in self.run_world(["--how=leaves together", "--batch=16", "--result=" + self.path("result")], ranks=2):
            self.assertNotIn("left the loop", worker.text("err"))
        self.assertEqual(self.json_of("result")["steps"], 1)

    def test_a_loss_that_is_no_number_is_said_once(self):
        workers = self.run_world(["--how=has no loss on rank 1", "--epochs=2", "--batch=16"], ranks=2)
        self.assertEqual(workers[0].text("err").count("warning: the loss of rank 1 is nan in a step from 1 to 2. "), 1)
        self.assertEqual(sum(worker.text("err").count("the loss of") for worker in workers), 1)

    def test_a_rest_of_one_sample_can_be_left_out(self):
        flags = ["--how=normalises", "--epochs=2", "--batch=16"]
        (worker,) = self.run_world(flags, expect=1)
        self.assertIn("Expected more than 1 value per channel", worker.text("err"))
        self.checkpoints = self.path("left out")
        self.run_world([*flags, "--drop-last", "--result=" + self.path("result")])
        self.assertEqual(self.json_of("result")["steps"], 8)
        self.checkpoints = self.path("none left")
        (worker,) = self.run_world([*flags, "--drop-last", "--batch=66"], expect=2)
        self.assertIn("--drop-last leaves no sample: a step of all ranks takes 66, and the data set has 65",
                      worker.text("err"))

    def test_the_rate_of_an_optimizer_that_is_not_kept_is_left_out(self):
        (worker,) = self.run_world(["--how=keeps no optimizer", "--epochs=1", "--batch=16"])
        self.assertIn("no kept optimizer trains", worker.text("err"))
        self.assertRegex(worker.text("err"), r"late 0 [\d.]+k? samples/s")

    def test_an_exception_of_any_type_is_reported(self):
        self.ends("throws", 1, "the program failed: it threw an exception that is not a std::exception")
        self.ends("get throws", 1, "the data set failed at sample")

    def test_an_exception_of_its_own_backward_is_no_peers_fault(self):
        for ranks in (1, 2):
            self.checkpoints = self.path(f"of {ranks}")
            for worker in self.run_world(["--how=its backward throws"], ranks=ranks, expect=1):
                self.assertIn("failed: cannot finish the backward of a step: its own backward", worker.text("err"))

    def test_a_flag_of_the_trainer_is_taken(self):
        (worker,) = self.run_world(["--taken"], expect=2)
        self.assertIn("the program's flag 'epochs' needs another name", worker.text("err"))

    def test_a_trained_tensor_in_no_module_is_named_once(self):
        lost = "no checkpoint holds these trained tensors (session.Keep): [1,2]"
        apart = ("the gradients of these are not averaged over the ranks, as no module for session.Replicate has them: "
                 "[1,2]")
        for how, ranks, flags, says in (
                ("trains another", 1, [], [lost]),
                ("trains another", 2, [], [lost + "; " + apart]),
                ("trains another", 2, ["--no-sync"], [lost]),
                ("looks at another", 2, [], [])):
            with self.subTest(how, ranks=ranks, flags=flags):
                self.checkpoints = self.path(f"{how} {self.started}")
                workers = self.run_world(["--how=" + how, "--epochs=2", "--batch=16", *flags], ranks=ranks)
                lines = [line for worker in workers for line in worker.text("err").splitlines()
                         if "these trained tensors" in line]
                self.assertEqual([line[line.index("no checkpoint"):] for line in lines], says)

    def test_a_program_has_its_version(self):
        (worker,) = self.run_world(["--version"])
        self.assertRegex(worker.text("out"), r"^session_program \(ddprun \d.*, libtorch \d.*\)$")

    def test_only_the_first_samples_are_trained_on(self):
        flags = ["--how=first", "--epochs=1", "--batch=4"]
        self.run_world([*flags, "--limit-train=8", "--result=" + self.path("result")])
        self.assertEqual(self.json_of("result")["steps"], 2)
        (worker,) = self.run_world(flags, expect=2, generation=2)
        self.assertIn("the checkpoint is of another training: --limit-train", worker.text("err"))

    def test_a_data_set_smaller_than_a_batch_is_one_part(self):
        (worker,) = self.run_world(["--how=few", "--epochs=1", "--batch=4", "--limit-train=3"])
        self.assertNotIn("parts of", worker.text("err"))

    def test_a_validation_leaves_each_module_its_mode(self):
        self.ends("", 0, "validation at step 2", "--validate-every=2")
