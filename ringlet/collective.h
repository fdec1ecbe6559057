// Collective: the operations of training with other workers. Clock: the
// interface through which ringlet reads time.

#ifndef RINGLET_COLLECTIVE_H_
#define RINGLET_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "status.h"

namespace ringlet {

// --- time --------------------------------------------------------------------

// The system's clocks, or a fake clock in tests.
class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since an unknown moment; never goes back.
  virtual int64_t MonotonicNanos() = 0;
  // Nanoseconds since 1970 UTC; may jump.
  virtual int64_t WallNanos() = 0;

  static Clock* System();  // never destroyed
};

// --- collectives -------------------------------------------------------------

// The format of floats on the links of a ring. A 16-bit format rounds to
// nearest even at every hop; sums are in float32, and all ranks get the same
// bits. Vectors of at most 8 KiB travel as float32. Messages carry the numbers
// of the enum.
enum class WireDtype : uint8_t {
  kFloat32 = 0,
  kBfloat16 = 1,  // float32's range, 8 bits of precision
  kFloat16 = 2,   // IEEE 754 binary16, 11 bits; beyond 65,504 infinity
};

// The most workers of an elastic job: each has one bit of a 64-bit mask.
constexpr int kMaxElasticWorkers = 64;

// The operations of this worker with the other workers; null is a job of one
// worker. Every rank's training thread makes the same calls with the same
// sizes. The order of sums depends only on the job's size and options.
class Collective {
 public:
  // Identifies a started operation until Wait.
  using Ticket = uint64_t;

  virtual ~Collective() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;  // ranks, >= 1
  // "host:port" of a rank, for messages; empty if unknown.
  virtual std::string address(int /*rank*/) const { return ""; }

  // About the size of a piece of summed gradients; equal on every rank.
  virtual size_t bucket_bytes() const { return 1 << 20; }

  // Sums of more bytes than this may be rounded on the wire.
  virtual size_t unrounded_bytes() const { return SIZE_MAX; }

  // data[0..count) becomes the sum over all ranks. The span belongs to the
  // operation until Wait. Wait for operations in the order of their starts.
  // After an error the content of the span is undefined.
  virtual Status StartAllReduce(float* data, size_t count, Ticket* ticket) = 0;
  // Sums modulo 2^32, which are never rounded.
  virtual Status StartAllReduceInts(int32_t* /*data*/, size_t /*count*/,
                                    Ticket* /*ticket*/) {
    return Error(Code::kUnimplemented,
                 "this collective has no sums of integers, which exact "
                 "reduction needs");
  }
  virtual Status Wait(Ticket ticket) = 0;
  Status AllReduce(float* data, size_t count) {
    Ticket ticket = 0;
    RINGLET_RETURN_IF_ERROR(StartAllReduce(data, count, &ticket));
    return Wait(ticket);
  }

  // data[0..bytes) of every rank becomes a copy of the root's data.
  virtual Status Broadcast(void* data, size_t bytes, int root) = 0;
  // out[r * bytes ...] becomes in[0..bytes) of rank r.
  virtual Status AllGather(const void* in, size_t bytes, void* out) = 0;
  // `in` is read before this returns; `out` is complete after Wait.
  virtual Status StartAllGather(const void* in, size_t bytes, void* out,
                                Ticket* ticket) {
    *ticket = 0;
    return AllGather(in, bytes, out);
  }
  virtual Status Barrier() = 0;

  // Sends every rank the reason why this rank cannot continue, and returns when
  // the reason is sent. All later calls of all ranks return this code with the
  // rank and the first reason, except waits for completed operations and
  // Reform.
  virtual void Abort(const Status& /*reason*/) {}

  // Sets the training step for messages.
  virtual void SetStep(uint64_t /*step*/) {}

  // After kPeerLost, or to admit a joining worker: closes the ring, and waits
  // until every rank has joined again, also a restarted one. If elastic(),
  // min_workers() reachable workers suffice. Pending operations and errors are
  // dropped.
  virtual Status Reform() {
    return InvalidArgument("this collective cannot be formed again");
  }
  // True if Reform may change the ranks, and so rank() and size().
  virtual bool elastic() const { return false; }
  // The fewest workers of an elastic collective. With fewer, Reform waits.
  virtual int min_workers() const { return 1; }
  // True if Reform would admit another worker. Any thread may call.
  virtual bool has_joiner() const { return false; }
  // This worker's constant number in the job's list.
  virtual int worker() const { return rank(); }

  // The number of Compile calls in this process.
  int64_t compiles() const { return compiles_; }
  void CountCompile() { ++compiles_; }

 private:
  int64_t compiles_ = 0;
};

// If `mine` of any rank is an error, all ranks return the error of the lowest
// such rank.
Status ExchangeStatus(Collective* collective, const Status& mine);

// Sums a few numbers over all ranks, added in the order of the ranks.
Status SumOverRanks(Collective* collective, double* values, size_t count);

}  // namespace ringlet

#endif  // RINGLET_COLLECTIVE_H_
