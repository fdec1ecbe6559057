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

// Programs use the system's clocks; tests use a fake clock.
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

// The format of floats on the links of a ring. With a 16-bit format each number
// is rounded to nearest, ties to even, at every hop; sums are made in float32,
// and all ranks end with the same bits. Vectors of at most 8 KiB always travel
// as float32. The values are part of the wire's format.
enum class WireDtype : uint8_t {
  kFloat32 = 0,
  kBfloat16 = 1,  // float32's range, 8 bits of precision
  kFloat16 = 2,   // IEEE 754 binary16, 11 bits; beyond 65,504 infinity
};

// The most workers of an elastic job. Each has one bit of a 64-bit mask.
constexpr int kMaxElasticWorkers = 64;

// The operations of this worker with the others of its job; a null collective
// is a job of one worker. Every rank makes every call, in the same order and
// with the same sizes, from its training thread. The order of sums depends only
// on the job's size and options, so all ranks get the same bits, in every run.
class Collective {
 public:
  // Identifies a started operation until Wait.
  using Ticket = uint64_t;

  virtual ~Collective() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;  // ranks, >= 1
  // "host:port" of a rank, for messages; empty if unknown.
  virtual std::string address(int /*rank*/) const { return ""; }

  // Gradients are summed in pieces of about this size, as the backward pass
  // computes them. The same on every rank.
  virtual size_t bucket_bytes() const { return 1 << 20; }

  // Longer sums may be rounded on the wire.
  virtual size_t unrounded_bytes() const { return SIZE_MAX; }

  // data[0..count) becomes the element-wise sum over all ranks. The span
  // belongs to the operation until Wait, which completes operations in the
  // order of their start. After an error the span's content is undefined.
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

  // Every rank's data[0..bytes) becomes that of the root, byte by byte.
  virtual Status Broadcast(void* data, size_t bytes, int root) = 0;
  // out[r * bytes ...] becomes in[0..bytes) of rank r.
  virtual Status AllGather(const void* in, size_t bytes, void* out) = 0;
  // Starts an AllGather, which Wait ends. `in` is read before this returns;
  // `out` is complete after Wait.
  virtual Status StartAllGather(const void* in, size_t bytes, void* out,
                                Ticket* ticket) {
    *ticket = 0;
    return AllGather(in, bytes, out);
  }
  // Waits until every rank has called it.
  virtual Status Barrier() = 0;

  // Sends every other rank the reason why this rank cannot continue, and
  // returns when it is sent. All later calls of all ranks return an error of
  // this code with the rank and the first reason; a wait for a completed
  // operation still succeeds. After it call only Reform and the destructor.
  virtual void Abort(const Status& /*reason*/) {}

  // Sets the training step for messages.
  virtual void SetStep(uint64_t /*step*/) {}

  // After kPeerLost: closes the ring and waits until every rank is present
  // again: a surviving rank by this call, a restarted one by its start. After
  // it no operation is pending and no error is kept.
  virtual Status Reform() {
    return InvalidArgument("this collective cannot be formed again");
  }
  // True if Reform may leave out lost ranks and admit others, so that rank()
  // and size() may change.
  virtual bool elastic() const { return false; }
  // The fewest workers of an elastic collective. With fewer, Reform waits.
  virtual int min_workers() const { return 1; }
  // True if another worker waits to join: Reform admits it. Any thread may
  // call.
  virtual bool has_joiner() const { return false; }
  // The number of this worker in the job's list, which never changes.
  virtual int worker() const { return rank(); }

  // The number of calls of Compile since this process has started.
  int64_t compiles() const { return compiles_; }
  void CountCompile() { ++compiles_; }

 private:
  int64_t compiles_ = 0;
};

// OK if the `mine` of every rank is OK. Else every rank gets the error of the
// lowest rank that has one, with that rank in the message.
Status ExchangeStatus(Collective* collective, const Status& mine);

// values[0..count) become their sums over all ranks, added in the order of the
// ranks. For a few numbers, such as losses and counts.
Status SumOverRanks(Collective* collective, double* values, size_t count);

}  // namespace ringlet

#endif  // RINGLET_COLLECTIVE_H_
