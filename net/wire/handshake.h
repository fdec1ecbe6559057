// Handshake: who is at the other end, and which frames it may send when.
//
// Internal to net/. Pure. The connecting side sends kHello with its identity;
// the listening side answers kWelcome with its own, or kReject with the reason
// as text. Each compares the other's with what it was configured with.
//
//   OFFSET SIZE  payload of kHello and kWelcome
//    0      1    byte order of floats: 1 little-endian
//    1      1    implementation of the collectives, RingImplementation
//    2      2    rank
//    4      2    size of the world
//    6      2    length of the job's name, at most kMaxJobBytes
//    8      8    incarnation, drawn at start
//   16      8    cluster hash: of all addresses in rank order
//   24      4    timeout in milliseconds
//   28      1    dtype of long all-reduces, WireDtype
//   29      1    links: 0 of every pair, 1 some (net/ring/topology.h)
//   30      1    min_workers of an elastic ring; 0: all workers take part
//   31      1    reserved, 0
//   32      8    bytes_per_pack
//   40           the job's name
//
// A worker that cannot take part says so to each other, instead of kHello and
// in answer to it, and is answered by kWelcome: it was heard. Bit r of that
// header's total: rank r, below 64, hears of it from the one that answers.
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
// The most of a text in a frame.
constexpr size_t kTextBytes = 400;

struct Identity {
  std::string job;
  int rank = 0;
  int size = 1;
  uint64_t incarnation = 0;
  uint64_t cluster_hash = 0;
  uint32_t timeout_ms = 0;
  uint64_t bytes_per_pack = 0;
  uint8_t implementation = 0;
  uint8_t dtype = 0;
  uint8_t links = 0;
  uint8_t min_workers = 0;
  uint8_t byte_order = 1;  // of what it sends: always little-endian
};

// FNV-1a, 64 bits, of the addresses with a zero byte after each.
uint64_t ClusterHash(const std::vector<std::string>& addresses);

std::vector<uint8_t> EncodeIdentity(const Identity& identity);
Status DecodeIdentity(const uint8_t* payload, size_t bytes, Identity* out);

// OK where `peer` may be linked with `self`; otherwise kInvalidArgument says
// what differs, naming both sides. `expected_rank` is -1 on the listening
// side, where any higher rank may come.
Status CheckPeer(const Identity& self, const Identity& peer, int expected_rank);

struct Withdraw {
  Identity identity;
  Status reason;
};
std::vector<uint8_t> EncodeWithdraw(const Withdraw& withdraw);
Status DecodeWithdraw(const uint8_t* payload, size_t bytes, Withdraw* out);
// OK where `peer` belongs to the same list of the same job, whatever its
// options: it may have been unable to read them. So a job without a name, of
// either, is every job.
Status CheckMember(const Identity& self, const Identity& peer);
// The Code that a byte from the wire stands for; kInternal where it is none.
Code CodeOf(uint64_t value);

// The life of a link. kConnecting -> kAwaitWelcome -> kUp is that of the side
// that connects, kAwaitHello -> kUp of the one that listens; that goes to
// kAwaitWelcome where it answers a hello with its own withdrawal. Then kLeft
// after a goodbye; kClosed from everywhere.
enum class LinkPhase : uint8_t {
  kConnecting,    // no byte may come
  kAwaitWelcome,  // kHello or kWithdraw was sent
  kAwaitHello,    // accepted, nothing is known of the other side
  kUp,            // member: all but the types of the handshake
  kLeft,          // said goodbye: no byte may come
  kClosed,
};
bool PhaseMayFollow(LinkPhase from, LinkPhase to);
// The (phase x type) table of what may arrive.
bool FrameIsLegal(LinkPhase phase, FrameType type);

// Text from another process: only printable ASCII, at most 400 bytes of it.
std::string Printable(const uint8_t* text, size_t bytes);

}  // namespace ringlet

#endif  // RINGLET_NET_WIRE_HANDSHAKE_H_
