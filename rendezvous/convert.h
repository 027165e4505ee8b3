// Reports, replies and directives between values and the wire. The border: nothing past it meets a
// protobuf type, and nothing unchecked passes it.
//
// Reading trusts no byte: every enum, length, count and duration is checked, and the Error names
// the field. Writing never makes what reading would refuse for its size: text for people and lists
// are cut to their bounds.
#pragma once

#include "common/result.h"
#include "proto/rendezvous.pb.h"
#include "rendezvous/core/messages.h"

namespace ddprun {

inline constexpr std::size_t kMaxNameBytes = 255;   // Run id, node id, host name, role.
inline constexpr std::size_t kMaxTextBytes = 4096;  // A text for people.

Result<NodeReport> ReportFromProto(const v1::SyncRequest& wire);
Result<SyncReply> ReplyFromProto(const v1::SyncReply& wire);

void ToProto(const NodeReport& report, v1::SyncRequest* wire);
void ToProto(const SyncReply& reply, v1::SyncReply* wire);

}  // namespace ddprun
