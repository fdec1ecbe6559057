// Collective: what training needs from the other workers.
//
// Public. core trains over this interface and knows no network; net implements
// it. The default, SoloCollective, is a job of one. Every call is made by every
// rank in the same order with the same sizes. Sums are made in an order that
// depends on the world alone, so a run repeats bit for bit and all ranks end
// with the same bits.
//
// Called from the training thread only.

#ifndef RINGLET_CORE_BASE_COLLECTIVE_H_
#define RINGLET_CORE_BASE_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "status.h"

namespace ringlet {

// What the floats of a long all-reduce are while they travel, over a ring. Half
// the bytes for a third to an eighth of the digits: where the network is what
// training waits for. Each number is rounded to nearest, ties to even, at every
// hop; sums are made in float32, in the ring's fixed order, and the sum that a
// rank owns is rounded before anybody gets it, so all ranks end with the same
// bits. Vectors of at most 8 KiB travel as float32 always. Values are part of
// the wire's format.
enum class WireDtype : uint8_t {
  kFloat32 = 0,
  kBfloat16 = 1,  // float32's range, 8 bits of precision
  kFloat16 = 2,   // IEEE 754 binary16, 11 bits; beyond 65,504 infinity
};

class Collective {
 public:
  // Names a started operation until it was waited for.
  using Ticket = uint64_t;

  virtual ~Collective() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;  // ranks, >= 1
  // "host:port" of a rank, for messages; "" where that is not known.
  virtual std::string address(int /*rank*/) const { return ""; }

  // Gradients are summed in pieces of about this size, each started as soon
  // as the backward pass has produced it. The same on every rank.
  virtual size_t bucket_bytes() const { return 1 << 20; }

  // Sums of up to so many bytes are made of floats that travel as they are,
  // whatever those of longer ones are rounded to on their way.
  virtual size_t exact_bytes() const { return SIZE_MAX; }

  // data[0..count) becomes the element-wise sum over all ranks. Start returns
  // at once; the span belongs to the operation until Wait has returned. Started
  // operations complete in the order of their start. After an error the span's
  // content is undefined.
  virtual Status StartAllReduce(float* data, size_t count, Ticket* ticket) = 0;
  // The same of integers modulo 2^32, whose sums are exact in any order and are
  // never rounded on their way.
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

  // Bytes, as they are; of numbers see below.
  // Every rank's data[0..bytes) becomes the root's.
  virtual Status Broadcast(void* data, size_t bytes, int root) = 0;
  // out[r * bytes ...] becomes rank r's in[0..bytes).
  virtual Status AllGather(const void* in, size_t bytes, void* out) = 0;
  // The same, started: `in` is read before it returns, `out` belongs to the
  // operation until Wait.
  virtual Status StartAllGather(const void* in, size_t bytes, void* out,
                                Ticket* ticket) {
    *ticket = 0;
    return AllGather(in, bytes, out);
  }
  // Returns once every rank has called it.
  virtual Status Barrier() = 0;

  // Tells every other rank that this one cannot go on, and why. Their calls
  // under way, and every later one, return an error of the same code, for
  // kPeerLost with the same rank(), that names this rank and the reason:
  // "rank 2 (10.0.0.3:7000) failed: <reason>"; so do this rank's own. A wait
  // for an operation that had completed still succeeds. Returns once the others
  // will hear of it, even where this process ends at once. Afterwards only
  // Reform and destruction are of use. May be called after an error, and then
  // may do nothing. Where several abort, each rank takes what it hears first.
  virtual void Abort(const Status& /*reason*/) {}

  // Names the training step in messages from now on.
  virtual void SetStep(uint64_t /*step*/) {}

  // After kPeerLost: lets go of what is left of the ring and waits, as at the
  // start, until every rank is there again (those that lived by this call, a
  // restarted one by its start). Then the collective is as new.
  virtual Status Reform() {
    return InvalidArgument("this collective cannot be formed again");
  }
  // Reform may leave out ranks that are lost and take in others, so that rank()
  // and size() are others after it.
  virtual bool elastic() const { return false; }
  // Of an elastic one: with fewer Reform waits for more.
  virtual int min_workers() const { return 1; }
  // Another worker of the job waits to take part: Reform lets it in. From any
  // thread.
  virtual bool visited() const { return false; }
  // The number of this worker in the job's list, whatever its rank is now.
  virtual int worker() const { return rank(); }

  // How often models were compiled with it: a worker that comes back is at its
  // first, however far the others are.
  int64_t compiles() const { return compiles_; }
  void CountCompile() { ++compiles_; }

 private:
  int64_t compiles_ = 0;
};

// Broadcast and AllGather of `count` numbers of `element_bytes` each: ranks may
// differ in the order of bytes. Floats of AllReduce need no such care.
Status BroadcastNumbers(Collective* collective, void* data,
                        size_t element_bytes, size_t count, int root);
Status GatherNumbers(Collective* collective, const void* in,
                     size_t element_bytes, size_t count, void* out);

// OK where every rank's `mine` is; else the same error on all others as on the
// lowest rank that has one, whose message says which rank that is.
Status ShareStatus(Collective* collective, const Status& mine);

// A rank that fails alone says so to the others, or they would wait for it:
// aborts where `status` is an error and there are other ranks.
void AbortOthers(Collective* collective, const Status& status);

// values[0..count) become their sums over all ranks, added in the order of the
// ranks: the same bits everywhere. For a few numbers, as losses and counts.
Status SumOverRanks(Collective* collective, double* values, size_t count);

class SoloCollective final : public Collective {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Status StartAllReduce(float*, size_t, Ticket* ticket) override {
    *ticket = 0;
    return Status();
  }
  Status StartAllReduceInts(int32_t*, size_t, Ticket* ticket) override {
    *ticket = 0;
    return Status();
  }
  Status Wait(Ticket) override { return Status(); }
  Status Broadcast(void*, size_t, int) override { return Status(); }
  Status AllGather(const void* in, size_t bytes, void* out) override {
    std::memmove(out, in, bytes);
    return Status();
  }
  Status Barrier() override { return Status(); }
};

}  // namespace ringlet

#endif  // RINGLET_CORE_BASE_COLLECTIVE_H_
