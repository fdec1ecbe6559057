// ringlet relay: connects workers that can only dial out.

#include <unistd.h>

#include "../command_line.h"
#include "commands.h"
#include "net/relay/relay.h"
#include "ringlet/status.h"

namespace ringlet {
namespace {

constexpr char kAbout[] =
    R"(Connects workers that can only dial out, behind a router or a firewall.
ADDRESS is a port, on all of this host's addresses, or one of them with a port.
The relay needs no key: data are sealed from worker to worker (docs/security.md).
)";

constexpr char kMore[] = R"(
Example: ringlet relay 7000
and in each worker's RUN.json: "strategy": {"relay": "relay.example:7000"}
)";

}  // namespace

int RelayCommand(const std::vector<std::string>& line) {
  RelayOptions options;
  int64_t connections = options.connections;
  CommandLine flags("relay", "ADDRESS", kAbout, kMore);
  flags.Int("--connections", 2, 65536, &connections,
            "most connections at a time (256): two for each pair of\n"
            "workers, and one for each joining worker");
  int code = 0;
  if (!flags.Parse(line, 1, 1, &code)) return code;
  options.connections = static_cast<int>(connections);
  options.address = flags.arguments()[0];
  std::unique_ptr<Relay> relay;
  const Status started = Relay::Start(options, &relay);
  if (!started.ok()) return InputExitCode(started);
  Print("relays at %s", options.address.c_str());
  for (;;) pause();  // until a signal ends the process
}

}  // namespace ringlet
