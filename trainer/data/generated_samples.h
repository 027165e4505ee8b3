// Functions that generated data sets share. Values, and the shortest way to such a data set.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/arguments.h"
#include "trainer/data/dataset.h"
#include "trainer/random.h"

namespace ddprun {

inline constexpr double kMostGenerated = 1 << 30;  // Samples that are never in memory.
inline constexpr double kMostSeed = 1 << 30;
inline constexpr ArgumentEntry kGeneratedArguments[] = {{"train", 5000, 1, kMostGenerated},
                                                        {"test", 1000, 1, kMostGenerated},
                                                        {"seed", 1, 0, kMostSeed}};

// The purpose of a drawn number: parts of one data set never share numbers.
inline std::uint64_t GeneratedKey(const Arguments& arguments, std::uint64_t part) {
  return Mix(Mix(static_cast<std::uint64_t>(arguments.Whole("seed"))) ^ part);
}

// The data set of an entry whose arguments have `train`, `test` and `seed`. `draw` writes one
// sample, a function of the random number that it is given, to where the room begins.
template <class Draw>
Dataset MakeUp(const Task& task, const Arguments& arguments, Draw draw) {
  const auto samples = [&](const char* count, std::uint64_t part) {
    return Samples{static_cast<std::uint32_t>(arguments.Whole(count)),
                   [task, draw, key = GeneratedKey(arguments, part)](
                       std::span<const std::uint32_t> indices, const std::optional<AugmentKey>&,
                       const BatchRoom& room) -> Result<void> {
                     BatchRoom place = room;
                     for (const std::uint32_t index : indices) {
                       draw(Mix(key ^ index), place);
                       for (std::size_t i = 0; i < task.inputs.size(); ++i) {
                         place.inputs[i] += NumbersIn(task.inputs[i]);
                       }
                       if (task.classifies()) {
                         ++place.labels;
                       } else {
                         place.targets += NumbersIn(task.target);
                       }
                     }
                     return {};
                   }};
  };
  return Dataset{task, samples("train", 0), samples("test", 1)};
}

}  // namespace ddprun
