// The two directions of a message: FieldWriter fills a protobuf message from a value, FieldReader a
// value from a message, and checks it. What a message has is written once, for both
// (wire_messages.h):
//
//   template <class Io>
//   void Fields(const Io& io, typename Io::template Of<Stop>& stop) {
//     io.Possible("generation", stop.generation);
//     ...
//
// A field has its name in the .proto file; a duration's is followed by _ms there. Text for people
// is `bytes`, and cut when written; `string` is a name. A bound counts for reading. A later bound
// may be an earlier field: they are read in this order.
//
// Columns of numbers are converted by hand.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "common/check.h"
#include "proto/rendezvous.pb.h"
#include "rendezvous/core/status.h"
#include "rendezvous/messages/fields.h"
#include "rendezvous/messages/run_event.h"
#include "rendezvous/wire/wire_enums.h"
#include "rendezvous/wire/wire_reader.h"

namespace ddprun {

using WireMessage = google::protobuf::Message;
using WireField = google::protobuf::FieldDescriptor;

// Finds a message's fields by the names of their values; a duration's field has _ms after it. Names
// are literals, and come in the same order each time: so the next field is known by its name's
// address. A look-up by text would cost more than all the rest of a conversion.
class FieldFinder {
 public:
  explicit FieldFinder(const WireMessage& wire) : of_(wire.GetDescriptor()), known_(KnownOf(of_)) {}

  const WireField* operator()(const char* name) {
    for (std::size_t tried = 0; tried < known_.size(); ++tried, ++next_) {
      next_ = next_ < known_.size() ? next_ : 0;
      if (known_[next_].first == name) {
        return known_[next_].second;
      }
    }
    const WireField* field = of_->FindFieldByName(name);
    field = field != nullptr ? field : of_->FindFieldByName(std::string(name) + "_ms");
    CHECK(field != nullptr);
    known_.emplace_back(name, field);
    return field;
  }

 private:
  using Known = std::vector<std::pair<const char*, const WireField*>>;
  static Known& KnownOf(const google::protobuf::Descriptor* of) {
    thread_local std::unordered_map<const google::protobuf::Descriptor*, Known> all;
    return all[of];
  }

  const google::protobuf::Descriptor* const of_;
  Known& known_;
  std::size_t next_ = 0;
};

// The part of a text that is kept where it is too long. The end says more only of a worker's
// output, and of a traceback.
enum class Keep { kHead, kTail };

class FieldWriter {
 public:
  static constexpr bool kReads = false;
  template <class T>
  using Of = const T;

  explicit FieldWriter(WireMessage* wire)
      : wire_(*wire), to_(*wire->GetReflection()), find_(*wire) {}

  template <class Wire>
  Wire& As() const {
    return static_cast<Wire&>(wire_);
  }

  // ---- One value ----
  void operator()(const char* name, std::uint32_t value) const {
    to_.SetUInt32(&wire_, Field(name), value);
  }
  void operator()(const char* name, std::uint64_t value) const {
    to_.SetUInt64(&wire_, Field(name), value);
  }
  void operator()(const char* name, std::int64_t value) const {
    to_.SetInt64(&wire_, Field(name), value);
  }
  void operator()(const char* name, double value) const {
    to_.SetDouble(&wire_, Field(name), value);
  }
  void operator()(const char* name, bool value) const { to_.SetBool(&wire_, Field(name), value); }
  void operator()(const char* name, int exit_code) const {
    (*this)(name, static_cast<std::uint32_t>(exit_code));
  }
  void operator()(const char* name, UnixTime value) const { (*this)(name, value.ms); }
  void operator()(const char* name, const std::string& value) const {
    const bool text = Field(name)->type() == WireField::TYPE_BYTES;
    to_.SetString(&wire_, Field(name), text ? value.substr(0, kMaxTextBytes) : value);
  }
  template <class Tag>
  void operator()(const char* name, ddprun::Number<Tag> value) const {
    (*this)(name, value.value);
  }
  void operator()(const char* name, Duration value, Duration /*most*/ = {}) const {
    (*this)(name, std::int64_t{value.count()});
  }
  template <class T>
  void operator()(const char* name, const std::optional<T>& value) const {
    if (value) {
      (*this)(name, *value);
    }
  }

