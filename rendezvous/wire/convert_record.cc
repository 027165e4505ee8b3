#include "common/overload.h"
#include "rendezvous/journal_file.h"
#include "rendezvous/wire/wire_parts.h"

namespace ddprun {
namespace {

void Write(const World& world, v1::WorldRecord* wire) {
  wire->set_term(world.term.value);
  wire->set_generation(world.generation.value);
  wire->set_world_id(world.id.value);
  Write(world.store, wire->mutable_store());
  for (const Member& member : world.members) {
    v1::MemberRecord* const record = wire->add_members();
    record->set_node(member.key.node);
    record->set_incarnation(member.key.incarnation.value);
    record->set_workers(member.workers);
    record->set_first_rank(member.first_rank);
    record->set_role(member.role);
    record->set_role_first_rank(member.role_first_rank);
    record->set_role_size(member.role_size);
  }
}

void Write(const RunRecord& record, v1::RunRecord* wire) {
  wire->set_run_id(record.run_id);
  if (record.shape) {
    Write(*record.shape, wire->mutable_shape());
  }
  wire->set_reserved(record.reserved.value);
  wire->set_restarts_used(record.restarts_used);
  if (record.world) {
    Write(*record.world, wire->mutable_world());
  }
  if (record.outcome) {
    Write(*record.outcome, wire->mutable_outcome());
  }
}

World Read(const v1::WorldRecord& wire, Reader& in) {
  World world;
  world.term = in.Term("world.term", wire.term());
  world.generation = in.Generation("world.generation", wire.generation());
  world.id.value = wire.world_id();
  world.store = Read(wire.store(), in);
  in.Number<int>("world.members", wire.members_size(), 1, static_cast<int>(kMaxNodes));
  for (const v1::MemberRecord& record : wire.members()) {
    Member member;
    member.key = {in.Name("member.node", record.node()), {record.incarnation()}};
    member.workers = in.Number<std::uint32_t>("member.workers", record.workers(), 0, kMaxWorld);
    member.first_rank =
        in.Number<std::uint32_t>("member.first_rank", record.first_rank(), world.size, world.size);
    member.role = in.OptionalName("member.role", record.role());
    member.role_first_rank = record.role_first_rank();
    member.role_size = record.role_size();
    world.size += member.workers;
    world.places[member.key] = world.members.size();
    world.members.push_back(std::move(member));
  }
  return world;
}

RunRecord Read(const v1::RunRecord& wire, Reader& in) {
  RunRecord record;
  record.run_id = in.Name("run_id", wire.run_id());
  if (!wire.has_shape()) {
    in.Refuse("shape", "is missing");
    return record;
  }
  record.shape = Read(wire.shape(), in);
  record.reserved = in.Generation("reserved", wire.reserved());
  record.restarts_used = wire.restarts_used();
  if (wire.has_world()) {
    record.world = Read(wire.world(), in);
  }
  if (wire.has_outcome()) {
    record.outcome = Read(wire.outcome(), in);
  }
  return record;
}

}  // namespace

EndedRun Read(const v1::EndedRun& wire, Reader& in) {
  return {in.Name("ended.run_id", wire.run_id()), in.Generation("ended.newest", wire.newest()),
          Read(wire.outcome(), in)};
}

void Write(const EndedRun& run, v1::EndedRun* wire) {
  wire->set_run_id(run.run_id);
  wire->set_newest(run.newest.value);
  Write(run.outcome, wire->mutable_outcome());
}

std::string Encode(const JournalEntry& entry) {
  v1::JournalEntry wire;
  std::visit(Overload{[&](const Reign& reign) { wire.set_reign(reign.term.value); },
                      [&](const RunRecord& record) { Write(record, wire.mutable_run()); },
                      [&](const EndedRun& run) { Write(run, wire.mutable_ended()); },
                      [&](const Forgotten& forgotten) { wire.set_forgotten(forgotten.run_id); }},
             entry);
  return wire.SerializeAsString();
}

Result<JournalEntry> DecodeEntry(const std::string& bytes) {
  v1::JournalEntry wire;
  if (!wire.ParseFromString(bytes)) {
    return Error{ErrorKind::kInvalid, "is no record of this program's"};
  }
  Reader in(kServersAhead);
  JournalEntry entry;
  switch (wire.kind_case()) {
    case v1::JournalEntry::kReign:
      entry = Reign{in.Term("reign", wire.reign())};
      break;
    case v1::JournalEntry::kRun:
      entry = Read(wire.run(), in);
      break;
    case v1::JournalEntry::kEnded:
      entry = Read(wire.ended(), in);
      break;
    case v1::JournalEntry::kForgotten:
      entry = Forgotten{in.Name("forgotten", wire.forgotten())};
      break;
    case v1::JournalEntry::KIND_NOT_SET:
      in.Refuse("kind", "is unknown");
      break;
  }
  if (!in.ok()) {
    return in.error();
  }
  return entry;
}

}  // namespace ddprun
