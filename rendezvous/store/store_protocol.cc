#include "rendezvous/store/store_protocol.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "common/overload.h"

namespace ddprun {
namespace {

static_assert(std::endian::native == std::endian::little, "the store speaks host byte order");

struct Shape {
  bool counted;  // A u64 count, then that many items.
  std::string_view fields;
};

constexpr std::array<Shape, kStoreOps> kShapes{{
    {false, "4"},    // VALIDATE
    {false, "kv"},   // SET
    {false, "kvv"},  // COMPARE_SET
    {false, "k"},    // GET
    {false, "k8"},   // ADD
    {true, "k"},     // CHECK
    {true, "k"},     // WAIT
    {false, ""},     // GETNUMKEYS
    {false, "k"},    // DELETE_KEY
    {false, "kv"},   // APPEND
    {true, "k"},     // MULTI_GET
    {true, "kv"},    // MULTI_SET
    {false, ""},     // CANCEL_WAIT
    {false, "4"},    // PING
    {false, "kv"},   // QUEUE_PUSH
    {false, "k"},    // QUEUE_POP
    {false, "k"},    // QUEUE_LEN
    {false, ""},     // LIST_KEYS
    {false, "k8"},   // BARRIER
}};

// Memory for a text is taken as it comes, not as it is announced.
constexpr std::size_t kFirstReserve = 1 << 20;

Error TooLarge(std::string_view what, std::uint64_t is, std::uint64_t limit) {
  return Error{ErrorKind::kInvalid, std::string(what) + " of " + std::to_string(is) +
                                        " where at most " + std::to_string(limit) + " may be"};
}

template <class Number>
std::string Raw(Number number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

}  // namespace

Result<std::optional<StoreRequest>> StoreParser::Parse(std::string_view& input) {
  std::optional<StoreRequest> request;
  while (!request) {
    if (step_ == Step::kDone) {
      RETURN_IF_ERROR(TakeDone(request));
      continue;
    }
    if (input.empty()) {
      break;
    }
    switch (step_) {
      case Step::kOp:
        RETURN_IF_ERROR(Begin(static_cast<std::uint8_t>(input.front())));
        input.remove_prefix(1);
        break;
      case Step::kCount:
        if (const auto count = TakeNumber(input, 8)) {
          if (*count > limits_.keys) {
            return TooLarge("a number of keys", *count, limits_.keys);
          }
          items_left_ = *count;
          field_ = fields_.size();
          Next();
        }
        break;
      case Step::kLength:
        if (const auto length = TakeNumber(input, 8)) {
          RETURN_IF_ERROR(BeginText(*length));
        }
        break;
      case Step::kText:
        TakeText(input);
        break;
      case Step::kNumber:
        if (const auto number = TakeNumber(input, fields_[field_] == '8' ? 8 : 4)) {
          request_.number = static_cast<std::int64_t>(*number);
          ++field_;
          Next();
        }
        break;
      case Step::kDone:
        break;
    }
  }
  return request;
}

Result<void> StoreParser::Begin(std::uint8_t op) {
  if (!validated_ && op != 0) {
    return Error{ErrorKind::kInvalid, "its first byte is " + std::to_string(op) +
                                          ", not VALIDATE: no client of this kind of store"};
  }
  if (op >= kStoreOps) {
    return Error{ErrorKind::kInvalid, "unknown operation " + std::to_string(op)};
  }
  request_ = StoreRequest{static_cast<StoreOp>(op)};
  held_ = 0;
  keys_held_ = 0;
  fields_ = kShapes[op].fields;
  field_ = 0;
  items_left_ = 0;
  step_ = Step::kCount;
  if (!kShapes[op].counted) {
    Next();
  }
  return {};
}

// To the field at field_, else to the next item, else the request is whole.
void StoreParser::Next() {
  if (field_ == fields_.size() && items_left_ > 0) {
    --items_left_;
    field_ = 0;
  }
  if (field_ == fields_.size()) {
    step_ = Step::kDone;
  } else {
    const bool number = fields_[field_] == '8' || fields_[field_] == '4';
    step_ = number ? Step::kNumber : Step::kLength;
  }
}

Result<void> StoreParser::BeginText(std::uint64_t length) {
  const bool key = fields_[field_] == 'k';
  const std::size_t limit = key ? limits_.key_bytes : limits_.value_bytes;
  if (length > limit) {
    return TooLarge(key ? "a key" : "a value", length, limit);
  }
  held_ += sizeof(std::string);
  if (length > limits_.request_bytes - std::min(held_, limits_.request_bytes)) {
    return TooLarge("a request", held_ + length, limits_.request_bytes);
  }
  keys_held_ += key ? length : 0;
  if (keys_held_ > limits_.keys_bytes) {
    return TooLarge("all keys of a request", keys_held_, limits_.keys_bytes);
  }
  std::string& text = (key ? request_.keys : request_.values).emplace_back();
  text.reserve(std::min<std::size_t>(length, kFirstReserve));
  text_left_ = length;
  if (length == 0) {
    ++field_;
    Next();
  } else {
    step_ = Step::kText;
  }
  return {};
}

void StoreParser::TakeText(std::string_view& input) {
  std::string& text = fields_[field_] == 'k' ? request_.keys.back() : request_.values.back();
  const std::size_t size = std::min(text_left_, input.size());
  text.append(input.substr(0, size));
  input.remove_prefix(size);
  text_left_ -= size;
  held_ += size;
  if (text_left_ == 0) {
    ++field_;
    Next();
  }
}

std::optional<std::uint64_t> StoreParser::TakeNumber(std::string_view& input, std::size_t size) {
  const std::size_t taken = std::min(size - number_have_, input.size());
  std::memcpy(number_.data() + number_have_, input.data(), taken);
  input.remove_prefix(taken);
  number_have_ += taken;
  if (number_have_ < size) {
    return std::nullopt;
  }
  number_have_ = 0;
  std::uint64_t number = 0;
  std::memcpy(&number, number_.data(), size);
  return number;
}

Result<void> StoreParser::TakeDone(std::optional<StoreRequest>& request) {
  step_ = Step::kOp;
  held_ = 0;
  if (validated_) {
    request = std::exchange(request_, {});
    return {};
  }
  if (request_.number != kStoreMagic) {
    return Error{ErrorKind::kInvalid, "VALIDATE with the wrong magic number"};
  }
  validated_ = true;
  return {};
}

void StoreOutput::Append(const StoreReply& reply) {
  const auto number = [&](auto value) { parts_.push_back({Raw(value), nullptr}); };
  std::visit(Overload{[&](const ByteReply& r) { number(r.byte); },
                      [&](const NumberReply& r) { number(r.number); },
                      [&](const NonceReply& r) { number(r.nonce); },
                      [&](const ValuesReply& r) {
                        for (const StoreValue& value : r.values) {
                          AppendValue(value);
                        }
                      },
                      [&](const KeysReply& r) {
                        number(std::uint64_t{r.keys.size()});
                        for (const StoreValue& key : r.keys) {
                          AppendValue(key);
                        }
                      },
                      [&](const PopReply& r) {
                        number(r.length);
                        if (r.length > 0) {
                          AppendValue(r.value);
                        }
                      }},
             reply);
}

void StoreOutput::AppendValue(const StoreValue& value) {
  const std::uint64_t size = value == nullptr ? 0 : value->size();
  parts_.push_back({Raw(size), nullptr});
  if (size > 0) {
    parts_.push_back({{}, value});
  }
}

std::string_view StoreOutput::Next(std::span<char> scratch) const {
  std::size_t size = 0;
  for (auto part = parts_.begin(); part != parts_.end() && size < scratch.size(); ++part) {
    const std::string_view rest = part->View().substr(size == 0 ? sent_ : 0);
    if (size == 0 && rest.size() >= scratch.size()) {
      return rest;
    }
    size += rest.copy(scratch.data() + size, scratch.size() - size);
  }
  return {scratch.data(), size};
}

void StoreOutput::Consume(std::size_t sent) {
  sent_ += sent;
  while (!parts_.empty() && sent_ >= parts_.front().View().size()) {
    sent_ -= parts_.front().View().size();
    parts_.pop_front();
  }
  CHECK(!parts_.empty() || sent_ == 0);
}

}  // namespace ddprun
