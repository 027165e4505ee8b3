// One field of a message by its name, for tables of fields; for convert_*.cc only.
//
// A duration's name is followed by _ms. A type's values are checked as everywhere: text for people
// is `bytes`, and cut when written; `string` is a name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/check.h"
#include "proto/rendezvous.pb.h"
#include "rendezvous/messages/run_event.h"
#include "rendezvous/wire/wire_parts.h"

namespace ddprun {

using WireMessage = google::protobuf::Message;
using WireField = google::protobuf::FieldDescriptor;

inline const WireField* FieldOf(const WireMessage& wire, const std::string& name) {
  const WireField* const field = wire.GetDescriptor()->FindFieldByName(name);
  CHECK(field != nullptr);
  return field;
}

// ---- Written ----
inline void Write(const char* name, std::uint32_t value, WireMessage* wire) {
  wire->GetReflection()->SetUInt32(wire, FieldOf(*wire, name), value);
}
inline void Write(const char* name, std::uint64_t value, WireMessage* wire) {
  wire->GetReflection()->SetUInt64(wire, FieldOf(*wire, name), value);
}
inline void Write(const char* name, std::int64_t value, WireMessage* wire) {
  wire->GetReflection()->SetInt64(wire, FieldOf(*wire, name), value);
}
inline void Write(const char* name, UnixTime value, WireMessage* wire) {
  Write(name, value.ms, wire);
}
inline void Write(const char* name, bool value, WireMessage* wire) {
  wire->GetReflection()->SetBool(wire, FieldOf(*wire, name), value);
}
inline void Write(const char* name, int exit_code, WireMessage* wire) {
  Write(name, static_cast<std::uint32_t>(exit_code), wire);
}
inline void Write(const char* name, const std::string& value, WireMessage* wire) {
  const WireField* const field = FieldOf(*wire, name);
  const bool text = field->type() == WireField::TYPE_BYTES;
  wire->GetReflection()->SetString(wire, field, text ? value.substr(0, kMaxTextBytes) : value);
}
inline void Write(const char* name, Duration value, WireMessage* wire) {
  Write((std::string(name) + "_ms").c_str(), std::int64_t{value.count()}, wire);
}
inline void Write(const char* name, const std::optional<Duration>& value, WireMessage* wire) {
  if (value) {
    Write(name, *value, wire);
  }
}
template <class Tag>
void Write(const char* name, Number<Tag> value, WireMessage* wire) {
  Write(name, value.value, wire);
}

// ---- Read ----
// `path`: what messages call the field; `name` with what it is part of before it.
struct WireSource {
  const WireMessage& wire;
  const char* name;
  std::string path;

  const WireField* Field(const char* suffix = "") const {
    return FieldOf(wire, std::string(name) + suffix);
  }
  const google::protobuf::Reflection& operator*() const { return *wire.GetReflection(); }
};

inline void Read(const WireSource& from, Reader&, std::uint32_t& value) {
  value = (*from).GetUInt32(from.wire, from.Field());
}
inline void Read(const WireSource& from, Reader&, std::uint64_t& value) {
  value = (*from).GetUInt64(from.wire, from.Field());
}
inline void Read(const WireSource& from, Reader&, bool& value) {
  value = (*from).GetBool(from.wire, from.Field());
}
inline void Read(const WireSource& from, Reader& in, int& exit_code) {
  exit_code = static_cast<int>(
      in.Number<std::uint32_t>(from.path, (*from).GetUInt32(from.wire, from.Field()), 0, 255));
}
inline void Read(const WireSource& from, Reader& in, std::int64_t& unix) {
  unix = in.Number<std::int64_t>(from.path, (*from).GetInt64(from.wire, from.Field()), 0,
                                 kMaxUnixMs / 1000);
}
inline void Read(const WireSource& from, Reader& in, UnixTime& value) {
  value.ms =
      in.Number<std::int64_t>(from.path, (*from).GetInt64(from.wire, from.Field()), 0, kMaxUnixMs);
}
inline void Read(const WireSource& from, Reader& in, Duration& value) {
  value = in.Duration(from.path, (*from).GetInt64(from.wire, from.Field("_ms")));
}
inline void Read(const WireSource& from, Reader& in, std::optional<Duration>& value) {
  if ((*from).HasField(from.wire, from.Field("_ms"))) {
    Read(from, in, value.emplace());
  }
}
inline void Read(const WireSource& from, Reader& in, std::string& value) {
  const WireField* const field = from.Field();
  value = (*from).GetString(from.wire, field);
  if (field->type() == WireField::TYPE_BYTES) {
    in.Text(from.path, value, kMaxTextBytes);
  } else {
    in.OptionalName(from.path, value);
  }
}
inline void Read(const WireSource& from, Reader& in, Incarnation& value) {
  Read(from, in, value.value);
}
inline void Read(const WireSource& from, Reader& in, Term& value) {
  value.value = in.Count(from.path, (*from).GetUInt64(from.wire, from.Field()));
}
inline void Read(const WireSource& from, Reader& in, Generation& value) {
  value.value = in.Count(from.path, (*from).GetUInt64(from.wire, from.Field()));
}

// ---- Tables: rows with `name` and `member` ----
template <class Table, class Value>
void WriteFields(const Table& table, const Value& value, WireMessage* wire) {
  ForEach(table, [&](const auto& row) { Write(row.name, value.*row.member, wire); });
}

template <class Table, class Value>
void ReadFields(const Table& table, const std::string& path, const WireMessage& wire, Reader& in,
                Value& value) {
  ForEach(table, [&](const auto& row) {
    Read({wire, row.name, path + row.name}, in, value.*row.member);
  });
}

// Also whether what must not be empty is not.
template <class Table, class Status>
void ReadStatusFields(const Table& table, const std::string& path, const WireMessage& wire,
                      Reader& in, Status& status) {
  ReadFields(table, path, wire, in, status);
  ForEach(table, [&](const auto& row) {
    const auto& value = status.*row.member;
    if (row.empty == Empty::kNever && value == std::decay_t<decltype(value)>{}) {
      in.Refuse(path + row.name, "is empty");
    }
  });
}

}  // namespace ddprun
