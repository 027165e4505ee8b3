// The two directions of a message: FieldWriter fills a protobuf message from a value, FieldReader a
// value from a message, and checks it. What a message has is written once, for both
// (wire_messages.h):
//
//   template <class Io>
//   void Fields(const Io& io, Of<Io, Stop>& stop) {
//     io.Possible(FIELD(generation), stop.generation);
//     ...
//
// FIELD takes the name in the .proto file. A string is read as a name unless Text reads it; Text is
// for people, and is cut when written. A bound counts for reading. A later bound may be an earlier
// field: they are read in this order.
//
// Columns of numbers are converted by hand.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "common/check.h"
#include "proto/rendezvous.pb.h"
#include "rendezvous/core/status.h"
#include "rendezvous/messages/fields.h"
#include "rendezvous/messages/run_event.h"
#include "rendezvous/wire/wire_reader.h"

namespace ddprun {

// ---- One field ----
// A field of whichever message has one of this name, by the functions that protobuf generates for
// it. Reflection takes several times as long, and a report has a hundred fields.
#define FIELD(field)                                                           \
  ::ddprun::GeneratedField(                                                    \
      #field, [](const auto& wire) -> decltype(auto) { return wire.field(); }, \
      [](auto& wire, const auto& value) { wire.set_##field(value); },          \
      [](const auto& wire) { return wire.has_##field(); },                     \
      [](auto& wire) { return wire.mutable_##field(); })

template <class GetFn, class SetFn, class HasFn, class MutableFn>
class GeneratedField {
 public:
  constexpr GeneratedField(std::string_view field, GetFn, SetFn, HasFn, MutableFn) : name(field) {}

  template <class Wire>
  using Type = std::decay_t<std::invoke_result_t<GetFn, const Wire&>>;

  // A value has the type that the message has it as: no number is narrowed before its check.
  template <class T, class Wire>
  decltype(auto) Get(const Wire& wire) const {
    static_assert(kIs<T, Wire>);
    return GetFn{}(wire);
  }
  template <class T, class Wire>
  void Set(Wire& wire, const T& value) const {
    static_assert(kIs<T, Wire>);
    SetFn{}(wire, value);
  }
  bool Has(const auto& wire) const { return HasFn{}(wire); }
  // A message, a list or a text.
  const auto& Part(const auto& wire) const { return GetFn{}(wire); }
  auto& MutablePart(auto& wire) const { return *MutableFn{}(wire); }

  const std::string_view name;
  static constexpr bool is_text = false;

 private:
  template <class T, class Wire>
  static constexpr bool kIs = std::is_same_v<T, Type<Wire>>;
};

// A field that a table's row names: by reflection, since tables know no protobuf. A duration's name
// is followed by _ms there. `bytes` are text for people.
class RowField {
 public:
  RowField(const google::protobuf::Descriptor& wire, const char* row)
      : name(row), field_(wire.FindFieldByName(row)) {
    field_ = field_ != nullptr ? field_ : wire.FindFieldByName(std::string(row) + "_ms");
    CHECK(field_ != nullptr);
    is_text = field_->type() == google::protobuf::FieldDescriptor::TYPE_BYTES;
  }

  template <class T>
  T Get(const google::protobuf::Message& wire) const {
    const google::protobuf::Reflection& from = *wire.GetReflection();
    if constexpr (std::is_same_v<T, std::uint32_t>) {
      return from.GetUInt32(wire, field_);
    } else if constexpr (std::is_same_v<T, std::uint64_t>) {
      return from.GetUInt64(wire, field_);
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      return from.GetInt64(wire, field_);
    } else if constexpr (std::is_same_v<T, bool>) {
      return from.GetBool(wire, field_);
    } else {
      return from.GetString(wire, field_);
    }
  }
  template <class T>
  void Set(google::protobuf::Message& wire, const T& value) const {
    const google::protobuf::Reflection& to = *wire.GetReflection();
    if constexpr (std::is_same_v<T, std::uint32_t>) {
      to.SetUInt32(&wire, field_, value);
    } else if constexpr (std::is_same_v<T, std::uint64_t>) {
      to.SetUInt64(&wire, field_, value);
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      to.SetInt64(&wire, field_, value);
    } else if constexpr (std::is_same_v<T, bool>) {
      to.SetBool(&wire, field_, value);
    } else {
      to.SetString(&wire, field_, is_text ? value.substr(0, kMaxTextBytes) : value);
    }
  }
  bool Has(const google::protobuf::Message& wire) const {
    return wire.GetReflection()->HasField(wire, field_);
  }

  std::string_view name;
  bool is_text;

 private:
  const google::protobuf::FieldDescriptor* field_;
};

// Visits each row with its field of the message. The fields are looked up once, since a message has
// one table.
template <class Wire, class... Row, class Visit>
void ForEachField(const std::tuple<Row...>& table, const Visit& visit) {
  static const auto fields = std::apply(
      [](const Row&... row) { return std::array{RowField(*Wire::descriptor(), row.name)...}; },
      table);
  auto field = fields.begin();
  ForEach(table, [&](const auto& row) { visit(*field++, row); });
}

// The part of a text that is kept where it is too long. The end says more only of a worker's
// output, and of a traceback.
enum class Keep { kHead, kTail };

// ---- Writing ----
template <class Wire>
class FieldWriter {
 public:
  static constexpr bool kReads = false;
  template <class T>
  using Of = const T;

  explicit FieldWriter(Wire& wire) : wire_(wire) {}

  Wire& wire() const { return wire_; }

  // ---- One value ----
  template <class T>
  requires std::is_arithmetic_v<T>
  void operator()(const auto& field, T value) const { field.Set(wire_, value); }
  void operator()(const auto& field, int exit_code) const {
    field.Set(wire_, static_cast<std::uint32_t>(exit_code));
  }
  void operator()(const auto& field, UnixTime value) const { (*this)(field, value.ms); }
  void operator()(const auto& field, const std::string& value) const { field.Set(wire_, value); }
  template <class Tag>
  void operator()(const auto& field, ddprun::Number<Tag> value) const {
    (*this)(field, value.value);
  }
  void operator()(const auto& field, Duration value, Duration /*most*/ = {}) const {
    (*this)(field, std::int64_t{value.count()});
  }
  template <class T>
  void operator()(const auto& field, const std::optional<T>& value) const {
    if (value) {
      (*this)(field, *value);
    }
  }

  template <class T>
  void Number(const auto& field, const T& value, std::uint64_t, std::uint64_t) const {
    using Sent = std::conditional_t<sizeof(T) <= sizeof(std::uint32_t), std::uint32_t, T>;
    (*this)(field, static_cast<Sent>(value));
  }
  template <class T>
  void Number(const auto& field, const std::optional<T>& value, std::uint64_t least,
              std::uint64_t most) const {
    if (value) {
      Number(field, *value, least, most);
    }
  }
  template <class Tag>
  void Possible(const auto& field, ddprun::Number<Tag> value) const {
    (*this)(field, value);
  }
  template <class Field>
  void Enum(const Field& field, auto value) const {
    field.Set(wire_, static_cast<typename Field::template Type<Wire>>(value));
  }
  void Name(const auto& field, const std::string& value, std::size_t /*most*/ = 0) const {
    (*this)(field, value);
  }
  void Addresses(const auto& field, const std::string& value, std::size_t) const {
    (*this)(field, value);
  }
  void Text(const auto& field, const std::string& value, std::size_t most,
            Keep keep = Keep::kHead) const {
    const std::size_t from = keep == Keep::kHead ? 0 : value.size() - std::min(value.size(), most);
    field.MutablePart(wire_).assign(value, from, most);
  }

  // ---- Parts and lists ----
  template <class T, class... More>
  void Message(const auto& field, const T& value, std::string_view /*of*/ = "",
               More... more) const {
    Fields(ddprun::FieldWriter(field.MutablePart(wire_)), value, more...);
  }
  template <class T>
  void Message(const auto& field, const std::optional<T>& value, std::string_view of = "") const {
    if (value) {
      Message(field, *value, of);
    }
  }
  template <class T, class... All>
  bool Choice(const auto& field, const std::variant<All...>& value) const {
    const T* const chosen = std::get_if<T>(&value);
    if (chosen != nullptr) {
      Message(field, *chosen);
    }
    return chosen != nullptr;
  }
  template <class T>
  void List(const auto& field, const std::vector<T>& values, std::size_t most,
            std::string_view /*of*/) const {
    for (std::size_t i = 0; i < std::min(values.size(), most); ++i) {
      Fields(ddprun::FieldWriter(*field.MutablePart(wire_).Add()), values[i]);
    }
  }
  void Texts(const auto& field, const std::vector<std::string>& values, std::size_t most,
             std::size_t most_bytes) const {
    for (std::size_t i = 0; i < std::min(values.size(), most); ++i) {
      field.MutablePart(wire_).Add(values[i].substr(0, most_bytes));
    }
  }
  void Names(const auto& field, const std::vector<std::string>& values, std::size_t most,
             std::size_t /*most_bytes*/ = 0) const {
    Texts(field, values, most, std::string::npos);
  }
  template <class Table, class Value>
  void Rows(const Table& table, const Value& value) const {
    ForEachField<Wire>(
        table, [&](const RowField& field, const auto& row) { (*this)(field, value.*row.member); });
  }

  void Check(bool /*good*/, std::string_view /*field*/, std::string_view /*why*/) const {}
  bool Has(const auto& /*field*/) const { return true; }

 private:
  Wire& wire_;
};

// ---- Reading ----
template <class Wire>
class FieldReader {
 public:
  static constexpr bool kReads = true;
  template <class T>
  using Of = T;

  // `of`: the name of this message in errors.
  FieldReader(const Wire& wire, Reader& in, std::string_view of = "")
      : wire_(wire), in_(in), outer_(in.Enter(of)) {}
  ~FieldReader() { in_.Enter(outer_); }
  FieldReader(const FieldReader&) = delete;
  FieldReader& operator=(const FieldReader&) = delete;

  const Wire& wire() const { return wire_; }

  // ---- One value ----
  void operator()(const auto& field, std::uint32_t& value) const {
    value = field.template Get<std::uint32_t>(wire_);
  }
  void operator()(const auto& field, std::uint64_t& value) const {
    value = field.template Get<std::uint64_t>(wire_);
  }
  void operator()(const auto& field, bool& value) const { value = field.template Get<bool>(wire_); }
  void operator()(const auto& field, double& value) const {
    value = field.template Get<double>(wire_);
    Check(std::isfinite(value), field.name, "is no number");
  }
  void operator()(const auto& field, int& exit_code) const { Number(field, exit_code, 0, 255); }
  void operator()(const auto& field, std::int64_t& unix) const {
    Number(field, unix, 0, kMaxUnixMs / 1000);
  }
  void operator()(const auto& field, UnixTime& value) const {
    Number(field, value.ms, 0, kMaxUnixMs);
  }
  void operator()(const auto& field, std::string& value) const {
    const std::string& said = field.template Get<std::string>(wire_);
    value = field.is_text ? in_.Text(field.name, said, kMaxTextBytes)
                          : in_.OptionalName(field.name, said);
  }
  template <class Tag>
  void operator()(const auto& field, ddprun::Number<Tag>& value) const {
    (*this)(field, value.value);
  }
  void operator()(const auto& field, Term& value) const {
    Number(field, value.value, 0, kMaxCount);
  }
  void operator()(const auto& field, Generation& value) const {
    Number(field, value.value, 0, kMaxCount);
  }
  void operator()(const auto& field, Duration& value, Duration most = kMaxDuration) const {
    std::string_view name = field.name;
    name.remove_suffix(name.ends_with("_ms") ? 3 : 0);
    value = Duration(
        in_.Number<std::int64_t>(name, field.template Get<std::int64_t>(wire_), 0, most.count()));
  }
  template <class T>
  void operator()(const auto& field, std::optional<T>& value) const {
    if (Has(field)) {
      (*this)(field, value.emplace());
    }
  }

  template <class T>
  void Number(const auto& field, T& value, std::uint64_t least, std::uint64_t most) const {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      value = in_.Number<std::int64_t>(field.name, field.template Get<std::int64_t>(wire_),
                                       static_cast<std::int64_t>(least),
                                       static_cast<std::int64_t>(most));
    } else {
      using Sent = std::conditional_t<sizeof(T) <= sizeof(std::uint32_t), std::uint32_t, T>;
      value = static_cast<T>(
          in_.Number<std::uint64_t>(field.name, field.template Get<Sent>(wire_), least, most));
    }
  }
  template <class T>
  void Number(const auto& field, std::optional<T>& value, std::uint64_t least,
              std::uint64_t most) const {
    if (Has(field)) {
      Number(field, value.emplace(), least, most);
    }
  }
  // By this machine's clock.
  void Possible(const auto& field, Term& value) const {
    value = in_.Term(field.name, field.template Get<std::uint64_t>(wire_));
  }
  void Possible(const auto& field, Generation& value) const {
    value = in_.Generation(field.name, field.template Get<std::uint64_t>(wire_));
  }
  template <class Field, class Value>
  void Enum(const Field& field, Value& value) const {
    using Sent = typename Field::template Type<Wire>;
    const int number = field.template Get<Sent>(wire_);
    if (number == 0 ||
        google::protobuf::GetEnumDescriptor<Sent>()->FindValueByNumber(number) == nullptr) {
      in_.Refuse(field.name, "has the unknown value " + std::to_string(number));
    } else {
      value = static_cast<Value>(number);
    }
  }
  void Name(const auto& field, std::string& value, std::size_t most = kMaxNameBytes) const {
    value =
        in_.Text(field.name, in_.Name(field.name, field.template Get<std::string>(wire_)), most);
  }
  void Addresses(const auto& field, std::string& value, std::size_t most) const {
    value = in_.Addresses(field.name, field.template Get<std::string>(wire_), most);
  }
  void Text(const auto& field, std::string& value, std::size_t most, Keep = Keep::kHead) const {
    value = in_.Text(field.name, field.template Get<std::string>(wire_), most);
  }

  // ---- Parts and lists ----
  // `of`: the name of the part in errors.
  template <class T, class... More>
  void Message(const auto& field, T& value, std::string_view of = "", More... more) const {
    const auto& part = field.Part(wire_);
    Fields(ddprun::FieldReader(part, in_, of.empty() ? field.name : of), value, more...);
  }
  template <class T>
  void Message(const auto& field, std::optional<T>& value, std::string_view of = "") const {
    if (Has(field)) {
      Message(field, value.emplace(), of);
    }
  }
  // True: the variant's value is this one.
  template <class T, class... All>
  bool Choice(const auto& field, std::variant<All...>& value) const {
    const bool chosen = Has(field);
    if (chosen) {
      Message(field, value.template emplace<T>());
    }
    return chosen;
  }
  template <class T>
  void List(const auto& field, std::vector<T>& values, std::size_t most,
            std::string_view of) const {
    Each(field, most, [&](const auto& part) {
      Fields(ddprun::FieldReader(part, in_, of), values.emplace_back());
    });
  }
  void Texts(const auto& field, std::vector<std::string>& values, std::size_t most,
             std::size_t most_bytes) const {
    Each(field, most, [&](const std::string& text) {
      values.push_back(in_.Text(field.name, text, most_bytes));
    });
  }
  void Names(const auto& field, std::vector<std::string>& values, std::size_t most,
             std::size_t most_bytes = kMaxNameBytes) const {
    Texts(field, values, most, most_bytes);
    for (const std::string& value : values) {
      in_.Name(field.name, value);
    }
  }
  // Rows with `name` and `member`; also whether what must not be empty is not.
  template <class Table, class Value>
  void Rows(const Table& table, Value& value) const {
    ForEachField<Wire>(table, [&](const RowField& field, const auto& row) {
      (*this)(field, value.*row.member);
      if constexpr (requires { row.empty; }) {
        const bool empty = value.*row.member == std::decay_t<decltype(value.*row.member)>{};
        Check(row.empty == Empty::kMay || !empty, row.name, "is empty");
      }
    });
  }

  void Check(bool good, std::string_view field, std::string_view why) const {
    if (!good) {
      in_.Refuse(field, why);
    }
  }
  bool Has(const auto& field) const { return field.Has(wire_); }

 private:
  // Nothing of a list with too many.
  void Each(const auto& field, std::size_t most, const auto& take) const {
    const auto& list = field.Part(wire_);
    if (list.size() <= static_cast<int>(most)) {
      std::ranges::for_each(list, take);
    } else {
      in_.Refuse(field.name, "has more than " + std::to_string(most) + " entries");
    }
  }

  const Wire& wire_;
  Reader& in_;
  const std::string_view outer_;
};

template <class Value, class Wire>
void WriteFields(const Value& value, Wire* wire) {
  Fields(FieldWriter(*wire), value);
}

template <class Value, class Wire>
Result<Value> ReadFields(const Wire& wire, Reader& in, std::string_view of = "") {
  Value value;
  Fields(FieldReader(wire, in, of), value);
  return in.Taken(std::move(value));
}

}  // namespace ddprun
