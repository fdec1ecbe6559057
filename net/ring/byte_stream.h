// ByteStream: a connection that moves bytes, in order, both ways.
//
// Internal to net/. The lower half of a connection: below FramedLink, which
// makes frames of the bytes, and above the system's sockets (UvStream) or a
// simulated network. What changes bytes on their way, such as encryption, is a
// ByteStream that owns another.
//
// One thread. No call of the owner is made from inside a call of the stream's.
// Events carry the time, in nanoseconds of a monotonic clock.

#ifndef RINGLET_NET_RING_BYTE_STREAM_H_
#define RINGLET_NET_RING_BYTE_STREAM_H_

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "failure_detector.h"

namespace ringlet {

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
    // The connection is there; of one that was not open() from the beginning.
    virtual void OnOpened(int64_t now) = 0;
    // Where the next bytes are read to: never empty. Valid until OnRead.
    virtual Space NextSpace() = 0;
    // `bytes` > 0 have come to NextSpace().
    virtual void OnRead(size_t bytes, int64_t now) = 0;
    // As OnRead, of bytes in the stream's own memory, valid during the call.
    // The other side may still change them, so what is decided by them is
    // copied first.
    virtual void OnBytes(const uint8_t* data, size_t bytes, int64_t now) = 0;
    // The stream is no longer blocked().
    virtual void OnWritable(int64_t now) = 0;
    // Nothing more is read: it could not connect, the other side closed it, or
    // the network gave up. At most once, and the last event but OnWritable.
    virtual void OnEnded(Cause cause, const Status& why, int64_t now) = 0;

   protected:
    ~Owner() = default;
  };

  // Most pieces of one Write.
  static constexpr int kMostPieces = 8;

  // Once, before the thread returns to its loop: events go to `owner`.
  virtual void Start(Owner* owner) = 0;
  virtual bool open() const = 0;
  // Takes what it can of the pieces, in their order, and returns how many
  // bytes: the caller may change or free those. Not while blocked(). Negative:
  // writing has failed for good, and reading will say why.
  virtual int64_t Write(const Piece* pieces, int count) = 0;
  // Takes nothing until OnWritable.
  virtual bool blocked() const = 0;
  // No more OnRead and OnEnded.
  virtual void StopReading() = 0;
  // No event follows, and no memory of the owner's is touched. What was taken
  // is still sent. The stream deletes itself.
  virtual void Close() = 0;

  // What comes is what was sent, or the stream has ended: a checksum of it
  // would say nothing.
  virtual bool authentic() const { return false; }

  // Memory that both sides have mapped (SharedStream), instead of what serves
  // until then. Both ends have it once the other has answered what this one
  // says of it; each says itself from which byte on it is used.
  virtual bool CanShare() { return false; }
  virtual void ShareNothing() {}
  virtual void ShareOutput() {}
  virtual void ShareInput() {}
  // Gives the owner what has come, without being woken for it. `wake`: whoever
  // sends more is to wake this side; else it goes on looking. Whether there
  // was.
  virtual bool Poll(int64_t, bool) { return false; }
  // More has come than one turn takes: Poll again.
  virtual bool unfinished() const { return false; }

  // An open file that the other process is to have: with the first byte
  // written, where the stream can. What came so, for the caller to close; -1:
  // nothing. Neither closes the stream's own descriptor.
  virtual void SendDescriptor(int) {}
  virtual int TakeDescriptor() { return -1; }

  // Between processes of one host, by a local socket.
  virtual bool is_local() const = 0;
  // The other side's address as the kernel knows it, for messages.
  virtual const std::string& remote() const = 0;
  // By TCP; AF_UNSPEC where it is not known.
  virtual const sockaddr_storage& remote_address() const = 0;

 protected:
  virtual ~ByteStream() = default;
};

struct CloseStream {
  void operator()(ByteStream* stream) const { stream->Close(); }
};
using StreamPtr = std::unique_ptr<ByteStream, CloseStream>;

}  // namespace ringlet

#endif  // RINGLET_NET_RING_BYTE_STREAM_H_