  template <class T>
  void Number(const char* name, const T& value, std::uint64_t, std::uint64_t) const {
    using Wire = std::conditional_t<sizeof(T) <= sizeof(std::uint32_t), std::uint32_t, T>;
    (*this)(name, static_cast<Wire>(value));
  }
  template <class T>
  void Number(const char* name, const std::optional<T>& value, std::uint64_t least,
              std::uint64_t most) const {
    if (value) {
      Number(name, *value, least, most);
    }
  }
  template <class Tag>
  void Possible(const char* name, ddprun::Number<Tag> value) const {
    (*this)(name, value);
  }
  template <class Value, class Table>
  void Enum(const char* name, Value value, const Table& names) const {
    const auto found = std::ranges::find(names, value, &Table::value_type::first);
    CHECK(found != names.end());
    to_.SetEnumValue(&wire_, Field(name), found->second);
  }
  void Name(const char* name, const std::string& value, std::size_t /*most*/ = 0) const {
    (*this)(name, value);
  }
  void Addresses(const char* name, const std::string& value, std::size_t) const {
    (*this)(name, value);
  }
  void Text(const char* name, const std::string& value, std::size_t most,
            Keep keep = Keep::kHead) const {
    const std::size_t from = keep == Keep::kHead ? 0 : value.size() - std::min(value.size(), most);
    to_.SetString(&wire_, Field(name), value.substr(from, most));
  }

  // ---- Parts and lists ----
  template <class T, class... More>
  void Message(const char* name, const T& value, const char* /*of*/ = "", More... more) const {
    const FieldWriter io(to_.MutableMessage(&wire_, Field(name)));
    Fields(io, value, more...);
  }
  template <class T>
  void Message(const char* name, const std::optional<T>& value, const char* of = "") const {
    if (value) {
      Message(name, *value, of);
    }
  }
  template <class T, class... All>
  bool Choice(const char* name, const std::variant<All...>& value) const {
    const T* const chosen = std::get_if<T>(&value);
    if (chosen != nullptr) {
      Message(name, *chosen);
    }
    return chosen != nullptr;
  }
  template <class T>
  void List(const char* name, const std::vector<T>& values, std::size_t most,
            const char* /*of*/) const {
    for (std::size_t i = 0; i < std::min(values.size(), most); ++i) {
      const FieldWriter io(to_.AddMessage(&wire_, Field(name)));
      Fields(io, values[i]);
    }
  }
  void Texts(const char* name, const std::vector<std::string>& values, std::size_t most,
             std::size_t most_bytes) const {
    for (std::size_t i = 0; i < std::min(values.size(), most); ++i) {
      to_.AddString(&wire_, Field(name), values[i].substr(0, most_bytes));
    }
  }
  void Names(const char* name, const std::vector<std::string>& values, std::size_t most,
             std::size_t /*most_bytes*/ = 0) const {
    Texts(name, values, most, std::string::npos);
  }
  template <class Table, class Value>
  void Rows(const Table& table, const Value& value) const {
    ForEach(table, [&](const auto& row) { (*this)(row.name, value.*row.member); });
  }

  void Check(bool /*good*/, const char* /*field*/, const char* /*why*/) const {}
  bool Has(const char* /*name*/) const { return true; }

 private:
  const WireField* Field(const char* name) const { return find_(name); }

  WireMessage& wire_;
  const google::protobuf::Reflection& to_;
  mutable FieldFinder find_;
};

class FieldReader {
 public:
  static constexpr bool kReads = true;
  template <class T>
  using Of = T;

