// A run's events, in what nodes and servers say and in what a run looks like from outside.
#include "rendezvous/wire/wire_fields.h"
#include "rendezvous/wire/wire_parts.h"

namespace ddprun {

RunEvent Read(const v1::RunEvent& wire, Reader& in) {
  RunEvent event;
  ReadStatusFields(kRunEventFields, "events.", wire, in, event);
  event.level = in.Enum("events.level", kNoticeLevel, wire.level());
  return event;
}

EventMark ReadMark(std::string_view field, const v1::EventMark& wire, Reader& in) {
  return {in.Term(field, wire.term()), in.Count(field, wire.number())};
}

std::vector<RunEvent> ReadEvents(const google::protobuf::RepeatedPtrField<v1::RunEvent>& wire,
                                 std::size_t most, Reader& in) {
  std::vector<RunEvent> events;
  if (wire.size() > static_cast<int>(most)) {
    in.Refuse("events", "are too many");
    return events;
  }
  for (const v1::RunEvent& event : wire) {
    events.push_back(Read(event, in));
  }
  return events;
}

void Write(const RunEvent& event, v1::RunEvent* wire) {
  WriteFields(kRunEventFields, event, wire);
  const auto level =
      std::ranges::find(kNoticeLevel, event.level, &std::pair<NoticeLevel, v1::NoticeLevel>::first);
  wire->set_level(level->second);
}

void Write(const EventMark& mark, v1::EventMark* wire) {
  wire->set_term(mark.term.value);
  wire->set_number(mark.number);
}

}  // namespace ddprun
