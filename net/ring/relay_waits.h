// RelayWaits: the connections by which a worker waits at a relay for those that
// would dial it.
//
// Internal to net/. One for each that may come, and once it has another; where
// one ends, as it does with the relay, it is made anew after a pause. The
// relay's name is looked up again then, and where it has several addresses
// those that nobody answers at give way to the next.

#ifndef RINGLET_NET_RING_RELAY_WAITS_H_
#define RINGLET_NET_RING_RELAY_WAITS_H_

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
    // A stream of one who has come; to be started before this returns, or let
    // go of.
    virtual void OnJoined(StreamPtr stream, int64_t now) = 0;
    // For the user: the relay is out of reach.
    virtual void OnNoRelay(const std::string& why) = 0;

   protected:
    ~Owner() = default;
  };

  // All outlive it. `text` is the address as it was given.
  RelayWaits(UvHandles* handles, const Address& relay, const std::string& text,
             Owner* owner);
  ~RelayWaits();

  void Add(const RelayHello& hello);
  size_t size() const { return waits_.size(); }
  // Connects those whose time has come.
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
  bool told_ = false;  // OnNoRelay, since it was last there
};

}  // namespace ringlet

#endif  // RINGLET_NET_RING_RELAY_WAITS_H_
