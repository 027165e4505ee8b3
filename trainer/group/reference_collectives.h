// Collectives made of nothing but send and receive, for what a library lacks and to see what its
// own are worth.
//
// Every rank of the wire calls the same function with the same sizes. Sums are formed in an order
// that depends on the ranks only, never on timing. Data is bytes; a reduction says what they mean
// (their number is a multiple of the element's size). Nothing here times out: the wire does. After
// an error the wire cannot be used.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "common/result.h"
#include "trainer/group/combine.h"

namespace ddprun {

// A send or receive under way; its bytes must stay until Wait has returned.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual Result<void> Wait() = 0;
};

// Point-to-point messages between ranks, in order per pair. No message is empty.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual std::size_t rank() const = 0;
  virtual std::size_t size() const = 0;
  virtual std::unique_ptr<Transfer> StartSend(std::span<const std::byte> bytes, std::size_t to) = 0;
  virtual std::unique_ptr<Transfer> StartRecv(std::span<std::byte> bytes, std::size_t from) = 0;
};

// kBlocking: one transfer at a time, send/recv. kOverlapped: all that can be, isend/irecv.
enum class Style { kBlocking, kOverlapped };

Result<void> Send(Wire& wire, std::span<const std::byte> bytes, std::size_t to);
Result<void> Recv(Wire& wire, std::span<std::byte> bytes, std::size_t from);

// Both at once, as MPI_Sendrecv; the two may be different peers.
Result<void> SendRecv(Wire& wire, std::span<const std::byte> out, std::size_t to,
                      std::span<std::byte> in, std::size_t from);

// Naive: every rank sends everything to the root. On other ranks `data` stays as it was.
Result<void> ReduceNaive(Wire& wire, Style style, const Reduction& reduction,
                         std::span<std::byte> data, std::size_t root);
Result<void> AllReduceNaive(Wire& wire, Style style, const Reduction& reduction,
                            std::span<std::byte> data);

// Ring: each rank reduces its share while the shares go round. On other ranks than the root `data`
// holds parts of sums afterwards.
Result<void> ReduceRing(Wire& wire, Style style, const Reduction& reduction,
                        std::span<std::byte> data, std::size_t root);
Result<void> AllReduceRing(Wire& wire, Style style, const Reduction& reduction,
                           std::span<std::byte> data);

// `in` is one share of `out`'s size per rank; `out` becomes this rank's, reduced over all.
Result<void> ReduceScatter(Wire& wire, const Reduction& reduction, std::span<const std::byte> in,
                           std::span<std::byte> out);

// Share r of `in` goes to rank r; share r of `out` comes from it.
Result<void> AllToAll(Wire& wire, std::span<const std::byte> in, std::span<std::byte> out);

}  // namespace ddprun
