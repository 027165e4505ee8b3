#include "tests/compatibility/witness_play.h"

#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "proto/rendezvous.pb.h"
#include "rendezvous/succession/witness_claims.h"
#include "tests/compatibility/generic_calls.h"

namespace ddprun {
namespace {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

constexpr int kFresh = 1;  // Of WitnessReply: a matter of time.

bool HasAll(const std::string& then, const std::string& now, int but);

bool IsSame(const UnknownField& then, const UnknownField& now) {
  if (then.type() != now.type()) {
    return false;
  }
  switch (then.type()) {
    case UnknownField::TYPE_VARINT:
      return then.varint() == now.varint();
    case UnknownField::TYPE_FIXED32:
      return then.fixed32() == now.fixed32();
    case UnknownField::TYPE_FIXED64:
      return then.fixed64() == now.fixed64();
    case UnknownField::TYPE_LENGTH_DELIMITED:
      return then.length_delimited() == now.length_delimited() ||
             HasAll(then.length_delimited(), now.length_delimited(), 0);
    case UnknownField::TYPE_GROUP:
      break;
  }
  return false;
}

// By field numbers alone, whatever a proto file calls them today.
bool HasAll(const std::string& then, const std::string& now, int but) {
  UnknownFieldSet old_fields, new_fields;
  if (!old_fields.ParseFromString(then) || !new_fields.ParseFromString(now)) {
    return false;
  }
  int next = 0;  // Those of one number keep their order.
  for (int i = 0; i < old_fields.field_count(); ++i) {
    const UnknownField& wanted = old_fields.field(i);
    if (wanted.number() == but) {
      continue;
    }
    while (next < new_fields.field_count() && (new_fields.field(next).number() != wanted.number() ||
                                               !IsSame(wanted, new_fields.field(next)))) {
      ++next;
    }
    if (next++ == new_fields.field_count()) {
      return false;
    }
  }
  return true;
}

std::string DigestBytes(const std::string& list) {
  std::vector<Endpoint> places;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    places.push_back(ParseEndpoint(list.substr(begin, end - begin), std::nullopt).value());
    begin = end + 1;
  }
  v1::WitnessRequest request;
  request.set_list(DigestOf(places));
  return request.SerializeAsString().substr(1);
}

// Whether this build knows all of it: the rest would be passed over in silence.
bool IsKnown(const google::protobuf::Message& message) {
  const google::protobuf::Reflection& fields = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> set;
  fields.ListFields(message, &set);
  bool known = fields.GetUnknownFields(message).empty();
  for (const auto* field : set) {
    if (field->message_type() != nullptr && field->is_repeated()) {
      for (int i = 0; i < fields.FieldSize(message, field); ++i) {
        known &= IsKnown(fields.GetRepeatedMessage(message, field, i));
      }
    } else if (field->message_type() != nullptr) {
      known &= IsKnown(fields.GetMessage(message, field));
    }
  }
  return known;
}

class Asking {
 public:
  Asking(const std::string& list, const std::string& recorded, std::uint32_t protocol)
      : channel_(list.substr(0, list.find(','))),
        then_(DigestBytes(recorded)),
        now_(DigestBytes(list)),
        protocol_(protocol) {}

  bool IsUnderstood(const Call& call) {
    std::string bytes = call.request;
    const std::size_t place = bytes.find(then_);
    v1::WitnessRequest request;
    v1::WitnessReply then;
    if (place == std::string::npos || !request.ParseFromString(bytes) || !IsKnown(request) ||
        !then.ParseFromString(call.reply) || !IsKnown(then)) {
      return Tell(call, place == std::string::npos ? "names its list otherwise than this build"
                                                   : "says what this build does not know");
    }
    bytes.replace(place, now_.size(), now_);
    if (protocol_ != 0) {
      request.ParseFromString(bytes);
      request.set_protocol(protocol_);
      bytes = request.SerializeAsString();
    }
    const auto [status, reply] = channel_.Ask(kWitness, bytes, std::chrono::seconds(5));
    if (!status.ok()) {
      return Tell(call,
                  "refused " + std::to_string(status.error_code()) + ' ' + status.error_message());
    }
    const bool backs = request.verb() == v1::WITNESS_VERB_BACK;
    const bool by_time = std::exchange(backed_, backed_ || backs) && backs;
    return by_time || call.status != 0 || HasAll(call.reply, reply, kFresh) ||
           Tell(call, "answered otherwise", reply);
  }

 private:
  bool Tell(const Call& call, const std::string& what, const std::string& reply = "") const {
    std::cout << "Witness " << what << "\n  then " << LineOf(call) << std::endl;
    if (!reply.empty()) {
      std::cout << "  now  " << LineOf({kWitness, 0, call.request, reply}) << std::endl;
    }
    return false;
  }

  Channel channel_;
  const std::string then_, now_;
  const std::uint32_t protocol_;
  bool backed_ = false;  // The first claim.
};

}  // namespace

int AskWitness(const std::string& list, const std::string& recorded, const std::vector<Call>& calls,
               std::uint32_t protocol) {
  Asking asking(list, recorded, protocol);
  int understood = 0;
  for (const Call& call : calls) {
    if (call.method != kWitness) {
      continue;
    }
    if (!asking.IsUnderstood(call)) {
      return 1;
    }
    ++understood;
  }
  std::cout << "understood " << understood << std::endl;
  return understood == 0 ? 1 : 0;
}

std::string WitnessReplyTo(const std::string& request, const std::vector<Call>& calls) {
  v1::WitnessRequest asked;
  if (!asked.ParseFromString(request)) {
    return "";
  }
  const bool looks = asked.verb() == v1::WITNESS_VERB_LOOK;
  for (const Call& call : calls) {
    v1::WitnessReply reply;
    v1::WitnessRequest then;
    if (call.method != kWitness || call.status != 0 || !reply.ParseFromString(call.reply) ||
        !then.ParseFromString(call.request) || reply.fresh() || then.verb() != asked.verb()) {
      continue;
    }
    if (looks && reply.newest().closed() && reply.newest().has_left()) {
      return call.reply;
    }
    if (!looks && reply.accepted()) {
      *reply.mutable_newest() = asked.claim();
      return reply.SerializeAsString();
    }
  }
  return "";
}

}  // namespace ddprun
