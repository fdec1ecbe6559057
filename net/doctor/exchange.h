// DoctorExchange: what the doctors of a job's workers send each other.
//
// Pure: streams come from a Transport, and each event has its time, in
// nanoseconds of a monotonic clock. Called by one thread. Every doctor dials
// every other worker. The side that dials sends a hello with kFeatureProbes and
// kFeatureDoctor. A job answers it as a probe: it closes the connection, or
// sends its reason. A doctor answers with a welcome. Then both send their
// facts, and the side that dials measures the link: three pings, then at most
// kMostFrames frames of data, which the other side counts. So both directions
// of a pair are measured, each by its own connection.
//
// Bytes from outside are hostile: connections, frames, texts and times are
// bounded, and a fault ends only its connection.

#ifndef RINGLET_NET_DOCTOR_EXCHANGE_H_
#define RINGLET_NET_DOCTOR_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../../core/base/time_units.h"
#include "../transport/framed_link.h"
#include "../wire/handshake.h"
#include "ringlet/collective.h"

namespace ringlet {

// Values are part of the format: `chunk` of a kDoctor frame.
enum class DoctorMessage : uint32_t {
  kFacts = 1,     // text, at most kFactsBytes
  kPing = 2,      // `sequence` counts
  kPong = 3,      // the ping's `sequence`; `total`: nanoseconds since 1970
  kSettings = 4,  // a piece of text, at most kEagerBytes
  kData = 5,      // any bytes
  kAck = 6,       // `sequence`: how many frames of data have arrived
  kDone = 7,      // the sender has measured its link
};

constexpr size_t kFactsBytes = 1024;
constexpr size_t kSettingsBytes = 64 << 10;

// A doctor's observations of another worker.
struct PeerReport {
  enum class Reach : uint8_t {
    kNone,     // no connection; `reason` has the last error
    kSilent,   // connected, and no answer
    kForeign,  // another program answers
    kSealed,   // it closes the connection while the key is being proved
    kRefused,  // a different list or version; `reason` has its text
    kJob,      // a job of the same list
    kDoctor,   // a doctor of the same list
  };
  Reach reach = Reach::kNone;
  std::string reason;         // printable
  bool reaches_this = false;  // its doctor has connected here
  std::string facts;          // "" if none have arrived
  std::string settings;       // complete if it dialled this worker
  int64_t round_trip = -1;    // nanoseconds; -1 if not measured
  int64_t clock_ahead = 0;    // nanoseconds by which its clock is ahead
  int64_t data_bytes = 0;     // bytes that arrived there within data_nanos
  int64_t data_nanos = 0;
  bool stalled = false;  // small frames arrive there, large ones do not
};

class DoctorExchange final : private FramedLink::Owner {
 public:
  class Transport {
   public:
    // Makes a stream to the worker, which connects or is already open().
    virtual Status Connect(int peer, StreamPtr* out) = 0;

   protected:
    ~Transport() = default;
  };

  struct Options {
    Identity self;
    std::string facts;     // text of at most kFactsBytes
    std::string settings;  // text of at most kSettingsBytes
    bool sealed = false;   // the streams prove a key
    // False if another process has this worker's port. It is dialled too.
    bool listens = true;
  };

  // `clock` gives the time of day.
  DoctorExchange(const Options& options, Transport* transport, Clock* clock);
  ~DoctorExchange();
  DoctorExchange(const DoctorExchange&) = delete;
  DoctorExchange& operator=(const DoctorExchange&) = delete;

  // A connection was accepted.
  void OnAccepted(StreamPtr stream, int64_t now);
  // Dials, and ends what takes too long. Call it every kTickNanos.
  void Tick(int64_t now);
  // True if nothing is left to do or to wait for.
  bool done() const;
  // Closes all connections.
  void Close();
  // Returns the reports by worker.
  const std::vector<PeerReport>& reports() const { return reports_; }
  // Reasons for which connections to this worker were refused; at most 8.
  const std::vector<std::string>& refusals() const { return refusals_; }

