// RelayWaits: the connections by which a worker waits at a relay for its peers.
//
// There is one connection for each peer that may connect. When a peer uses it,
// the next one is opened. A connection that ends, as when the relay restarts,
// is opened again after a pause. The relay's name is then looked up again. If
// the relay has several addresses, an address without an answer is followed by
// the next.

#ifndef RINGLET_NET_TRANSPORT_RELAY_WAITS_H_
#define RINGLET_NET_TRANSPORT_RELAY_WAITS_H_

#include <memory>
#include <string>
#include <vector>

#include "name_lookup.h"
#include "relay_stream.h"
#include "uv_stream.h"

namespace ringlet {

class RelayWaits {
 public:
  class Owner {
   public:
    // The stream of a peer that has connected; the owner starts it before it
    // returns, or drops it.
    virtual void OnJoined(StreamPtr stream, int64_t now) = 0;
    // The relay is out of reach; `why` is for the user.
    virtual void OnNoRelay(const std::string& why) = 0;

   protected:
    ~Owner() = default;
  };

  // All arguments outlive the RelayWaits. `text` is the relay's address as the
  // user wrote it.
  RelayWaits(UvHandles* handles, const Address& relay, const std::string& text,
             Owner* owner);
  ~RelayWaits();

  void Add(const RelayHello& hello);
  size_t size() const { return waits_.size(); }
  // Opens the connections that are due.
  void Tick(int64_t now);
  void Close();

 private:
  class Wait;
  void Connect(Wait* wait, int64_t now);
  void Ended(Wait* wait, const Status& why, int64_t now);

  UvHandles* const handles_;
  const Address relay_;
  const std::string text_;
  Owner* const owner_;
  std::unique_ptr<NameLookup> lookup_;
  std::vector<std::unique_ptr<Wait>> waits_;
  bool reported_ = false;  // OnNoRelay, since the relay last answered
};

}  // namespace ringlet

#endif  // RINGLET_NET_TRANSPORT_RELAY_WAITS_H_
