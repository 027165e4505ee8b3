// A node seen from near, in what nodes report and in what a run looks like from outside.
#include <cmath>

#include "rendezvous/wire/wire_parts.h"

namespace ddprun {
namespace {

constexpr std::size_t kLongestPhase = 64;  // As proto/notify.h takes it.

template <class T>
std::uint32_t InWord(T value) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(value, 0, UINT32_MAX));
}

std::optional<double> ReadReal(std::string_view field, bool has, double value, Reader& in) {
  if (has && !std::isfinite(value)) {
    in.Refuse(field, "is no number");
  }
  return has ? std::optional(value) : std::nullopt;
}

}  // namespace

TrainingPoint Read(const v1::TrainingPoint& wire, Reader& in) {
  TrainingPoint point;
  point.step = wire.step();
  point.loss = ReadReal("training.loss", wire.has_loss(), wire.loss(), in);
  point.samples_per_s =
      ReadReal("training.samples_per_s", wire.has_samples_per_s(), wire.samples_per_s(), in);
  if (wire.has_checkpoint()) {
    point.checkpoint = wire.checkpoint();
  }
  return point;
}

RankDetails Read(const v1::RankDetails& wire, std::uint32_t workers, Reader& in) {
  RankDetails details;
  const int ranks = wire.state_size();
  if (ranks > static_cast<int>(workers) || wire.step_size() != ranks ||
      wire.since_ms_size() != ranks || wire.step_time_us_size() != ranks ||
      wire.phase_size() != ranks || wire.work_us_size() != ranks) {
    in.Refuse("rank_details", "has columns that do not fit");
    return details;
  }
  if (wire.phases_size() > static_cast<int>(kMostPhases)) {
    in.Refuse("rank_details.phases", "are too many");
    return details;
  }
  for (const std::string& phase : wire.phases()) {
    details.phases.push_back(
        in.Text("rank_details.phases", in.Name("rank_details.phases", phase), kLongestPhase));
  }
  details.ranks.resize(static_cast<std::size_t>(ranks));
  for (int i = 0; i < ranks; ++i) {
    RankDetail& rank = details.ranks[static_cast<std::size_t>(i)];
    rank.state = static_cast<RankState>(in.Number<std::uint32_t>(
        "rank_details.state", wire.state(i), 0, static_cast<std::uint32_t>(RankState::kEnded)));
    rank.step = wire.step(i);
    rank.since = Duration(wire.since_ms(i));
    rank.step_time = std::chrono::microseconds(wire.step_time_us(i));
    rank.phase = in.Number<std::uint32_t>("rank_details.phase", wire.phase(i), 0,
                                          static_cast<std::uint32_t>(details.phases.size()));
    rank.work = std::chrono::microseconds(wire.work_us(i));
  }
  if (wire.has_training()) {
    details.training = Read(wire.training(), in);
  }
  details.steps = wire.steps();
  return details;
}

void Write(const TrainingPoint& point, v1::TrainingPoint* wire) {
  wire->set_step(point.step);
  if (point.loss) {
    wire->set_loss(*point.loss);
  }
  if (point.samples_per_s) {
    wire->set_samples_per_s(*point.samples_per_s);
  }
  if (point.checkpoint) {
    wire->set_checkpoint(*point.checkpoint);
  }
}

void Write(const RankDetails& details, v1::RankDetails* wire) {
  for (const RankDetail& rank : details.ranks) {
    wire->add_state(static_cast<std::uint32_t>(rank.state));
    wire->add_step(rank.step);
    wire->add_since_ms(InWord(rank.since.count()));
    wire->add_step_time_us(InWord(rank.step_time.count()));
    wire->add_phase(rank.phase);
    wire->add_work_us(InWord(rank.work.count()));
  }
  for (const std::string& phase : details.phases) {
    wire->add_phases(phase);
  }
  if (details.training) {
    Write(*details.training, wire->mutable_training());
  }
  wire->set_steps(details.steps);
}

HostFacts ReadFacts(const google::protobuf::RepeatedPtrField<v1::HostFact>& wire, Reader& in) {
  HostFacts facts;
  if (wire.size() > static_cast<int>(kMaxFacts)) {
    in.Refuse("facts", "has more than " + std::to_string(kMaxFacts) + " entries");
    return facts;
  }
  for (const v1::HostFact& fact : wire) {
    facts.push_back({in.Text("fact.name", in.Name("fact.name", fact.name()), kMaxFactName),
                     in.Text("fact.value", fact.value(), kMaxFactValue), fact.bad()});
  }
  return facts;
}

void WriteFacts(const HostFacts& facts, google::protobuf::RepeatedPtrField<v1::HostFact>* wire) {
  for (std::size_t i = 0; i < std::min(facts.size(), kMaxFacts); ++i) {
    v1::HostFact* const to = wire->Add();
    to->set_name(facts[i].name);
    to->set_value(facts[i].value);
    to->set_bad(facts[i].bad);
  }
}

}  // namespace ddprun