  static constexpr int64_t kTickNanos = 20 * kMillisecond;
  static constexpr int64_t kHandshakeNanos = 3 * kSecond;
  // Large frames that move nothing for so long do not arrive.
  static constexpr int64_t kStallNanos = 3 * kSecond;
  static constexpr int64_t kDataNanos = kSecond;
  // Between two dials.
  static constexpr int64_t kPauseNanos = 250 * kMillisecond;
  static constexpr int kPings = 3;
  static constexpr uint32_t kFirstFrameBytes = 16 << 10;
  static constexpr uint64_t kMostFrames = 16;
  static constexpr uint64_t kWindow = FramedLink::kMaxBorrowed;

 private:
  // A dialled worker, in this order.
  enum class State : uint8_t {
    kPause,      // it waits until next_dial
    kHandshake,  // the handshake is under way
    kPings,      // pings are under way
    kQueued,     // waits until no other link is measured
    kTransfer,   // data are under way
    kFinal,      // its report is complete
  };
  struct Dial {
    State state = State::kPause;
    int64_t since = 0;  // when `state` began; the next dial, or the last move
    bool connected = false;
    int closed = 0;  // connections that ended while the key was being proved
    uint64_t ping = 0;
    int64_t ping_sent = 0;
    uint64_t sent = 0, acked = 0;  // frames of data
    int64_t first_sent = 0;
    std::unique_ptr<FramedLink> link;
  };
  // An accepted connection; its worker is in link->peer, -1 until the hello.
  struct Accepted {
    std::unique_ptr<FramedLink> link;
    int64_t since = 0;
  };

  void OnConnected(FramedLink* link, int64_t now) override;
  void OnHeard(FramedLink*, int64_t now) override { now_ = now; }
  Status OnHeader(FramedLink* link, const FrameHeader& header,
                  ReceiveTarget* receive_target) override;
  Status OnFrame(FramedLink* link, const FrameHeader& header,
                 const uint8_t* payload) override;
  void OnTurn(FramedLink*, int64_t) override {}
  void OnSent(FramedLink*, uint64_t) override {}
  void OnDown(FramedLink* link, LossCause cause, const Status& why,
              int64_t now) override;

  bool IsDialled(const FramedLink* link) const;
  Dial& DialOf(const FramedLink* link) { return dials_[link->peer]; }
  void Connect(int peer);
  void TickDial(int peer);
  void Greet(FramedLink* link);
  Status OnHello(FramedLink* link, const FrameHeader& header,
                 const uint8_t* payload);
  Status OnWelcome(FramedLink* link, const FrameHeader& header,
                   const uint8_t* payload);
  Status OnDialledMessage(FramedLink* link, const FrameHeader& header);
  Status OnAcceptedMessage(FramedLink* link, const FrameHeader& header,
                           const uint8_t* payload);
  void Refuse(FramedLink* link, const std::string& why);
  void SendIdentity(FramedLink* link, FrameType type);
  void Send(FramedLink* link, DoctorMessage message, uint64_t sequence = 0,
            const std::string& text = "", uint64_t total = 0);
  void SendFacts(FramedLink* link) {
    Send(link, DoctorMessage::kFacts, 0, options_.facts);
  }
  void SendPing(Dial* dial);
  void BeginData(Dial* dial);
  void SendData(Dial* dial);
  void EndData(int peer, bool stalled);
  void SetReach(int peer, PeerReport::Reach reach, const std::string& reason);
  void Finish(int peer);
  void Pause(Dial* dial);
  void Drop(std::unique_ptr<FramedLink>* link);
  int64_t NanosInState(State state, const Dial& dial) const {
    return dial.state == state ? now_ - dial.since : -1;
  }

  const Options options_;
  Transport* const transport_;
  Clock* const clock_;
  const std::vector<uint8_t> data_;  // the bytes of the frames of data
  std::vector<PeerReport> reports_;  // the report of each worker
  std::vector<Dial> dials_;          // the connection to each worker
  std::vector<bool> measured_here_;  // true for each worker that has sent kDone
  std::vector<Accepted> accepted_;
  std::vector<std::unique_ptr<FramedLink>> closed_;  // deleted by the next tick
  std::vector<std::string> refusals_;
  int64_t lingers_until_ = INT64_MIN;
  // The worker to which a link is being measured; -1 if there is none.
  int measured_worker_ = -1;
  int64_t now_ = 0;
};

}  // namespace ringlet

#endif  // RINGLET_NET_DOCTOR_EXCHANGE_H_