  // `of`: what errors call this message.
  FieldReader(const WireMessage& wire, Reader& in, std::string_view of = "")
      : wire_(wire), from_(*wire.GetReflection()), find_(wire), in_(in), outer_(in.Enter(of)) {}
  ~FieldReader() { in_.Enter(outer_); }
  FieldReader(const FieldReader&) = delete;
  FieldReader& operator=(const FieldReader&) = delete;

  template <class Wire>
  const Wire& As() const {
    return static_cast<const Wire&>(wire_);
  }

  // ---- One value ----
  void operator()(const char* name, std::uint32_t& value) const {
    value = from_.GetUInt32(wire_, Field(name));
  }
  void operator()(const char* name, std::uint64_t& value) const {
    value = from_.GetUInt64(wire_, Field(name));
  }
  void operator()(const char* name, bool& value) const {
    value = from_.GetBool(wire_, Field(name));
  }
  void operator()(const char* name, double& value) const {
    value = from_.GetDouble(wire_, Field(name));
    Check(std::isfinite(value), name, "is no number");
  }
  void operator()(const char* name, int& exit_code) const { Number(name, exit_code, 0, 255); }
  void operator()(const char* name, std::int64_t& unix) const {
    Number(name, unix, 0, kMaxUnixMs / 1000);
  }
  void operator()(const char* name, UnixTime& value) const {
    Number(name, value.ms, 0, kMaxUnixMs);
  }
  void operator()(const char* name, std::string& value) const {
    const WireField* const field = Field(name);
    value = from_.GetString(wire_, field);
    if (field->type() == WireField::TYPE_BYTES) {
      in_.Text(name, value, kMaxTextBytes);
    } else {
      in_.OptionalName(name, value);
    }
  }
  template <class Tag>
  void operator()(const char* name, ddprun::Number<Tag>& value) const {
    (*this)(name, value.value);
  }
  void operator()(const char* name, Term& value) const { Number(name, value.value, 0, kMaxCount); }
  void operator()(const char* name, Generation& value) const {
    Number(name, value.value, 0, kMaxCount);
  }
  void operator()(const char* name, Duration& value, Duration most = kMaxDuration) const {
    value = Duration(
        in_.Number<std::int64_t>(name, from_.GetInt64(wire_, Field(name)), 0, most.count()));
  }
  template <class T>
  void operator()(const char* name, std::optional<T>& value) const {
    if (Has(name)) {
      (*this)(name, value.emplace());
    }
  }

  template <class T>
  void Number(const char* name, T& value, std::uint64_t least, std::uint64_t most) const {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      value = in_.Number<std::int64_t>(name, from_.GetInt64(wire_, Field(name)),
                                       static_cast<std::int64_t>(least),
                                       static_cast<std::int64_t>(most));
    } else if constexpr (std::is_same_v<T, std::uint64_t>) {
      value = in_.Number<std::uint64_t>(name, from_.GetUInt64(wire_, Field(name)), least, most);
    } else {
      value = static_cast<T>(
          in_.Number<std::uint64_t>(name, from_.GetUInt32(wire_, Field(name)), least, most));
    }
  }
  template <class T>
  void Number(const char* name, std::optional<T>& value, std::uint64_t least,
              std::uint64_t most) const {
    if (Has(name)) {
      Number(name, value.emplace(), least, most);
    }
  }
  // By this machine's clock.
  void Possible(const char* name, Term& value) const {
    value = in_.Term(name, from_.GetUInt64(wire_, Field(name)));
  }
  void Possible(const char* name, Generation& value) const {
    value = in_.Generation(name, from_.GetUInt64(wire_, Field(name)));
  }
  template <class Value, class Table>
  void Enum(const char* name, Value& value, const Table& names) const {
    const int number = from_.GetEnumValue(wire_, Field(name));
    const auto found = std::ranges::find(names, number, &Table::value_type::second);
    if (found == names.end()) {
      in_.Refuse(name, "has the unknown value " + std::to_string(number));
    } else {
      value = found->first;
    }
  }
  void Name(const char* name, std::string& value, std::size_t most = kMaxNameBytes) const {
    value = in_.Text(name, in_.Name(name, from_.GetString(wire_, Field(name))), most);
  }
  void Addresses(const char* name, std::string& value, std::size_t most) const {
    value = in_.Addresses(name, from_.GetString(wire_, Field(name)), most);
  }
  void Text(const char* name, std::string& value, std::size_t most, Keep = Keep::kHead) const {
    value = in_.Text(name, from_.GetString(wire_, Field(name)), most);
  }

