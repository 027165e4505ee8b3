#include "trainer/checkpoint/memory_start.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <tuple>

#include "trainer/checkpoint/digest.h"

namespace ddprun {
namespace {

// On the disk, and known there as the best.
bool HasItsBest(const BlockFacts& facts, const DiskHead& disk) {
  const std::optional<MadeBy> made = disk.best ? WhoMade(*disk.best) : std::nullopt;
  return !facts.best || (made && made->step == *facts.best);
}

bool IsAncestor(const CheckpointRef& head, const TrainState& state) {
  const std::optional<MadeBy> made = WhoMade(head);
  return made && made->world == state.world_id && made->step <= state.step;
}

}  // namespace

std::optional<MadeBy> WhoMade(const CheckpointRef& ref) {
  if (!IsCheckpointName(ref.directory)) {
    return std::nullopt;
  }
  const std::string_view name = ref.directory;
  const std::size_t first = name.find('-') + 1;
  const std::size_t dash = name.find('-', first);
  MadeBy made;
  std::from_chars(name.data() + first, name.data() + dash, made.step);
  made.world.value = ParseHex(name.substr(dash + 1, 16)).value_or(0);
  return made;
}

bool OwesBest(const BlockHeading& heading, const DiskHead& disk) {
  return heading.facts.best == heading.state.step && !HasItsBest(heading.facts, disk);
}

std::optional<std::string> WhyNotFromMemory(const BlockHeading& heading, const Writer& writer,
                                            const DiskHead& disk) {
  const TrainState& state = heading.state;
  if (state.run_id != writer.run_id) {
    return "it is of another run";
  }
  if (std::tuple(state.term, state.generation) >= std::tuple(writer.term, writer.generation)) {
    return "it is of no earlier world";
  }
  const bool at_base = disk.head ? heading.facts.base == disk.head->digest : !heading.facts.base;
  if (!at_base && !(disk.head && IsAncestor(*disk.head, state))) {
    return "the checkpoints have gone on without it";
  }
  if (!HasItsBest(heading.facts, disk) && !OwesBest(heading, disk)) {
    return "the best state since is not saved";
  }
  return std::nullopt;
}

// A double holds 53 bits, so that a digest goes as two halves.
void PutFacts(const BlockFacts& facts, std::span<double, kFactNumbers> numbers) {
  numbers[0] = facts.base ? static_cast<double>(*facts.base >> 32) : -1;
  numbers[1] = static_cast<double>(facts.base.value_or(0) & 0xffffffff);
  numbers[2] = facts.handed_over ? static_cast<double>(*facts.handed_over) : -1;
  numbers[3] = static_cast<double>(facts.unsaved_ms);
}

BlockFacts FactsIn(std::span<const double, kFactNumbers> numbers) {
  const auto whole = [&](std::size_t at) { return static_cast<std::uint64_t>(numbers[at]); };
  BlockFacts facts{.unsaved_ms = whole(3)};
  if (numbers[0] >= 0) {
    facts.base = whole(0) << 32 | whole(1);
  }
  if (numbers[2] >= 0) {
    facts.handed_over = whole(2);
  }
  return facts;
}

// Exact too: a term, a generation and a step are smaller.
void PutAge(const TrainState& state, std::span<double, kAgeNumbers> numbers) {
  numbers[0] = 1;
  numbers[1] = static_cast<double>(state.term.value);
  numbers[2] = static_cast<double>(state.generation.value);
  numbers[3] = static_cast<double>(state.step);
}

std::optional<NewestState> NewestOf(std::span<const double> numbers) {
  std::span<const double> best;
  NewestState newest;
  for (std::size_t at = 0; at < numbers.size(); at += kAgeNumbers) {
    const std::span<const double> age = numbers.subspan(at, kAgeNumbers);
    if (age[0] != 1 || std::ranges::lexicographical_compare(age, best)) {
      continue;
    }
    if (!std::ranges::equal(age, best)) {
      best = age;
      newest = {.holder = static_cast<std::uint32_t>(at / kAgeNumbers)};
    }
    ++newest.copies;
  }
  return best.empty() ? std::nullopt : std::optional(newest);
}

}  // namespace ddprun
