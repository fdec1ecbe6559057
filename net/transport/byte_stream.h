// ByteStream: a connection that moves bytes, in order, both ways.
//
// The lower half of a connection. Above it a FramedLink makes frames of the
// bytes. Below it are the system's sockets (UvStream) or a simulated network. A
// layer that changes the bytes, such as encryption, is a ByteStream that owns
// another.
//
// One thread uses a stream. A stream's methods do not call its owner. Events
// carry the time, in nanoseconds of a monotonic clock.

#ifndef RINGLET_NET_TRANSPORT_BYTE_STREAM_H_
#define RINGLET_NET_TRANSPORT_BYTE_STREAM_H_

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "loss_cause.h"
#include "ringlet/status.h"

namespace ringlet {

// Memory that both ends of a connection have mapped. It is used once each end
// has the other's report that it is mapped. Each end announces the byte from
// which on its output is in the memory.
class SharedMemory {
 public:
  // Maps the memory, unless that is done. Returns true if this end has mapped
  // it.
  virtual bool MapSharedMemory() = 0;
  virtual void DeclineSharedMemory() = 0;  // unmaps it
  // All later bytes of this end, or of the other end, are in the memory.
  virtual void ShareOutput() = 0;
  virtual void ShareInput() = 0;
  // Gives the received bytes to the owner without an event of the loop. Returns
  // true if there were any. With `wake` the peer must wake this side for later
  // bytes. Otherwise this side polls again.
  virtual bool Poll(int64_t now, bool wake) = 0;
  // True if bytes are left after one turn: Poll again.
  virtual bool unfinished() const = 0;

 protected:
  ~SharedMemory() = default;
};

// A socket that sends an open file to the other process. Neither call closes
// the stream's own descriptor.
class DescriptorSocket {
 public:
  // Sends the descriptor with the first written byte.
  virtual void SendDescriptor(int descriptor) = 0;
  // The received descriptor, which the caller closes; -1 if there is none.
  virtual int TakeDescriptor() = 0;

 protected:
  ~DescriptorSocket() = default;
};

class ByteStream {
 public:
  struct Space {
    uint8_t* data;
    size_t bytes;
  };
  struct Piece {
    const uint8_t* data;
    size_t bytes;
  };

  class Owner {
   public:
    // The connection is made. Not called if it was open() from the beginning.
    virtual void OnOpened(int64_t now) = 0;
    // The memory for the next bytes: never empty, valid until OnRead.
    virtual Space NextSpace() = 0;
    // `bytes` > 0 were written to NextSpace().
    virtual void OnRead(size_t bytes, int64_t now) = 0;
    // OnRead for bytes in the stream's own memory, valid during the call. The
    // other side may still change them: copy them before a decision that
    // depends on them.
    virtual void OnBytes(const uint8_t* data, size_t bytes, int64_t now) = 0;
    // The stream is no longer blocked().
    virtual void OnWritable(int64_t now) = 0;
    // Nothing more is read: the stream could not connect, the other side closed
    // it, or the network failed. At most once, and the last event except
    // OnWritable.
    virtual void OnEnded(LossCause cause, const Status& why, int64_t now) = 0;

   protected:
    ~Owner() = default;
  };

  // The most pieces of one Write.
  static constexpr int kMaxPieces = 8;

  // Sets the owner, which gets the events. Call it once, before the thread
  // returns to its loop.
  virtual void Start(Owner* owner) = 0;
  virtual bool open() const = 0;
  // Takes a first part of the pieces, in their order, and returns its bytes.
  // The caller may change or free those. Not while blocked(). Negative: writing
  // has failed, and OnEnded will get the reason.
  virtual int64_t Write(const Piece* pieces, int count) = 0;
  // If true, Write may not be called until OnWritable.
  virtual bool blocked() const = 0;
  // After it OnRead and OnEnded are not called.
  virtual void StopReading() = 0;
  // No event follows, and the owner's memory is not used again. Bytes that
  // Write took are still sent. The stream deletes itself.
  virtual void Close() = 0;

  // True if the stream ends when bytes were changed on the way, so they need no
  // checksum.
  virtual bool authentic() const = 0;

  // Null if the stream has no such memory or its socket carries no descriptor.
  virtual SharedMemory* shared_memory() = 0;
  virtual DescriptorSocket* descriptors() = 0;

  // True if both processes are on one host and use a local socket.
  virtual bool is_local() const = 0;
  // The other side's address as the kernel reports it, for messages.
  virtual const std::string& remote() const = 0;
  // The address of a TCP stream; AF_UNSPEC if it is not known.
  virtual const sockaddr_storage& remote_address() const = 0;

 protected:
  virtual ~ByteStream() = default;
};

struct CloseStream {
  void operator()(ByteStream* stream) const { stream->Close(); }
};
using StreamPtr = std::unique_ptr<ByteStream, CloseStream>;

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_BYTE_STREAM_H_
