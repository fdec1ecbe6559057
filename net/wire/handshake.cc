// Offsets are from the header's table. CheckPeer compares the job first, then
// the list of workers, then single options, so that the user gets the most
// helpful message. A new option that must be equal on all workers is a field of
// Identity, in CheckOptions, with a new kWireVersion or a reserved byte.

#include "handshake.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "../../core/base/fnv1a.h"
#include "ringlet/collective.h"
#include "ringlet/model.h"
#include "view_frame.h"
#include "wire_dtype.h"

namespace ringlet {
namespace {

constexpr size_t kHelloFixedBytes = 40;
constexpr size_t kWithdrawFixedBytes = 4;

const char* ImplementationName(uint8_t implementation) {
  const char* const names[] = {"AUTO", "RING", "TREE"};
  return implementation < 3 ? names[implementation] : "unknown";
}

Status CheckJob(const Identity& self, const Identity& peer) {
  const std::string job = PrintableAscii(
      reinterpret_cast<const uint8_t*>(peer.job.data()), peer.job.size());
  if (peer.job != self.job) {
    return InvalidArgument(
        "job \"%s\" at worker %d meets job \"%s\": another job uses this "
        "address, or the jobs are named differently",
        self.job.c_str(), self.worker, job.c_str());
  }
  return Status();
}

Status CheckList(const Identity& self, const Identity& peer) {
  const bool same =
      peer.size == self.size && peer.cluster_hash == self.cluster_hash;
  if (!same && peer.worker == self.worker) {
    return InvalidArgument(
        "both are worker %d, in their lists of %d workers and of %d: "
        "give every worker the same list in the same order, and its own index",
        self.worker, self.size, peer.size);
  }
  if (!same) {
    return InvalidArgument(
        "worker %d was given other workers than worker %d (%d of them, hash "
        "%016llx; here %d, hash %016llx): give every worker the same list",
        peer.worker, self.worker, peer.size,
        static_cast<unsigned long long>(peer.cluster_hash), self.size,
        static_cast<unsigned long long>(self.cluster_hash));
  }
  return Status();
}

// See CheckPeer.
Status CheckPlace(const Identity& self, const Identity& peer,
                  int expected_worker) {
  if (expected_worker >= 0 && peer.worker != expected_worker) {
    return InvalidArgument("worker %d answers where worker %d should be",
                           peer.worker, expected_worker);
  }
  if (expected_worker < 0 &&
      (peer.worker <= self.worker || peer.worker >= self.size)) {
    return InvalidArgument(
        "worker %d connects to worker %d of %d%s", peer.worker, self.worker,
        self.size,
        peer.worker == self.worker ? ": two workers have the same index" : "");
  }
  return Status();
}

// Compares the options that the two workers were given.
Status CheckOptions(const Identity& self, const Identity& peer) {
  const struct {
    const char* name;
    std::string theirs, own;
  } options[] = {
      {"min_workers (0: all workers are waited for)",
       std::to_string(peer.min_workers), std::to_string(self.min_workers)},
      {"a timeout of", std::to_string(peer.timeout_ms) + " ms",
       std::to_string(self.timeout_ms) + " ms"},
      {"the communication implementation",
       ImplementationName(peer.implementation),
       ImplementationName(self.implementation)},
      {"the wire dtype", WireDtypeName(static_cast<WireDtype>(peer.dtype)),
       WireDtypeName(static_cast<WireDtype>(self.dtype))},
      {"bytes_per_pack", std::to_string(peer.bytes_per_pack),
       std::to_string(self.bytes_per_pack)}};
  for (const auto& [name, theirs, own] : options) {
    if (theirs == own) continue;
    return InvalidArgument(
        "worker %d was given %s %s, worker %d %s: give every worker the same",
        peer.worker, name, theirs.c_str(), self.worker, own.c_str());
  }
  return Status();
}

std::string VersionText(uint64_t version) {
  std::string text;
  for (const int shift : {32, 16, 0}) {
    if (!text.empty()) text += '.';
    text += std::to_string(version >> shift & 0xffff);
  }
  return text;
}

}  // namespace

uint64_t ClusterHash(const std::vector<std::string>& addresses) {
  Fnv1a hash;
  for (const std::string& address : addresses) hash.Add(address);
  return hash.value();
}

std::vector<uint8_t> EncodeIdentity(const Identity& identity) {
  const size_t job_bytes = std::min(identity.job.size(), kMaxJobBytes);
  std::vector<uint8_t> out(kHelloFixedBytes + job_bytes);
  out[0] = identity.byte_order;
  out[1] = identity.implementation;
  StoreLittle(static_cast<uint16_t>(identity.worker), &out[2]);
  StoreLittle(static_cast<uint16_t>(identity.size), &out[4]);
  StoreLittle(static_cast<uint16_t>(job_bytes), &out[6]);
  StoreLittle(identity.incarnation, &out[8]);
  StoreLittle(identity.cluster_hash, &out[16]);
  StoreLittle(identity.timeout_ms, &out[24]);
  out[28] = identity.dtype;
  out[29] = identity.links;
  out[30] = identity.min_workers;
  StoreLittle(identity.bytes_per_pack, &out[32]);
  std::memcpy(out.data() + kHelloFixedBytes, identity.job.data(), job_bytes);
  return out;
}

Status DecodeIdentity(const uint8_t* payload, size_t bytes, Identity* out) {
  if (bytes < kHelloFixedBytes) {
    return Corruption("a handshake of %zu bytes, at least %zu are needed",
                      bytes, kHelloFixedBytes);
  }
  const size_t job_bytes = LoadLittle<uint16_t>(payload + 6);
  if (job_bytes > kMaxJobBytes || job_bytes != bytes - kHelloFixedBytes) {
    return Corruption("a handshake of %zu bytes with a job name of %zu", bytes,
                      job_bytes);
  }
  if (payload[29] > 1 || payload[30] > kMaxElasticWorkers || payload[31] != 0) {
    return Corruption("a handshake with reserved bytes that are not zero");
  }
  out->byte_order = payload[0];
  out->implementation = payload[1];
  out->worker = LoadLittle<uint16_t>(payload + 2);
  out->size = LoadLittle<uint16_t>(payload + 4);
  out->incarnation = LoadLittle<uint64_t>(payload + 8);
  out->cluster_hash = LoadLittle<uint64_t>(payload + 16);
  out->timeout_ms = LoadLittle<uint32_t>(payload + 24);
  out->dtype = payload[28];
  out->links = payload[29];
  out->min_workers = payload[30];
  out->bytes_per_pack = LoadLittle<uint64_t>(payload + 32);
  out->job.assign(reinterpret_cast<const char*>(payload) + kHelloFixedBytes,
                  job_bytes);
  return Status();
}

std::vector<uint8_t> EncodeWithdraw(const Withdraw& withdraw) {
  const std::vector<uint8_t> identity = EncodeIdentity(withdraw.identity);
  const char* const text = withdraw.reason.message();
  const size_t room =
      MaxPayload(FrameType::kWithdraw) - kWithdrawFixedBytes - identity.size();
  const size_t text_bytes =
      std::min(std::min(std::strlen(text), kTextBytes), room);
  std::vector<uint8_t> out(kWithdrawFixedBytes);
  out[0] = static_cast<uint8_t>(withdraw.reason.code());
  StoreLittle(static_cast<uint16_t>(identity.size()), &out[2]);
  out.insert(out.end(), identity.begin(), identity.end());
  out.insert(out.end(), text, text + text_bytes);
  return out;
}

Status DecodeWithdraw(const uint8_t* payload, size_t bytes, Withdraw* out) {
  const size_t identity =
      bytes < kWithdrawFixedBytes ? 0 : LoadLittle<uint16_t>(payload + 2);
  if (bytes < kWithdrawFixedBytes || identity > bytes - kWithdrawFixedBytes ||
      payload[1] != 0) {
    return Corruption("an invalid withdrawal of %zu bytes", bytes);
  }
  const uint8_t* const at = payload + kWithdrawFixedBytes;
  RINGLET_RETURN_IF_ERROR(DecodeIdentity(at, identity, &out->identity));
  out->reason = Error(
      CodeOf(payload[0]), "%s",
      PrintableAscii(at + identity, bytes - kWithdrawFixedBytes - identity)
          .c_str());
  return Status();
}

Code CodeOf(uint64_t value) {
  const bool known = value > 0 && value <= static_cast<uint64_t>(kLastCode);
  return known ? static_cast<Code>(value) : Code::kInternal;
}

Status CheckMember(const Identity& self, const Identity& peer) {
  if (!self.job.empty() && !peer.job.empty()) {
    RINGLET_RETURN_IF_ERROR(CheckJob(self, peer));
  }
  return CheckList(self, peer);
}

Status CheckPeer(const Identity& self, const Identity& peer,
                 int expected_worker) {
  RINGLET_RETURN_IF_ERROR(CheckJob(self, peer));
  RINGLET_RETURN_IF_ERROR(CheckList(self, peer));
  RINGLET_RETURN_IF_ERROR(CheckPlace(self, peer, expected_worker));
  if (peer.links != self.links) {
    return InvalidArgument(
        "worker %d links %s of %d workers, worker %d %s: give every worker the "
        "same version of ringlet",
        peer.worker, peer.links == 0 ? "every pair" : "some pairs", self.size,
        self.worker, self.links == 0 ? "every pair" : "some");
  }
  if (peer.byte_order != self.byte_order) {
    return InvalidArgument(
        "worker %d and worker %d send numbers in different byte orders; give "
        "every worker the same version of ringlet",
        peer.worker, self.worker);
  }
  return CheckOptions(self, peer);
}

uint64_t ProgramVersion() {
  unsigned major = 0, minor = 0, patch = 0;
  std::sscanf(RINGLET_VERSION, "%u.%u.%u", &major, &minor, &patch);
  return uint64_t{major} << 32 | uint64_t{minor} << 16 | patch;
}

Status CheckVersion(int worker, uint64_t own_version, int peer,
                    uint64_t peer_version) {
  if (peer_version == 0 || peer_version == own_version) return Status();
  return InvalidArgument(
      "worker %d is ringlet %s, worker %d is ringlet %s, and their numbers may "
      "differ: give every worker the same version of ringlet",
      peer, VersionText(peer_version).c_str(), worker,
      VersionText(own_version).c_str());
}

bool PhaseMayFollow(LinkPhase from, LinkPhase to) {
  switch (to) {
    case LinkPhase::kConnecting:
    case LinkPhase::kAwaitHello:
      return false;
    case LinkPhase::kAwaitWelcome:
      return from == LinkPhase::kConnecting || from == LinkPhase::kAwaitHello;
    case LinkPhase::kUp:
    case LinkPhase::kDoctor:
      return from == LinkPhase::kAwaitWelcome || from == LinkPhase::kAwaitHello;
    case LinkPhase::kLeft:
      return from == LinkPhase::kUp;
    case LinkPhase::kClosed:
      return from != LinkPhase::kClosed;
  }
  return false;
}

bool FrameIsLegal(LinkPhase phase, FrameType type) {
  switch (phase) {
    case LinkPhase::kConnecting:
    case LinkPhase::kLeft:
    case LinkPhase::kClosed:
      return false;
    case LinkPhase::kAwaitHello:
      return type == FrameType::kHello || type == FrameType::kWithdraw;
    case LinkPhase::kAwaitWelcome:
      return type == FrameType::kWelcome || type == FrameType::kReject ||
             type == FrameType::kWithdraw;
    case LinkPhase::kUp:
      return type != FrameType::kHello && type != FrameType::kWelcome &&
             type != FrameType::kReject && type != FrameType::kWithdraw &&
             type != FrameType::kDoctor;
    case LinkPhase::kDoctor:
      return type == FrameType::kDoctor;
  }
  return false;
}

std::string PrintableAscii(const uint8_t* text, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < std::min(bytes, kTextBytes); ++i) {
    const bool printable = text[i] >= 0x20 && text[i] < 0x7f;
    out += printable ? static_cast<char>(text[i]) : '?';
  }
  return out;
}

}  // namespace ringlet
