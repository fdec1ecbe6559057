#include "sim_process.h"

#include <utility>

#include "../transport/cut_stream.h"
#include "net/transport/shared_stream.h"

namespace ringlet {
namespace sim {

void SimProcess::EndSession() {
  session_.reset();
  StopListening();
  ++session_number_;
}

void SimProcess::EndProcess(bool silent) {
  if (silent) network()->Silence(rank_, /*silent=*/true);
  network()->Kill(rank_);
  StopListening();
  ++session_number_;
  ++timer_;
  session_.reset();
}

void SimProcess::InSession(int64_t delay, std::function<void()> what) {
  const uint64_t number = session_number_;
  network()->InProcess(rank_, delay, [this, number, what = std::move(what)] {
    if (number == session_number_) what();
  });
}

Status SimProcess::Listen() {
  network()->Listen(rank_, this);
  return Status();
}

void SimProcess::StopListening() { network()->Listen(rank_, nullptr); }

void SimProcess::Accept(StreamPtr stream) {
  if (stream->is_local() && shares()) {
    stream = SharedStream::Expect(std::move(stream));
  }
  Seal(SealedStream::Accept, rank_, &stream);
  DrawDelivery(&stream);
  session_->OnAccepted(std::move(stream), Now());
}

void SimProcess::Seal(SealedStream::Maker* make, int listens,
                      StreamPtr* stream) {
  if (keys_ == nullptr || (*stream)->is_local()) return;
  uint8_t secret[kNoiseKeyBytes];
  for (uint8_t& byte : secret) {
    byte = static_cast<uint8_t>(network()->Random(256));
  }
  const ListenerIdentity meant{1, 2, static_cast<uint16_t>(listens)};
  *stream = make(std::move(*stream), keys_, meant, secret, &answered_);
}

Status SimProcess::Resolve(int peer, bool* done,
                           std::vector<Endpoint>* endpoints) {
  *done = ++lookups_ % 3 != 0;
  if (!*done) return Error(Code::kUnavailable, "not yet");
  if (lookups_ % 16 == 1) return Error(Code::kNotFound, "no such name");
  if ((peer + rank_) % 3 == 0)
    endpoints->push_back(SimEndpoint(peer, /*local=*/true));
  endpoints->push_back(SimEndpoint(peer, /*local=*/false));
  return Status();
}

Status SimProcess::Connect(int peer, const Endpoint& endpoint, StreamPtr* out) {
  RINGLET_RETURN_IF_ERROR(network()->Connect(rank_, endpoint, out));
  if (endpoint.local && shares()) *out = SharedStream::Offer(std::move(*out));
  Seal(SealedStream::Connect, peer, out);
  DrawDelivery(out);
  return Status();
}

// Makes every other stream a CutStream, with random cuts.
void SimProcess::DrawDelivery(StreamPtr* stream) {
  if (network()->Chance(2)) return;
  Network* const chance = network();
  *stream = CutStream::Make(std::move(*stream), [chance](size_t most) {
    if (chance->Chance(4)) return most;
    return 1 + static_cast<size_t>(chance->Random(static_cast<int64_t>(most)));
  });
}

void SimProcess::TickEvery(int64_t nanos) {
  every_ = nanos;
  TickLater(++timer_);
}

void SimProcess::TickLater(uint64_t timer) {
  InSession(every_, [this, timer] {
    if (timer != timer_) return;
    TickLater(timer);
    session_->Tick(Now());
  });
}

void SimProcess::RequestTurn() {
  if (turn_) return;
  turn_ = true;
  InSession(network()->Random(20000), [this] {
    turn_ = false;
    session_->RunTurn(Now());
  });
}

void SimProcess::OnLeft() {
  ++timer_;
  InSession(0, [this] { Closed(); });
}

}  // namespace sim
}  // namespace ringlet
