// A link that is closed in one of its own events is deleted by the next Tick
// (Drop), since its caller still uses it. One link is measured at a time
// (measured_worker_), so that measurements do not share this host's bandwidth.

#include "exchange.h"

#include <algorithm>
#include <utility>

#include "../../core/base/time_units.h"

namespace ringlet {
namespace {

// Larger than the maximal transmission unit of any common network, so that its
// packets are the largest that a job will send.
static_assert(DoctorExchange::kFirstFrameBytes > 9000);
constexpr size_t kMaxRefusals = 8;
constexpr int kMostClosed = 3;
constexpr int64_t kLingerNanos = 1500 * kMillisecond;

std::string Ascii(const std::string& text) {
  return PrintableAscii(reinterpret_cast<const uint8_t*>(text.data()),
                        text.size());
}

}  // namespace

DoctorExchange::DoctorExchange(const Options& options, Transport* transport,
                               Clock* clock)
    : options_(options),
      transport_(transport),
      clock_(clock),
      data_(kSegmentBytes),
      reports_(static_cast<size_t>(options.self.size)),
      dials_(static_cast<size_t>(options.self.size)),
      measured_here_(static_cast<size_t>(options.self.size)) {
  if (options_.listens) {
    dials_[static_cast<size_t>(options_.self.worker)].state = State::kFinal;
  }
}

DoctorExchange::~DoctorExchange() { Close(); }

void DoctorExchange::Close() {
  for (Dial& dial : dials_) Drop(&dial.link);
  for (Accepted& accepted : accepted_) Drop(&accepted.link);
  accepted_.clear();
  closed_.clear();
}

// A link may be closed in one of its events, and is deleted later.
void DoctorExchange::Drop(std::unique_ptr<FramedLink>* link) {
  if (*link == nullptr) return;
  (*link)->Close();
  closed_.push_back(std::move(*link));
}

bool DoctorExchange::IsDialled(const FramedLink* link) const {
  return link->peer >= 0 &&
         dials_[static_cast<size_t>(link->peer)].link.get() == link;
}

// Dialling.

void DoctorExchange::Connect(int peer) {
  Dial& dial = dials_[static_cast<size_t>(peer)];
  dial.since = now_;
  dial.connected = false;
  StreamPtr stream;
  const Status status = transport_->Connect(peer, &stream);
  if (!status.ok()) {
    SetReach(peer, PeerReport::Reach::kNone, status.message());
    return;
  }
  FramedLink::Owner* const self = this;
  dial.state = State::kHandshake;
  dial.link = std::make_unique<FramedLink>(std::move(stream),
                                           LinkPhase::kConnecting, self);
  dial.link->peer = peer;
  if (dial.link->open()) Greet(dial.link.get());
}

void DoctorExchange::Greet(FramedLink* link) {
  DialOf(link).connected = true;
  link->SetPhase(LinkPhase::kAwaitWelcome);
  SendIdentity(link, FrameType::kHello);
}

void DoctorExchange::OnConnected(FramedLink* link, int64_t now) {
  now_ = now;
  if (IsDialled(link)) Greet(link);
}

void DoctorExchange::SendIdentity(FramedLink* link, FrameType type) {
  const std::vector<uint8_t> payload = EncodeIdentity(options_.self);
  FrameHeader header;
  header.type = type;
  header.generation = 1;
  header.sequence = ProgramVersion();
  header.source = WorkerOnWire(options_.self.worker);
  header.destination = WorkerOnWire(link->peer);
  header.chunk = kFeatureProbes | kFeatureDoctor;
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  link->Send(header, payload.data());
}

void DoctorExchange::SetReach(int peer, PeerReport::Reach reach,
                              const std::string& reason) {
  PeerReport& report = reports_[static_cast<size_t>(peer)];
  report.reach = reach;
  report.reason = Ascii(reason);
}

// The report about the worker is complete.
void DoctorExchange::Finish(int peer) {
  Dial& dial = dials_[static_cast<size_t>(peer)];
  dial.state = State::kFinal;
  if (measured_worker_ == peer) measured_worker_ = -1;
  Drop(&dial.link);
}

// The worker is dialled again later.
void DoctorExchange::Pause(Dial* dial) {
  Drop(&dial->link);
  dial->state = State::kPause;
  dial->since = now_;
}

void DoctorExchange::Tick(int64_t now) {
  now_ = now;
  closed_.clear();
  for (size_t r = 0; r < dials_.size(); ++r) TickDial(static_cast<int>(r));
  for (size_t i = accepted_.size(); i-- > 0;) {
    Accepted& accepted = accepted_[i];
    const bool greets = accepted.link->peer < 0;
    const bool late = greets && now - accepted.since > kHandshakeNanos;
    if (!late && !accepted.link->closed() && !accepted.link->overflowed()) {
      continue;
    }
    Drop(&accepted.link);
    accepted_.erase(accepted_.begin() + static_cast<ptrdiff_t>(i));
  }
}

void DoctorExchange::TickDial(int peer) {
  Dial& dial = dials_[static_cast<size_t>(peer)];
  if (dial.link != nullptr && dial.link->overflowed()) return Finish(peer);
  if (NanosInState(State::kPause, dial) >=
      (dial.since == 0 ? 0 : kPauseNanos)) {
    return Connect(peer);
  }
  if (NanosInState(State::kHandshake, dial) > kHandshakeNanos) {
    dial.connected
        ? SetReach(peer, PeerReport::Reach::kSilent, "")
        : SetReach(peer, PeerReport::Reach::kNone, "no answer within 3 s");
    return Pause(&dial);
  }
  if (NanosInState(State::kPings, dial) > kStallNanos) return Finish(peer);
  if (dial.state == State::kQueued && measured_worker_ < 0) BeginData(&dial);
  if (dial.state != State::kTransfer) return;
  const bool measured = dial.acked > 0 && now_ - dial.first_sent >= kDataNanos;
  const bool stalls = now_ - dial.since > kStallNanos;
  if (measured && dial.acked == dial.sent)
    return EndData(peer, /*stalled=*/false);
  if (stalls) EndData(peer, /*stalled=*/true);
}

bool DoctorExchange::done() const {
  if (now_ < lingers_until_) return false;
  for (size_t r = 0; r < dials_.size(); ++r) {
    if (dials_[r].state != State::kFinal) return false;
    const bool other = static_cast<int>(r) != options_.self.worker;
    const bool is_doctor = reports_[r].reach == PeerReport::Reach::kDoctor;
    if (options_.listens && other && is_doctor && !measured_here_[r]) {
      return false;
    }
  }
  return true;
}

// Accepting.

void DoctorExchange::OnAccepted(StreamPtr stream, int64_t now) {
  now_ = now;
  if (accepted_.size() >= 2 * dials_.size() + 8) {
    const auto oldest = std::find_if(
        accepted_.begin(), accepted_.end(),
        [](const Accepted& accepted) { return accepted.link->peer < 0; });
    if (oldest == accepted_.end()) return;  // closes the stream
    Drop(&oldest->link);
    accepted_.erase(oldest);
  }
  FramedLink::Owner* const self = this;
  Accepted accepted;
  accepted.since = now;
  accepted.link = std::make_unique<FramedLink>(std::move(stream),
                                               LinkPhase::kAwaitHello, self);
  accepted_.push_back(std::move(accepted));
}

void DoctorExchange::Refuse(FramedLink* link, const std::string& why) {
  // The text has no port, since the port differs each time.
  const std::string& remote = link->stream().remote();
  const std::string line =
      remote.substr(0, remote.rfind(':')) + ": " + Ascii(why);
  const bool known =
      std::find(refusals_.begin(), refusals_.end(), line) != refusals_.end();
  if (!known && refusals_.size() < kMaxRefusals) refusals_.push_back(line);
  FrameHeader header;
  header.type = FrameType::kReject;
  header.payload_bytes =
      static_cast<uint32_t>(std::min<size_t>(why.size(), kTextBytes));
  link->Send(header, reinterpret_cast<const uint8_t*>(why.data()));
  link->Close();
}

Status DoctorExchange::OnHello(FramedLink* link, const FrameHeader& header,
                               const uint8_t* payload) {
  Identity peer;
  RINGLET_RETURN_IF_ERROR(DecodeIdentity(payload, header.payload_bytes, &peer));
  Status fits = CheckMember(options_.self, peer);
  if (fits.ok() && (peer.worker >= options_.self.size ||
                    peer.worker == options_.self.worker)) {
    fits = InvalidArgument(
        "both are worker %d: give every worker its own index", peer.worker);
  }
  if (!fits.ok()) {
    Refuse(link, fits.message());
    return Status();
  }
  if ((FeaturesOf(header) & kFeatureDoctor) == 0) {
    FrameHeader reject;
    reject.type = FrameType::kReject;
    constexpr char kText[] =
        "ringlet doctor holds this worker's port for a few seconds";
    reject.payload_bytes = sizeof(kText) - 1;
    link->Send(reject, reinterpret_cast<const uint8_t*>(kText));
    link->Close();
    return Status();
  }
  link->peer = peer.worker;
  link->SetPhase(LinkPhase::kDoctor);
  reports_[static_cast<size_t>(peer.worker)].reaches_this = true;
  SendIdentity(link, FrameType::kWelcome);
  SendFacts(link);
  return Status();
}

Status DoctorExchange::OnWelcome(FramedLink* link, const FrameHeader& header,
                                 const uint8_t* payload) {
  Identity peer;
  RINGLET_RETURN_IF_ERROR(DecodeIdentity(payload, header.payload_bytes, &peer));
  const Status fits = CheckPeer(options_.self, peer, link->peer);
  const int worker = link->peer;
  if (!fits.ok()) {
    SetReach(worker, PeerReport::Reach::kRefused, fits.message());
    Finish(worker);
    return Status();
  }
  if ((FeaturesOf(header) & kFeatureDoctor) == 0) {
    SetReach(worker, PeerReport::Reach::kJob, "");
    Finish(worker);
    return Status();
  }
  SetReach(worker, PeerReport::Reach::kDoctor, "");
  Dial& dial = DialOf(link);
  dial.state = State::kPings;
  link->SetPhase(LinkPhase::kDoctor);
  SendFacts(link);
  SendPing(&dial);
  return Status();
}

// Measuring.

void DoctorExchange::Send(FramedLink* link, DoctorMessage message,
                          uint64_t sequence, const std::string& text,
                          uint64_t total) {
  FrameHeader header;
  header.type = FrameType::kDoctor;
  header.chunk = static_cast<uint32_t>(message);
  header.sequence = sequence;
  header.total = total;
  header.source = WorkerOnWire(options_.self.worker);
  header.destination = WorkerOnWire(link->peer);
  header.payload_bytes = static_cast<uint32_t>(text.size());
  link->Send(header, reinterpret_cast<const uint8_t*>(text.data()));
}

void DoctorExchange::SendPing(Dial* dial) {
  dial->since = dial->ping_sent = now_;
  Send(dial->link.get(), DoctorMessage::kPing, ++dial->ping);
}

void DoctorExchange::BeginData(Dial* dial) {
  measured_worker_ = dial->link->peer;
  dial->state = State::kTransfer;
  dial->since = dial->first_sent = now_;
  for (size_t at = 0; at < options_.settings.size(); at += kEagerBytes) {
    Send(dial->link.get(), DoctorMessage::kSettings, 0,
         options_.settings.substr(at, kEagerBytes));
  }
  SendData(dial);
}

// The first frame is alone, so that a slow link is not taken for a link that
// moves nothing.
void DoctorExchange::SendData(Dial* dial) {
  const bool time_left = now_ - dial->first_sent < kDataNanos;
  const uint64_t window = dial->acked == 0 ? 1 : kWindow;
  while (dial->sent < kMostFrames && dial->sent - dial->acked < window &&
         (time_left || dial->sent == 0) && dial->link->has_room()) {
    FrameHeader header;
    header.type = FrameType::kDoctor;
    header.chunk = static_cast<uint32_t>(DoctorMessage::kData);
    header.sequence = ++dial->sent;
    header.source = WorkerOnWire(options_.self.worker);
    header.destination = WorkerOnWire(dial->link->peer);
    header.payload_bytes = dial->sent == 1 ? kFirstFrameBytes : kSegmentBytes;
    dial->link->SendBorrowed(header, data_.data());
  }
}

void DoctorExchange::EndData(int peer, bool stalled) {
  Dial& dial = dials_[static_cast<size_t>(peer)];
  PeerReport& report = reports_[static_cast<size_t>(peer)];
  report.stalled = stalled;
  report.data_nanos = std::max<int64_t>(1, dial.since - dial.first_sent);
  const auto later =
      static_cast<int64_t>(std::max<uint64_t>(dial.acked, 1) - 1);
  report.data_bytes =
      dial.acked == 0 ? 0 : kFirstFrameBytes + later * int64_t{kSegmentBytes};
  Send(dial.link.get(), DoctorMessage::kDone);
  Finish(peer);
}

Status DoctorExchange::OnDialledMessage(FramedLink* link,
                                        const FrameHeader& header) {
  Dial& dial = DialOf(link);
  PeerReport& report = reports_[static_cast<size_t>(link->peer)];
  const auto message = static_cast<DoctorMessage>(header.chunk);
  if (message == DoctorMessage::kPong && dial.state == State::kPings &&
      header.sequence == dial.ping) {
    const int64_t took = std::max<int64_t>(1, now_ - dial.ping_sent);
    if (report.round_trip < 0 || took < report.round_trip) {
      report.round_trip = took;
      // Any 64 bits: subtracted without overflow.
      report.clock_ahead = static_cast<int64_t>(
          header.total - static_cast<uint64_t>(clock_->WallNanos()) +
          static_cast<uint64_t>(took / 2));
    }
    if (dial.ping < kPings) {
      SendPing(&dial);
    } else {
      dial.state = State::kQueued;
    }
    return Status();
  }
  if (message == DoctorMessage::kAck && dial.state == State::kTransfer &&
      header.sequence > dial.acked && header.sequence <= dial.sent) {
    dial.acked = header.sequence;
    dial.since = now_;
    SendData(&dial);
    if (dial.acked == dial.sent) EndData(link->peer, /*stalled=*/false);
    return Status();
  }
  return Corruption(
      "a doctor's message %u out of turn; run the same ringlet on all workers",
      header.chunk);
}

Status DoctorExchange::OnAcceptedMessage(FramedLink* link,
                                         const FrameHeader& header,
                                         const uint8_t* payload) {
  const auto worker = static_cast<size_t>(link->peer);
  PeerReport& report = reports_[worker];
  switch (static_cast<DoctorMessage>(header.chunk)) {
    case DoctorMessage::kPing:
      Send(link, DoctorMessage::kPong, header.sequence, "",
           static_cast<uint64_t>(clock_->WallNanos()));
      return Status();
    case DoctorMessage::kSettings:
      if (report.settings.size() + header.payload_bytes > kSettingsBytes) {
        return Corruption("settings of more than %zu bytes", kSettingsBytes);
      }
      report.settings.append(reinterpret_cast<const char*>(payload),
                             header.payload_bytes);
      return Status();
    case DoctorMessage::kData:
      Send(link, DoctorMessage::kAck, header.sequence);
      return Status();
    case DoctorMessage::kDone:
      measured_here_[worker] = true;
      return Status();
    default:
      return Corruption(
          "a doctor's message %u out of turn; run the same ringlet on all "
          "workers",
          header.chunk);
  }
}

// Events of all links.

Status DoctorExchange::OnHeader(FramedLink*, const FrameHeader& header,
                                ReceiveTarget* receive_target) {
  const bool data = header.type == FrameType::kDoctor &&
                    header.chunk == static_cast<uint32_t>(DoctorMessage::kData);
  receive_target->mode =
      data ? ReceiveTarget::kDiscard : ReceiveTarget::kBuffer;
  return Status();
}

Status DoctorExchange::OnFrame(FramedLink* link, const FrameHeader& header,
                               const uint8_t* payload) {
  const bool dialled = IsDialled(link);
  const int worker = link->peer;
  switch (header.type) {
    case FrameType::kHello:
      return OnHello(link, header, payload);
    case FrameType::kWelcome:
      return OnWelcome(link, header, payload);
    case FrameType::kWithdraw:  // of a job that cannot start
    case FrameType::kReject:
      if (!dialled) return Corruption("a withdrawal");
      SetReach(worker, PeerReport::Reach::kRefused,
               header.type == FrameType::kReject
                   ? PrintableAscii(payload, header.payload_bytes)
                   : "its job cannot start");
      Finish(worker);
      return Status();
    case FrameType::kDoctor:
      if (header.chunk != static_cast<uint32_t>(DoctorMessage::kFacts)) {
        return dialled ? OnDialledMessage(link, header)
                       : OnAcceptedMessage(link, header, payload);
      }
      if (header.payload_bytes > kFactsBytes) return Corruption("long facts");
      reports_[static_cast<size_t>(worker)].facts.assign(
          reinterpret_cast<const char*>(payload), header.payload_bytes);
      return Status();
    default:
      return Corruption("a %s frame out of turn", FrameTypeName(header.type));
  }
}

void DoctorExchange::OnDown(FramedLink* link, LossCause cause,
                            const Status& why, int64_t now) {
  now_ = now;
  if (!IsDialled(link)) {
    const bool greets = link->peer < 0;
    if (greets && cause == LossCause::kProtocol) {
      return Refuse(link, why.message());
    }
    return link->Close();
  }
  const int worker = link->peer;
  Dial& dial = DialOf(link);
  if (dial.state != State::kHandshake) return Finish(worker);
  const bool closed = cause == LossCause::kExited;
  if (cause == LossCause::kProtocol) {
    // Another code is a worker's: it has a key, or another version.
    SetReach(worker,
             why.code() == Code::kCorruption ? PeerReport::Reach::kForeign
                                             : PeerReport::Reach::kRefused,
             why.message());
    return Finish(worker);
  }
  if (closed && dial.connected) {
    // A doctor with a key also closes the connection. It dials this worker,
    // which then knows that it is a doctor.
    if (!options_.sealed && options_.listens) {
      lingers_until_ = std::max(lingers_until_, now_ + kLingerNanos);
    }
    SetReach(worker, PeerReport::Reach::kJob, "");
    // Once may be a doctor that strangers keep busy.
    if (++dial.closed == kMostClosed - 1) return Finish(worker);
    return Pause(&dial);
  }
  // Once may be a worker that has just ended. A doctor that has refused this
  // key may have ended too, so that nothing listens there now.
  const bool refuses_key = closed && options_.sealed;
  if (refuses_key) {
    SetReach(worker, PeerReport::Reach::kSealed, why.message());
  } else if (dial.closed == 0) {
    SetReach(worker, PeerReport::Reach::kNone, why.message());
  }
  if (refuses_key || dial.closed > 0) ++dial.closed;
  if (dial.closed == kMostClosed) return Finish(worker);
  Pause(&dial);
}

}  // namespace ringlet
