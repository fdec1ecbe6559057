// One direction of a shared segment: bytes from one process to another.
//
// Pure: memory that two processes have mapped, without system calls. One
// writer, one reader. Each keeps its count in its own memory and stores a copy
// for the other. The other process may store any value at any time. So a count
// is read once, and an impossible count is an error. The bytes themselves may
// also change while they are read.
//
//   OFFSET SIZE  of Control; little-endian, so that an emulated processor of
//                another byte order may be at the other end
//     0      4   bytes written, modulo 2^32
//    64      4   bytes read, modulo 2^32
//   128      4   1 if the reader waits for bytes, and must be woken
//   192      4   1 if the writer waits for room, and must be woken

#ifndef RINGLET_NET_TRANSPORT_SHARED_LANE_H_
#define RINGLET_NET_TRANSPORT_SHARED_LANE_H_

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

  // For the writer. Copies as many bytes as there is room for, and returns
  // their number. Negative: the reader's count is impossible.
  int64_t Write(const uint8_t* from, size_t bytes);
  // Before a wait for room. True if there is none; with `wake`, the reader must
  // then wake this side.
  bool PrepareToWaitForRoom(bool wake);
  // True once after each time that the reader began to wait: wake it.
  bool ClearReaderWait();

  // For the reader. Returns the number of received bytes at *data; zero if
  // there are none. Negative: the writer's count is impossible.
  int64_t Peek(const uint8_t** data);
  void Consume(size_t bytes);
  // Before a wait for bytes. True if there are none; with `wake`, the writer
  // must then wake this side.
  bool PrepareToWaitForBytes(bool wake);
  // True once after each time that the writer began to wait, as soon as half of
  // the lane is free: wake it.
  bool ClearWriterWait();

 private:
  Control* control_;
  uint8_t* data_;
  uint32_t count_;  // this side's count
  uint32_t seen_;   // the other side's count, as last read
};

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_SHARED_LANE_H_
