// Handshake: the identity of the other side, and the frames that it may send.
//
// Pure. The connecting side sends kHello with its identity; the listening side
// answers kWelcome with its own, or kReject with the reason as text. Each side
// compares the other's identity with its own configuration.
//
//   OFFSET SIZE  payload of kHello and kWelcome
//    0      1    byte order of floats: 1 little-endian
//    1      1    implementation of the collectives, RingImplementation
//    2      2    worker: the sender's number in the list
//    4      2    size of the world
//    6      2    length of the job's name, at most kMaxJobBytes
//    8      8    incarnation, drawn at start
//   16      8    cluster hash: of all addresses in the order of the list
//   24      4    timeout in milliseconds
//   28      1    dtype of long all-reduces, WireDtype
//   29      1    links: 0 of every pair, 1 some (net/collective/topology.h)
//   30      1    min_workers of an elastic ring; zero if all workers take part
//   31      1    reserved, 0
//   32      8    bytes_per_pack
//   40           the job's name
//
// A worker that cannot take part sends kWithdraw to each other worker, instead
// of kHello and as the answer to kHello. The answer kWelcome confirms it. In
// the header of this kWelcome, bit w of `total` is 1 if the answering worker
// reports the withdrawal to worker w. Only workers below 64 have a bit.
//
//   OFFSET SIZE  payload of kWithdraw
//    0      1    Code of the reason
//    1      1    reserved, 0
//    2      2    length of the identity
//    4           the identity, as above; then the reason as text

#ifndef RINGLET_NET_WIRE_HANDSHAKE_H_
#define RINGLET_NET_WIRE_HANDSHAKE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "frame.h"

namespace ringlet {

constexpr size_t kMaxJobBytes = 256;
constexpr double kHandshakeSeconds = 2;
// The most bytes of a text in a frame.
constexpr size_t kTextBytes = 400;

struct Identity {
  std::string job;
  int worker = 0;
  int size = 1;
  uint64_t incarnation = 0;
  uint64_t cluster_hash = 0;
  uint32_t timeout_ms = 0;
  uint64_t bytes_per_pack = 0;
  uint8_t implementation = 0;
  uint8_t dtype = 0;
  uint8_t links = 0;
  uint8_t min_workers = 0;
  // The byte order of the sent numbers: always little-endian.
  uint8_t byte_order = 1;
};

// FNV-1a, 64 bits, of the addresses with a zero byte after each.
uint64_t ClusterHash(const std::vector<std::string>& addresses);

std::vector<uint8_t> EncodeIdentity(const Identity& identity);
Status DecodeIdentity(const uint8_t* payload, size_t bytes, Identity* out);

// OK if `peer` may be linked with `self`. Otherwise kInvalidArgument names the
// difference and both sides. `expected_worker` is -1 on the listening side, to
// which any worker of a higher number may connect.
Status CheckPeer(const Identity& self, const Identity& peer,
                 int expected_worker);

// The version of the program, as the sequence of kHello and kWelcome: major,
// minor and patch of 16 bits each. Earlier programs send 0.
uint64_t ProgramVersion();
// kInvalidArgument, with both versions, if `peer_version` is known and differs
// from `own_version`: numbers may differ too. Compile compares the rest.
Status CheckVersion(int worker, uint64_t own_version, int peer,
                    uint64_t peer_version);

struct Withdraw {
  Identity identity;
  Status reason;
};
std::vector<uint8_t> EncodeWithdraw(const Withdraw& withdraw);
Status DecodeWithdraw(const uint8_t* payload, size_t bytes, Withdraw* out);
// OK if `peer` belongs to the same list of the same job. Its options are not
// compared, since it may have been unable to read them. For the same reason an
// empty name on either side matches every job.
Status CheckMember(const Identity& self, const Identity& peer);
// The Code of a byte from the wire; kInternal if it is not a Code.
Code CodeOf(uint64_t value);

// The phases of a link. The connecting side has kConnecting -> kAwaitWelcome ->
// kUp. The listening side has kAwaitHello -> kUp, or kAwaitWelcome after it has
// answered a hello with its own withdrawal. kDoctor takes the place of kUp
// between two doctors. kLeft follows after a goodbye.
// kClosed may follow after every phase.
enum class LinkPhase : uint8_t {
  kConnecting,    // no byte may arrive
  kAwaitWelcome,  // kHello or kWithdraw was sent
  kAwaitHello,    // accepted; the other side is unknown
  kUp,            // member: all but kDoctor and the types of the handshake
  kDoctor,        // the other side is a doctor: only kDoctor
  kLeft,          // has sent a goodbye: no byte may arrive
  kClosed,
};
bool PhaseMayFollow(LinkPhase from, LinkPhase to);
// The (phase x type) table of what may arrive.
bool FrameIsLegal(LinkPhase phase, FrameType type);

// Text from another process: only printable ASCII, at most 400 bytes of it.
std::string PrintableAscii(const uint8_t* text, size_t bytes);

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_HANDSHAKE_H_