  // ---- Parts and lists ----
  // `of`: what errors call the part.
  template <class T, class... More>
  void Message(const char* name, T& value, const char* of = "", More... more) const {
    const FieldReader io(from_.GetMessage(wire_, Field(name)), in_, *of == '\0' ? name : of);
    Fields(io, value, more...);
  }
  template <class T>
  void Message(const char* name, std::optional<T>& value, const char* of = "") const {
    if (Has(name)) {
      Message(name, value.emplace(), of);
    }
  }
  // True: the variant's value is this one.
  template <class T, class... All>
  bool Choice(const char* name, std::variant<All...>& value) const {
    const bool chosen = Has(name);
    if (chosen) {
      Message(name, value.template emplace<T>());
    }
    return chosen;
  }
  template <class T>
  void List(const char* name, std::vector<T>& values, std::size_t most, const char* of) const {
    const int count = Count(name, most);
    for (int i = 0; i < count; ++i) {
      const FieldReader io(from_.GetRepeatedMessage(wire_, Field(name), i), in_, of);
      Fields(io, values.emplace_back());
    }
  }
  void Texts(const char* name, std::vector<std::string>& values, std::size_t most,
             std::size_t most_bytes) const {
    const int count = Count(name, most);
    for (int i = 0; i < count; ++i) {
      values.push_back(in_.Text(name, from_.GetRepeatedString(wire_, Field(name), i), most_bytes));
    }
  }
  void Names(const char* name, std::vector<std::string>& values, std::size_t most,
             std::size_t most_bytes = kMaxNameBytes) const {
    Texts(name, values, most, most_bytes);
    for (const std::string& value : values) {
      in_.Name(name, value);
    }
  }
  // Rows with `name` and `member`; also whether what must not be empty is not.
  template <class Table, class Value>
  void Rows(const Table& table, Value& value) const {
    ForEach(table, [&](const auto& row) {
      (*this)(row.name, value.*row.member);
      if constexpr (requires { row.empty; }) {
        const bool empty = value.*row.member == std::decay_t<decltype(value.*row.member)>{};
        Check(row.empty == Empty::kMay || !empty, row.name, "is empty");
      }
    });
  }

  void Check(bool good, const char* field, const char* why) const {
    if (!good) {
      in_.Refuse(field, why);
    }
  }
  bool Has(const char* name) const { return from_.HasField(wire_, Field(name)); }

 private:
  const WireField* Field(const char* name) const { return find_(name); }
  // 0: too many.
  int Count(const char* name, std::size_t most) const {
    const int count = from_.FieldSize(wire_, Field(name));
    if (count <= static_cast<int>(most)) {
      return count;
    }
    in_.Refuse(name, "has more than " + std::to_string(most) + " entries");
    return 0;
  }

  const WireMessage& wire_;
  const google::protobuf::Reflection& from_;
  mutable FieldFinder find_;
  Reader& in_;
  const std::string_view outer_;
};

template <class Value>
void WriteFields(const Value& value, WireMessage* wire) {
  const FieldWriter io(wire);
  Fields(io, value);
}

template <class Value>
Result<Value> ReadFields(const WireMessage& wire, Reader& in, std::string_view of = "") {
  Value value;
  {
    const FieldReader io(wire, in, of);
    Fields(io, value);
  }
  return in.Taken(std::move(value));
}

}  // namespace ddprun
