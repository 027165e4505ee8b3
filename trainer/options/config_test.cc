#include "trainer/options/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

namespace ddprun {
namespace {

std::variant<TrainConfig, EarlyExit> ParseAll(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "ddprun-train");
  return Parse(static_cast<int>(arguments.size()), arguments.data());
}

EarlyExit Refusal(const std::vector<const char*>& arguments) {
  const auto parsed = ParseAll(arguments);
  return std::holds_alternative<EarlyExit>(parsed) ? std::get<EarlyExit>(parsed)
                                                   : EarlyExit{0, "it was accepted"};
}

// Each of these words is in what the refusal says.
void ExpectRefused(const std::vector<const char*>& arguments,
                   const std::vector<const char*>& words) {
  const EarlyExit exit = Refusal(arguments);
  EXPECT_EQ(exit.code, 2);
  for (const char* const word : words) {
    EXPECT_NE(exit.text.find(word), std::string::npos) << word << " in\n" << exit.text;
  }
}

TEST(Config, DefaultsTrainTheBundledDataAndRecover) {
  const auto config = std::get<TrainConfig>(ParseAll({}));
  EXPECT_EQ(config.epochs, 5);
  EXPECT_EQ(config.checkpoint_dir, "checkpoints/mnist-mlp");
  EXPECT_EQ(config.checkpoint_interval.steps, 200u);
  EXPECT_EQ(config.resume, "auto");
  EXPECT_NE(config.data_root.string().find("share/ddprun/mnist"), std::string::npos);
}

TEST(Config, ReadsWordsAndTimes) {
  const auto config = std::get<TrainConfig>(ParseAll(
      {"--checkpoint-every=30s", "--resume=must", "--backend=shm", "--progress-every=0.5s"}));
  EXPECT_EQ(config.checkpoint_interval.time, std::chrono::seconds(30));
  EXPECT_FALSE(config.checkpoint_interval.steps);
  EXPECT_EQ(config.resume, "must");
  EXPECT_EQ(config.backend_choice, BackendChoice::kShm);
  EXPECT_EQ(config.progress_interval, std::chrono::milliseconds(500));
}

TEST(Config, FlagsThatTheCommandLineLeavesOutAreTheModelsRecipe) {
  const auto vgg = std::get<TrainConfig>(ParseAll({"--model=vgg11"}));
  EXPECT_EQ(vgg.dataset, "mnist32");
  EXPECT_EQ(vgg.batch, 128);
  EXPECT_EQ(vgg.micro_batch, 128);
  EXPECT_DOUBLE_EQ(vgg.lr, 5e-4);
  EXPECT_NE(vgg.data_root.string().find("share/ddprun/mnist"), std::string::npos);
  const auto toy = std::get<TrainConfig>(
      ParseAll({"--model=toy", "--lr=0.5", "--momentum=0.9", "--nesterov", "--weight-decay=0.1"}));
  EXPECT_EQ(toy.optimizer_options.kind, OptimizerKind::kSgd);
  EXPECT_DOUBLE_EQ(toy.lr, 0.5);
  EXPECT_DOUBLE_EQ(toy.optimizer_options.momentum, 0.9);
  EXPECT_DOUBLE_EQ(toy.optimizer_options.weight_decay, 0.1);
  EXPECT_TRUE(toy.optimizer_options.nesterov);
  const auto transformer = std::get<TrainConfig>(
      ParseAll({"--model=transformer", "--model-arg=layers=1,heads=4", "--data-arg=d_model=32",
                "--optimizer=adamw", "--scale-lr", "--micro-batch=8"}));
  EXPECT_EQ(transformer.model_arguments.Whole("layers"), 1);
  EXPECT_EQ(transformer.data_arguments.Whole("d_model"), 32);
  EXPECT_DOUBLE_EQ(transformer.optimizer_options.weight_decay, 0.01);
  EXPECT_TRUE(transformer.scale_lr);
  EXPECT_EQ(transformer.micro_batch, 8);
}

TEST(Config, AModelAndDataThatDoNotFitAreRefusedWithThoseThatDo) {
  ExpectRefused(
      {"--model=vgg11", "--dataset=mnist"},
      {"data sets that fit it: mnist32, cifar10, synthetic; models that fit this data: mlp, "
       "linear, cnn"});
  ExpectRefused({"--model=mlp", "--dataset=toy"}, {"models that fit this data: toy"});
  ExpectRefused({"--model=transformer", "--data-arg=d_model=30"},
                {"cannot be divided among heads=8"});
  ExpectRefused({"--dataset=cifar10"}, {"set --data-root=DIR to the directory of its files"});
  ExpectRefused({"--model=linear", "--model-arg=hidden=3"}, {"--model-arg of linear: 'hidden=3'"});
}

TEST(Config, RefusesOptimizersThatMakeNoSense) {
  ExpectRefused({"--optimizer=lion"}, {"adam, adamw or sgd"});
  ExpectRefused({"--momentum=0.9"}, {"are for --optimizer=sgd"});
  ExpectRefused({"--optimizer=sgd", "--nesterov"}, {"--nesterov needs --momentum"});
  ExpectRefused({"--optimizer=sgd", "--momentum=1"}, {"--momentum must be"});
  ExpectRefused({"--weight-decay=-1"}, {"--weight-decay must be"});
}

TEST(Config, ReadsHowToLearn) {
  const auto config =
      std::get<TrainConfig>(ParseAll({"--schedule=step", "--warmup-steps=5", "--decay-every=10",
                                      "--decay-factor=0.5", "--compress=fp16", "--prefetch=on"}));
  const Schedule schedule = ScheduleOf(config.learning, 100);
  EXPECT_EQ(schedule.kind, ScheduleKind::kStep);
  EXPECT_EQ(schedule.warmup_steps, 5u);
  EXPECT_EQ(schedule.decay_every, 10u);
  EXPECT_DOUBLE_EQ(schedule.decay_factor, 0.5);
  EXPECT_EQ(config.learning.compression, Precision::kFloat16);
  EXPECT_TRUE(PrefetchWanted(config.learning, 1));
  EXPECT_FALSE(PrefetchWanted({}, 64 * 784));
  EXPECT_TRUE(PrefetchWanted({}, 128 * 3072));
}

TEST(Config, AGraphOfTheStepIsForOneGpuOrNccl) {
  EXPECT_TRUE(std::get<TrainConfig>(ParseAll({"--cuda-graph", "--backend=nccl", "--autocast=fp16"}))
                  .learning.cuda_graph);
  ExpectRefused({"--cuda-graph", "--device=cpu", "--backend=gloo", "--compress=bf16",
                 "--split-devices=cpu,cpu"},
                {"not for --device=cpu: only a GPU",
                 "not for --backend=gloo:", "not for --compress:", "not for --split-devices:"});
}

TEST(Config, RefusesToLearnSo) {
  ExpectRefused(
      {"--schedule=linear", "--warmup-steps=-1", "--decay-every=-1", "--decay-factor=0",
       "--clip-norm=0", "--autocast=half", "--compress=int8", "--prefetch=maybe"},
      {"--schedule must", "--warmup-steps must", "--decay-every must", "--decay-factor must",
       "--clip-norm must", "--autocast must", "--compress must", "--prefetch must"});
  ExpectRefused({"--schedule=step"}, {"--decay-every must"});
}

TEST(Config, APackageIsNotForAutocast) {
  EXPECT_EQ(std::get<TrainConfig>(ParseAll({"--eval-package=/m.pt2"})).run.eval_package, "/m.pt2");
  ExpectRefused({"--eval-package=/m.pt2", "--autocast=bf16"},
                {"--eval-package and --autocast exclude each other"});
}

TEST(Config, NamesEveryProblemAtOnce) {
  ExpectRefused({"--model=vgg", "--dataset=cifar", "--epochs=0", "--batch=0", "--lr=-1",
                 "--seed=-1", "--checkpoint-every=2x", "--resume=maybe", "--backend=mpi",
                 "--keep-last=1", "--limit-train=0", "--threads=-1", "--collective-timeout=0.5s",
                 "--progress-every=2h", "--bucket-mib=0"},
                {"--model: unknown model 'vgg'; known: mlp, linear, toy, cnn",
                 "--dataset: unknown data set 'cifar'", "--epochs", "--batch", "--lr", "--seed",
                 "--checkpoint-every", "--resume", "--backend", "--keep-last", "--limit-train",
                 "--threads", "--collective-timeout must be 1.0 s to 24 h 00 min, not '0.5s'",
                 "--progress-every must be 0 ms to 1 h 00 min", "--bucket-mib"});
}

TEST(Config, EachResultHasAFileOfItsOwn) {
  const std::string here = std::filesystem::current_path() / "x";
  const std::vector<std::vector<const char*>> same = {
      {"--result=x", "--dump-parameters=./x"},
      {"--dump-parameters=m", "--metrics=m"},
      {"--result=x", "--dump-parameters", here.c_str()},
      {"--checkpoint-dir=c", "--result=c/metrics.jsonl"}};
  for (const std::vector<const char*>& flags : same) {
    ExpectRefused(flags, {" name one file: "});
  }
}

TEST(Config, RefusesWhatItDoesNotKnow) {
  ExpectRefused({"--bogus=1"}, {"unknown argument '--bogus=1'"});
  EXPECT_EQ(Refusal({"stray"}).code, 2);
  ExpectRefused({"--epochs=many"}, {"--epochs does not take the value 'many'\n"});
  EXPECT_EQ(Refusal({"--lr=nan"}).code, 2);
}

TEST(Config, AnEmptyValueDoesNotTakeTheNextWord) {
  for (const char* const flag : {"--publish=", "--model-arg=", "--freeze=", "--seed="}) {
    ExpectRefused({flag, "--epochs=1"}, {(std::string(flag) + " has no value\n").c_str()});
  }
  EXPECT_EQ(std::get<TrainConfig>(ParseAll({"--model-arg", "", "--epochs=1"})).epochs, 1);
}

TEST(Config, TheLastOfTwoCounts) {
  EXPECT_EQ(std::get<TrainConfig>(ParseAll({"--epochs=2", "--epochs=3"})).epochs, 3);
}

TEST(Config, HelpAndVersionAreNotErrors) {
  EXPECT_EQ(Refusal({"--help"}).code, 0);
  EXPECT_NE(Refusal({"--help"}).text.find("--checkpoint-every"), std::string::npos);
  EXPECT_EQ(Refusal({"--version"}).code, 0);
  EXPECT_NE(Refusal({"--version"}).text.find("libtorch"), std::string::npos);
}

TEST(Config, ATimeoutIsATimeAsOfDdprunsFlags) {
  for (const auto& [flag, seconds] : {std::pair("--collective-timeout=30", 30),
                                      {"--collective-timeout=30s", 30},
                                      {"--collective-timeout=5m", 300},
                                      {"--collective-timeout=1h30m", 5400},
                                      {"--collective-timeout=01:30:00", 5400}}) {
    EXPECT_EQ(std::get<TrainConfig>(ParseAll({flag})).peer_timeout, std::chrono::seconds(seconds))
        << flag;
  }
  EXPECT_EQ(std::get<TrainConfig>(ParseAll({})).peer_timeout, std::chrono::seconds(120));
  ExpectRefused({"--collective-timeout=soon"},
                {"--collective-timeout must be a time such as 30, 500ms, 90s, 5m, "});
}

TEST(Config, CheckpointIntervalIsStepsOrATime) {
  EXPECT_EQ(ParseCheckpointInterval("200")->steps, 200u);
  EXPECT_EQ(ParseCheckpointInterval("5s")->time, std::chrono::seconds(5));
  EXPECT_EQ(ParseCheckpointInterval("1m30s")->time, std::chrono::seconds(90));
  for (const char* text : {"", "0", "0s", "s", "5 s", "-5", "1.5", "5ss", "99999999999"}) {
    EXPECT_FALSE(ParseCheckpointInterval(text)) << text;
  }
}

TEST(Config, ReadsLists) {
  const auto config = std::get<TrainConfig>(ParseAll(
      {"--freeze=a,b.c", "--profile-schedule=1,2,3,4", "--metrics=none", "--skew=1:250,0:5"}));
  EXPECT_EQ(config.run.freeze, (std::vector<std::string>{"a", "b.c"}));
  EXPECT_EQ(config.run.schedule, (ProfileSchedule{1, 2, 3, 4}));
  EXPECT_EQ(config.run.skews, (std::vector<Skew>{{1, std::chrono::milliseconds(250)},
                                                 {0, std::chrono::milliseconds(5)}}));
  EXPECT_TRUE(config.metrics.empty());
  EXPECT_EQ(std::get<TrainConfig>(ParseAll({"--checkpoint-dir=/c"})).metrics, "/c/metrics.jsonl");
}

// Its reader has a terminal.
TEST(Config, ARefusalIsOneLineForAnyText) {
  const char* const said = "a\nb\x1b[31m";
  for (const char* const flag : {"--model", "--model-arg", "--dataset", "--data-arg", "--lr",
                                 "--resume", "--device", "--profile-schedule", "--skew"}) {
    const std::string text = Refusal({flag, said}).text;
    EXPECT_NE(text.find("a\\nb\\x1b[31m"), std::string::npos) << text;
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
    EXPECT_EQ(std::ranges::count(text, '\n'), 2) << text;  // The other says what to read.
  }
  EXPECT_EQ(Refusal({said}).text.find("argument 'a\nb"), std::string::npos);
}

TEST(Config, SkewIsRanksAndMilliseconds) {
  EXPECT_TRUE(ParseSkews("")->empty());
  for (const char* text : {"1", "1:", ":5", "1:-5", "1:5,", "1:5s", "a:5", "-1:5", "1:3600001"}) {
    EXPECT_FALSE(ParseSkews(text)) << text;
    ExpectRefused({"--skew", text}, {"--skew must"});
  }
}

TEST(Config, FlagsThatNeedValidationSaySo) {
  ExpectRefused(
      {"--keep-best", "--early-stop=2", "--init-strict=perhaps", "--profile-schedule=1,1",
       "--validation-samples=-1", "--memory-snapshots=1"},
      {"--keep-best needs", "--early-stop needs", "--init-strict must", "--profile-schedule must",
       "--validation-samples must", "--memory-snapshots must"});
}

}  // namespace
}  // namespace ddprun
