#include "check_ring_options.h"

#include "../cluster/address.h"
#include "../secure/noise.h"
#include "../transport/name_lookup.h"
#include "../transport/socket_address.h"
#include "../wire/handshake.h"
#include "../wire/wire_dtype.h"
#include "ringlet/collective.h"

namespace ringlet {
namespace {

// Without a key every program that reaches a worker could take part.
Status CheckKeys(const RingOptions& options,
                 const std::vector<Address>& hosts) {
  if (options.keys != nullptr) return SecureStart();
  if (options.insecure) return Status();
  for (size_t r = 0; r < hosts.size(); ++r) {
    if (IsLoopback(hosts[r])) continue;
    return InvalidArgument(
        "worker %zu is at %s, which others can reach, and the job has no key: "
        "make one (ringlet keygen --out job.key), copy it to every worker and "
        "set RINGLET_KEY_FILE=job.key or strategy.key_file; or, if no other "
        "machine can reach the network, allow it: --insecure, "
        "strategy.insecure or RINGLET_INSECURE=1",
        r, options.addresses[r].c_str());
  }
  return Status();
}

Status CheckTimes(const RingOptions& options) {
  if (!(options.timeout_seconds >= kMinTimeoutSeconds &&
        options.timeout_seconds <= kMaxTimeoutSeconds)) {
    return InvalidArgument("the timeout is %g s; it must be from %g to %g",
                           options.timeout_seconds, kMinTimeoutSeconds,
                           kMaxTimeoutSeconds);
  }
  if (!(options.start_timeout_seconds >= 0 &&
        options.start_timeout_seconds <= 1e6)) {
    return InvalidArgument(
        "the start timeout is %g s; it must be from 0 to 1000000",
        options.start_timeout_seconds);
  }
  if (!(options.patience_seconds >= 0)) {
    return InvalidArgument(
        "patience_seconds is %g; it must be 0, which means no limit, or more",
        options.patience_seconds);
  }
  return Status();
}

Status CheckMinWorkers(const RingOptions& options) {
  const int size = options.size();
  if (options.min_workers < 0 || options.min_workers > size) {
    return InvalidArgument(
        "min_workers is %d, of %d workers: 0 to %d are "
        "possible",
        options.min_workers, size, size);
  }
  if (options.min_workers > 0 && size > kMaxElasticWorkers) {
    return InvalidArgument(
        "min_workers is %d, of %d workers: a ring can continue without some of "
        "them only if the list has at most %d; leave min_workers at 0",
        options.min_workers, size, kMaxElasticWorkers);
  }
  return Status();
}

Status CheckRelay(const RingOptions& options) {
  if (options.relay.empty()) return Status();
  Address relay;
  RINGLET_RETURN_IF_ERROR(
      ParseAddress(options.relay, &relay).Annotate("relay"));
  RINGLET_RETURN_IF_ERROR(NameLookup::Check(relay).Annotate("relay"));
  if (options.keys == nullptr) {
    return InvalidArgument(
        "a relay at %s, and the job has no key: the relay's operator could "
        "read and change what workers send. Make one (ringlet keygen --out "
        "job.key), copy it to every worker and set RINGLET_KEY_FILE=job.key "
        "or strategy.key_file",
        options.relay.c_str());
  }
  return Status();
}

// Parses the workers' addresses, which must differ.
Status ParseHosts(const RingOptions& options, std::vector<Address>* hosts) {
  const int size = options.size();
  hosts->resize(size);
  for (int r = 0; r < size; ++r) {
    const Status parsed = ParseAddress(options.addresses[r], &(*hosts)[r]);
    if (!parsed.ok()) return parsed.Annotate("worker %d", r);
    for (int before = 0; before < r; ++before) {
      if (options.addresses[before] == options.addresses[r]) {
        return InvalidArgument("workers %d and %d have the same address %s",
                               before, r, options.addresses[r].c_str());
      }
    }
  }
  return Status();
}

}  // namespace

Status CheckRingOptions(const RingOptions& options,
                        std::vector<Address>* hosts) {
  const int size = options.size();
  if (size < 1 || size > 1024) {
    return InvalidArgument("a ring of %d workers: 1 to 1024 are possible",
                           size);
  }
  if (options.worker < 0 || options.worker >= size) {
    return InvalidArgument("worker %d in a list of %d workers", options.worker,
                           size);
  }
  if (options.job.size() > kMaxJobBytes) {
    return InvalidArgument("the job's name has %zu bytes, at most %zu",
                           options.job.size(), kMaxJobBytes);
  }
  RINGLET_RETURN_IF_ERROR(CheckTimes(options));
  if (options.wire_dtype != WireDtype::kFloat32 &&
      options.implementation == RingImplementation::kTree) {
    return InvalidArgument(
        "wire dtype %s with implementation TREE: its vectors are short and "
        "travel as float32: use AUTO or RING",
        WireDtypeName(options.wire_dtype));
  }
  RINGLET_RETURN_IF_ERROR(CheckMinWorkers(options));
  RINGLET_RETURN_IF_ERROR(CheckRelay(options));
  RINGLET_RETURN_IF_ERROR(ParseHosts(options, hosts));
  RINGLET_RETURN_IF_ERROR(CheckKeys(options, *hosts));
  for (int r = 0; r < size && options.relay.empty(); ++r) {
    const Status findable = NameLookup::Check((*hosts)[r]);
    if (!findable.ok()) return findable.Annotate("worker %d", r);
  }
  return Status();
}

}  // namespace ringlet
