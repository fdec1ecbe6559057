// LinkChecks: an exchange of doctors (exchange.h) on libuv.
//
// Owns a loop and its thread. One thread calls Start, Finish and then the rest.

#ifndef RINGLET_NET_DOCTOR_LINK_CHECKS_H_
#define RINGLET_NET_DOCTOR_LINK_CHECKS_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../cluster/ring_options.h"
#include "../transport/name_lookup.h"
#include "../transport/own_addresses.h"
#include "../transport/sealed_stream.h"
#include "../transport/uv_stream.h"
#include "exchange.h"
#include "finding.h"
#include "host_checks.h"
#include "peer_checks.h"

namespace ringlet {

class LinkChecks final : private DoctorExchange::Transport,
                         private UvListener::Owner {
 public:
  // `hosts` are the parsed addresses of `ring`, which CheckRingOptions accepts.
  // `context` lacks what the host decides: listens, packet_bytes.
  LinkChecks(const RingOptions& ring, std::vector<Address> hosts,
             PeerContext context);
  ~LinkChecks();
  LinkChecks(const LinkChecks&) = delete;
  LinkChecks& operator=(const LinkChecks&) = delete;

  // Begins, and returns after the own name is resolved, at most `seconds`.
  Status Start(double seconds);
  // Waits until all is done, at most `seconds`, and ends.
  void Finish(double seconds);
  // Call it after Finish. `name_seconds` is how long the lookup of names took.
  void AddFindings(double name_seconds, Findings* out) const;
  // A worker of this job has this worker's port.
  bool holds_job() const;

 private:
  Status Connect(int peer, StreamPtr* out) override;
  void OnConnection(UvListener* listener) override;

  void Begin();
  void Listen();
  void Tick();
  void End();
  NameFacts MakeNameFacts(int worker) const;
  Status Seal(SealedStream::Maker* make, int listens, StreamPtr* stream);

  const RingOptions ring_;
  const std::vector<Address> hosts_;
  const uint64_t cluster_hash_;
  PeerContext context_;
  OwnAddresses own_;
  Status listen_status_;
  // The lookup of each worker's name.
  std::vector<std::unique_ptr<NameLookup>> lookups_;
  std::vector<size_t> next_address_;  // the next address of each worker
  SeenGreetings answered_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<UvHandles> handles_;
  std::vector<std::unique_ptr<UvListener>> listeners_;
  std::unique_ptr<DoctorExchange> exchange_;
  uv_timer_t timer_;
  bool has_timer_ = false;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool done_ = false;    // the exchange
  bool closed_ = false;  // all handles
};

}  // namespace ringlet

#endif  // RINGLET_NET_DOCTOR_LINK_CHECKS_H_
