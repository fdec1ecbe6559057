// One direction of a shared segment: bytes from one process to another.
//
// Internal to net/. Pure: memory that two processes have mapped, and no system
// call. One writer, one reader. Each counts in memory of its own and shows the
// other what it has counted; what the other shows may be anything at any time,
// so it is read once, and a count that cannot be is an error. The bytes
// themselves may change too while they are looked at.
//
//   OFFSET SIZE  of Control; little-endian, so that an emulated processor of
//                another byte order may be at the other end
//     0      4   bytes written, modulo 2^32
//    64      4   bytes read, modulo 2^32
//   128      4   1: the reader waits for bytes, and is to be woken
//   192      4   1: the writer waits for room, and is to be woken

#ifndef RINGLET_NET_RING_SHARED_LANE_H_
#define RINGLET_NET_RING_SHARED_LANE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ringlet {

class SharedLane {
 public:
  static constexpr uint32_t kBytes = 1 << 20;  // a power of two
  struct Control {
    alignas(64) std::atomic<uint32_t> written;
    alignas(64) std::atomic<uint32_t> read;
    alignas(64) std::atomic<uint32_t> reader_waits;
    alignas(64) std::atomic<uint32_t> writer_waits;
  };
  static_assert(std::atomic<uint32_t>::is_always_lock_free, "shared");
  static_assert(sizeof(Control) == 256, "the layout of the segment");

  // `data` has kBytes bytes. Both counts of `control` are `begin`.
  SharedLane(Control* control, uint8_t* data, uint32_t begin = 0)
      : control_(control), data_(data), count_(begin), seen_(begin) {}

  // The writer's. Copies what finds room, and shows it; negative: the reader's
  // count cannot be.
  int64_t Write(const uint8_t* from, size_t bytes);
  // Whether there is none; `wake`: the reader is to wake this side then.
  bool Full(bool wake);
  // Once after each time that the reader began to wait: wake it.
  bool ReaderWaits();

  // The reader's. What has come, as far as it lies in one piece; 0: nothing.
  // Negative: the writer's count cannot be.
  int64_t Peek(const uint8_t** data);
  void Consume(size_t bytes);
  // Whether there is nothing; `wake`: the writer is to wake this side then.
  bool Empty(bool wake);
  // Once after each time that the writer began to wait, as soon as half is
  // free: wake it.
  bool WriterWaits();

 private:
  Control* control_;
  uint8_t* data_;
  uint32_t count_;  // this side's
  uint32_t seen_;   // of the other's
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_SHARED_LANE_H_
