// Collectives made of nothing but send and receive, for what a library lacks and to see what its
// own are worth; and the library's own reductions, by the same signature.
//
// Every rank of the group calls the same function with tensors of the same size: contiguous, of one
// dimension, where the group's messages lie. Sums are formed in an order that depends on the ranks
// only, never on timing. Nothing here times out: the group does. Its exceptions pass through, and
// it cannot be used after one. Included only by files that see libtorch anyway.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace ddprun {

using ReduceOperation = c10d::ReduceOp::RedOpType;

// kBlocking: one transfer at a time, send/recv. kOverlapped: all that can be, isend/irecv.
enum class Style { kBlocking, kOverlapped };

// Nothing is sent or received of a tensor without elements.
void Send(c10d::ProcessGroup& group, const at::Tensor& data, std::int64_t to);
void Recv(c10d::ProcessGroup& group, const at::Tensor& data, std::int64_t from);
// Both at once, as MPI_Sendrecv; the two may be different peers.
void SendRecv(c10d::ProcessGroup& group, const at::Tensor& out, std::int64_t to,
              const at::Tensor& in, std::int64_t from);

// Naive: every rank sends everything to the root. On other ranks `data` stays as it was.
void ReduceNaive(c10d::ProcessGroup& group, Style style, ReduceOperation operation,
                 const at::Tensor& data, std::int64_t root);
void AllReduceNaive(c10d::ProcessGroup& group, Style style, ReduceOperation operation,
                    const at::Tensor& data);

// Ring: each rank reduces its share while the shares go round. On other ranks than the root `data`
// holds parts of sums afterwards.
void ReduceRing(c10d::ProcessGroup& group, Style style, ReduceOperation operation,
                const at::Tensor& data, std::int64_t root);
void AllReduceRing(c10d::ProcessGroup& group, Style style, ReduceOperation operation,
                   const at::Tensor& data);

// `in` is one share of `out`'s size per rank; `out` becomes this rank's, reduced over all.
void ReduceScatter(c10d::ProcessGroup& group, ReduceOperation operation, const at::Tensor& in,
                   const at::Tensor& out);
// Share r of `in` goes to rank r; share r of `out` comes from it.
void AllToAll(c10d::ProcessGroup& group, const at::Tensor& in, const at::Tensor& out);

// The library's. On other ranks than the root `data` may hold anything afterwards.
void LibraryReduce(c10d::ProcessGroup& group, ReduceOperation operation, const at::Tensor& data,
                   std::int64_t root);
void LibraryAllReduce(c10d::ProcessGroup& group, ReduceOperation operation, const at::Tensor& data);

}  // namespace ddprun
