// Link: one framed connection. Listener: where they come from.
//
// Internal to net/. Both live on the loop's thread only, are pinned (libuv
// holds pointers into them), and may be deleted from OnClosed on. Their owner
// outlives them.
//
// Sending never keeps a pointer into a caller's memory beyond DropBorrowed or
// Close: bytes are handed to the kernel directly, and where it takes no more a
// small copied piece waits for it. What is queued is bounded: kMaxBorrowed bulk
// frames and kMaxFrames in all.

#ifndef RINGLET_NET_RING_LINK_H_
#define RINGLET_NET_RING_LINK_H_

#include <uv.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../wire/frame_reader.h"
#include "../wire/handshake.h"
#include "failure_detector.h"
#include "loop.h"

namespace ringlet {

class Link final : private FrameReader::Sink {
 public:
  class Owner {
   public:
    virtual void OnConnected(Link* link) = 0;
    // Some bytes have come.
    virtual void OnHeard(Link* link) = 0;
    virtual Status OnHeader(Link* link, const FrameHeader& header,
                            Landing* landing) = 0;
    virtual Status OnFrame(Link* link, const FrameHeader& header,
                           const uint8_t* payload) = 0;
    // A burst of reads, or a wait for the kernel, is over.
    virtual void OnTurn(Link* link) = 0;
    // A borrowed payload of this operation has been written.
    virtual void OnSent(Link* link, uint64_t sequence) = 0;
    // The connection is of no more use, not by Close(). Called once, and
    // never from inside a call of the owner's own. Close it.
    virtual void OnDown(Link* link, Cause cause, const Status& why) = 0;
    // All handles are closed. The last call: the link may be deleted.
    virtual void OnClosed(Link* link) = 0;

   protected:
    ~Owner() = default;
  };

  static constexpr int kMaxBorrowed = 4;
  static constexpr int kMaxFrames = 64;
  static constexpr uint32_t kTurnBytes = 2 * kSegmentBytes;

  Link(Loop* loop, Owner* owner) : loop_(loop), owner_(owner), reader_(this) {}
  ~Link() { RINGLET_CHECK(open_handles_ == 0); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // One of these, once. After an error the link may be deleted at once where
  // closed() says so; otherwise OnClosed follows.
  Status Accept(uv_stream_t* listener);
  Status ConnectTcp(const sockaddr* address);
  // `name` as LocalSocketName() gives it. Connects, or is refused, at once.
  Status ConnectLocal(const std::string& name);

  // Copies the payload.
  void Send(FrameHeader header, const uint8_t* payload);
  // The payload stays the caller's, untouched, until OnSent.
  void SendBorrowed(FrameHeader header, const uint8_t* payload);
  // For a frame of an operation; the rest of the queue is the control frames',
  // which are few: a heartbeat that waits takes the next one's content.
  bool has_room() const {
    return borrowed_ < kMaxBorrowed && count_ < kMaxFrames / 2;
  }
  // Sending takes turns with reading, or what one side sends piles up in the
  // kernel, out of every cache, while nobody reads.
  bool turn_over() const { return turn_bytes_ >= kTurnBytes; }
  void NewTurn() { turn_bytes_ = 0; }
  bool drained() const { return count_ == 0 && !waiting_; }
  // Bytes that the kernel has taken. Where the queue is not empty and these
  // stay as they are, the other side does not read.
  uint64_t taken_bytes() const { return taken_bytes_; }
  // A frame found no room, and none is sent any more.
  bool overflowed() const { return overflowed_; }

  // Drops queued bulk frames, and with each what its operations sent after it,
  // and lets go of the callers' memory, here and where a payload was landing.
  void DropBorrowed();
  // Idempotent. OnClosed follows.
  void Close();
  bool closed() const { return open_handles_ == 0; }
  bool closing() const { return closing_; }

  bool is_local() const { return local_; }
  // The other side's address as the kernel knows it.
  const std::string& remote() const { return remote_; }
  // By TCP; AF_UNSPEC where it is not known.
  const sockaddr_storage& remote_address() const { return remote_address_; }

  // The owner's notes.
  LinkPhase phase = LinkPhase::kConnecting;
  int peer = -1;
  int64_t opened_at = 0;

 private:
  struct Out {
    uint8_t header[kFrameHeaderBytes];
    const uint8_t* payload = nullptr;
    uint32_t payload_bytes = 0;
    uint64_t sequence = 0;
    bool borrowed = false;
    bool heartbeat = false;
    bool data = false;  // of an operation
    std::vector<uint8_t> copy;
  };

  Status OnHeader(const FrameHeader& header, Landing* landing) override;
  Status OnFrame(const FrameHeader& header, const uint8_t* payload) override;

  Status Init(bool local);
  Status Begin();
  void Enqueue(FrameHeader* header, const uint8_t* payload, bool borrowed);
  Out* NextOut(FrameType type);
  void Pump();
  void Advance(size_t bytes);
  void WaitForKernel();
  void WriteFailed();
  void OnRead(ssize_t bytes);
  void Down(Cause cause, const Status& why);
  Out& front() { return queue_[first_]; }
  uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&handle_); }

  Loop* const loop_;
  Owner* const owner_;
  union {
    uv_tcp_t tcp;
    uv_pipe_t pipe;
  } handle_;
  uv_connect_t connect_;
  uv_write_t write_;
  int open_handles_ = 0;
  bool local_ = false;
  bool closing_ = false;
  bool broken_ = false;  // writing has failed; the read side will say why
  bool overflowed_ = false;
  bool pumping_ = false;
  bool waiting_ = false;  // write_ is under way
  std::string remote_;
  sockaddr_storage remote_address_ = {};

  Out queue_[kMaxFrames];
  int first_ = 0;
  int count_ = 0;
  int borrowed_ = 0;
  uint32_t turn_bytes_ = 0;  // of bulk frames
  size_t written_ = 0;       // bytes of the front frame, header first
  uint64_t taken_bytes_ = 0;
  uint8_t wait_buffer_[1024];
  FrameReader reader_;
};

class Listener {
 public:
  class Owner {
   public:
    // Answer with Link::Accept(listener->stream()).
    virtual void OnConnection(Listener* listener) = 0;
    virtual void OnListenerClosed(Listener* listener) = 0;

   protected:
    ~Owner() = default;
  };

  Listener(Loop* loop, Owner* owner) : loop_(loop), owner_(owner) {}
  ~Listener() { RINGLET_CHECK(!open_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  Status ListenTcp(const sockaddr* address);
  Status ListenLocal(const std::string& name);
  void Close();
  bool open() const { return open_; }
  uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&handle_); }
  bool is_local() const { return local_; }

 private:
  Status Listen();

  Loop* const loop_;
  Owner* const owner_;
  union {
    uv_tcp_t tcp;
    uv_pipe_t pipe;
  } handle_;
  bool open_ = false;
  bool local_ = false;
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_LINK_H_
