// Decides whether all ranks of a world were started with the same training: what each was given, as
// text, compared through the generation's store before the ranks do anything else together; and
// with the same data, which is compared once it is loaded.
//
// Compared is what must be equal for the steps to be one training's: what decides parameters,
// samples, gradients and which collectives follow each other. Not what a rank does by itself
// (threads, paths of data, prefetching) nor what rank 0 alone decides (checkpoints, early stopping,
// metrics).
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "common/result.h"
#include "trainer/group/shared_join.h"
#include "trainer/options/config.h"

namespace ddprun {

// The name of a setting, as a user knows it ("--lr"), and its value.
using SharedSettings = std::map<std::string, std::string>;

// A setting that checkpoints keep: its name there, and to a user.
struct Hyperparameter {
  const char* name;
  const char* words;
  bool fixed;  // Another value makes another training of it.
};
inline constexpr Hyperparameter kHyperparameters[] = {
    {"limit_train", "--limit-train", true},
    {"validation_samples", "--validation-samples", true},
    {"optimizer", "--optimizer", true},
    {"loss", "--loss", true},
    {"no_sync", "--no-sync", true},
    {"model_arguments", "--model-arg", true},
    {"data_arguments", "--data-arg", true},
    {"program_flags", "the value of the program's flags", true},
    {"frozen", "frozen parameters (--freeze, set_requires_grad)", true},
    {"lr", "--lr", false},
    {"scale_lr", "--scale-lr", false},
    {"weight_decay", "--weight-decay", false},
    {"momentum", "--momentum", false},
    {"nesterov", "--nesterov", false},
    {"micro_batch", "--micro-batch", false},
    {"drop_last", "--drop-last", false},
    {"schedule", "--schedule", false},
    {"warmup_steps", "--warmup-steps", false},
    {"decay_every", "--decay-every", false},
    {"decay_factor", "--decay-factor", false},
    {"clip_norm", "--clip-norm", false},
    {"autocast", "--autocast", false},
    {"compress", "--compress", false}};

// Without what a program decides in its code.
std::map<std::string, std::string> HyperparametersOf(const TrainConfig& config);

SharedSettings SharedSettingsOf(const TrainConfig& config);

// "--lr is 0.5 on rank 1, 0.01 on rank 0". Empty: they are equal.
std::string Difference(const SharedSettings& first, const SharedSettings& mine, std::size_t rank);

// By all ranks, once per board. kRefused on all of them where one was given others than rank 0: to
// start again would not help.
Result<void> AgreeOnSettings(Board& board, const SharedSettings& settings, std::size_t rank,
                             std::size_t size);

// The same of the data that each rank has loaded: training and test samples of rank 0, of rank 1
// and so on, which each rank knows by now.
Result<void> AgreeOnSamples(std::span<const double> counts);

}  // namespace ddprun
