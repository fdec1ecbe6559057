// Texts of another doctor are hostile: Shown cuts them and makes them
// printable. Doctors of different versions read each other's facts, so a name
// there is never given another meaning.

#include "peer_checks.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "../../core/base/text.h"

namespace ringlet {
namespace {

using Reach = PeerReport::Reach;

constexpr double kClockSeconds = 2;

// {name, value} of the line at *at, which moves after it. `text` may be any
// bytes.
std::pair<std::string, std::string> NextLine(const std::string& text,
                                             size_t* at) {
  const size_t end = std::min(text.find('\n', *at), text.size());
  const size_t tab = std::min(text.find('\t', *at), end);
  std::pair<std::string, std::string> line = {
      text.substr(*at, tab - *at),
      tab < end ? text.substr(tab + 1, end - tab - 1) : ""};
  *at = end + 1;
  return line;
}

std::string Shown(const std::string& text) {
  return PrintableAscii(reinterpret_cast<const uint8_t*>(text.data()),
                        std::min<size_t>(text.size(), 120));
}

std::string MillisecondsText(int64_t nanos) {
  return FormatText("%.3g ms", static_cast<double>(nanos) / 1e6);
}

std::string RateText(int64_t bytes, int64_t nanos) {
  const double megabits =
      static_cast<double>(bytes) * 8e3 / static_cast<double>(nanos);
  return FormatText("%.*f Mbit/s", megabits < 10 ? 2 : 0, megabits);
}

std::string PeerText(const PeerContext& self, int peer) {
  return "worker " + std::to_string(peer) + " (" +
         self.addresses[static_cast<size_t>(peer)] + ")";
}

std::string PortOf(const std::string& address) {
  return address.substr(address.rfind(':') + 1);
}

// Adds the finding that `peer` was not reached.
void AddNotReached(const PeerContext& self, int peer, const PeerReport& report,
                   Findings* out) {
  const std::string& address = self.addresses[static_cast<size_t>(peer)];
  std::string text = PeerText(self, peer) + " is not reached";
  if (!report.reason.empty()) text += ": " + report.reason;
  if (report.reaches_this) {
    return AddError("reach", text + "; but it reaches this worker",
                    "a firewall drops connections to it: open TCP port " +
                        PortOf(address) + " there",
                    out, peer);
  }
  const bool refused = report.reason.find("refused") != std::string::npos;
  AddError("reach", text,
           refused
               ? "start 'ringlet doctor' there too, at the same time"
               : "start 'ringlet doctor' there too, at the same time; if it "
                 "runs: check that host's address and network (ping), and "
                 "open TCP port " +
                     PortOf(address) + " in its firewall",
           out, peer);
}

void AddUnanswered(const PeerContext& self, int peer, const PeerReport& report,
                   Findings* out) {
  const std::string subject = PeerText(self, peer);
  switch (report.reach) {
    case Reach::kSilent:
      return AddError(
          "reach", subject + " accepts connections and does not answer",
          "another program has the port there, or the worker is "
          "stopped (ps shows T): end it, or give the worker another "
          "port in every worker's list",
          out, peer);
    case Reach::kForeign:
      return AddError("reach",
                      subject + " answers as another program: " + report.reason,
                      "end that program, or give the worker another port in "
                      "every worker's list",
                      out, peer);
    case Reach::kSealed:
      return AddError(
          "key",
          subject +
              " refuses this worker's key, or has another list of workers",
          "copy one key file to every worker (compare: sha256sum), and give "
          "every worker the same list in the same order",
          out, peer);
    case Reach::kRefused:
      if (report.reason.find(" key") != std::string::npos) {
        return AddError("key", subject + ": " + report.reason,
                        "copy one key file to every worker, and set "
                        "RINGLET_KEY_FILE there",
                        out, peer);
      }
      return AddError("list", subject + ": " + report.reason,
                      "give every worker the same version, list and "
                      "\"strategy\"",
                      out, peer);
    default:
      return AddNotReached(self, peer, report, out);
  }
}

void CheckFacts(const PeerContext& self, int peer, const PeerReport& report,
                Findings* out) {
  const std::string subject = PeerText(self, peer);
  const WorkerFacts theirs = DecodeFacts(report.facts);
  if (theirs.version != self.facts.version) {
    AddError("version",
             subject + " is ringlet " + Shown(theirs.version) +
                 ", this worker " + self.facts.version,
             "install the same version on every worker", out, peer);
  }
  if (theirs.arithmetic != self.facts.arithmetic) {
    const std::string text = subject + " computes with " +
                             Shown(theirs.arithmetic) + ", this worker with " +
                             self.facts.arithmetic;
    const char* const fix =
        "RINGLET_KERNELS=unfused in every worker's environment "
        "(docs/one_result.md)";
    if (self.same_arithmetic) {
      AddError("arithmetic", text + ": this job refuses that", fix, out, peer);
    } else {
      AddWarning("arithmetic",
                 text + ": the result depends on this set of machines", fix,
                 out, peer);
    }
  }
  if (theirs.settings_sum == self.facts.settings_sum) return;
  const std::string first =
      report.settings.empty() || self.settings.empty()
          ? ""
          : FirstDifference(self.settings, report.settings);
  AddError("settings",
           subject + " has another RUN.json or other flags" +
               (first.empty() ? "" : ": " + first),
           "copy one RUN.json to every worker and give all the same flags", out,
           peer);
}

void CheckLink(const PeerContext& self, int peer, const PeerReport& report,
               Findings* out) {
  const std::string subject = PeerText(self, peer);
  if (report.stalled) {
    const WorkerFacts theirs = DecodeFacts(report.facts);
    std::string sizes;
    if (self.facts.packet_bytes > 0) {
      sizes = " (the MTU is " + std::to_string(self.facts.packet_bytes) +
              " here, " + std::to_string(theirs.packet_bytes) + " there)";
    }
    return AddError(
        "mtu",
        subject + ": small messages arrive there, large ones do not" + sizes,
        "a hop drops large packets: lower the MTU on both hosts (ip link set "
        "dev DEVICE mtu 1280), let ICMP 'fragmentation needed' through, or set "
        "sysctl net.ipv4.tcp_mtu_probing=1",
        out, peer);
  }
  if (self.listens && !report.reaches_this) {
    return AddError(
        "reach", subject + " is reached, but it does not reach this worker",
        "open TCP port " +
            PortOf(self.addresses[static_cast<size_t>(self.self)]) +
            " in this host's firewall, and check this worker's address in the "
            "list",
        out, peer);
  }
  std::string text =
      subject + ": connected" + (report.reaches_this ? " both ways" : "");
  if (report.round_trip > 0) {
    text += ", " + MillisecondsText(report.round_trip) + " there and back";
  }
  if (report.data_bytes > 0) {
    text += ", " + RateText(report.data_bytes, report.data_nanos);
  }
  const double seconds = static_cast<double>(report.round_trip) / 1e9;
  if (seconds > self.timeout_seconds / 4) {
    return AddWarning("link", text,
                      "a silent worker is lost after \"timeout\": raise it "
                      "above four times this latency, or use local updates "
                      "(docs/slow_links.md)",
                      out, peer);
  }
  AddOk("link", text, out, peer);
}

void CheckClock(const PeerContext& self, int peer, const PeerReport& report,
                Findings* out) {
  if (report.round_trip < 0) return;
  const double ahead = static_cast<double>(report.clock_ahead) / 1e9;
  const double unsure = static_cast<double>(report.round_trip) / 1e9;
  if (std::max(ahead, -ahead) < kClockSeconds + unsure) return;
  AddWarning(
      "clock",
      PeerText(self, peer) + FormatText("'s clock is %.3g s %s this worker's",
                                        std::max(ahead, -ahead),
                                        ahead > 0 ? "ahead of" : "behind"),
      "set both by a time service (timedatectl set-ntp true): dates in "
      "logs and files differ without it",
      out, peer);
}

}  // namespace

std::string EncodeFacts(const WorkerFacts& facts) {
  return "version\t" + facts.version + "\narithmetic\t" + facts.arithmetic +
         "\nbyte order\t" + facts.byte_order + "\nsettings\t" +
         HexText(facts.settings_sum) + "\npacket\t" +
         std::to_string(facts.packet_bytes) + "\n";
}

WorkerFacts DecodeFacts(const std::string& text) {
  WorkerFacts facts;
  for (size_t at = 0; at < text.size();) {
    const auto [name, value] = NextLine(text, &at);
    if (name == "version") facts.version = value;
    if (name == "arithmetic") facts.arithmetic = value;
    if (name == "byte order") facts.byte_order = value;
    if (name == "settings") {
      facts.settings_sum = std::strtoull(value.c_str(), nullptr, 16);
    }
    if (name == "packet") {
      facts.packet_bytes = std::strtoll(value.c_str(), nullptr, 10);
    }
  }
  return facts;
}

std::string FirstDifference(const std::string& local,
                            const std::string& remote) {
  for (size_t a = 0, b = 0; a < local.size() || b < remote.size();) {
    const auto own_line = a < local.size()
                              ? NextLine(local, &a)
                              : std::pair<std::string, std::string>();
    const auto remote_line = b < remote.size()
                                 ? NextLine(remote, &b)
                                 : std::pair<std::string, std::string>();
    if (own_line == remote_line) continue;
    if (own_line.first == remote_line.first) {
      return Shown(own_line.first) + " is " + Shown(own_line.second) +
             " here and " + Shown(remote_line.second) + " there";
    }
    const auto or_nothing = [](const std::string& name) {
      return name.empty() ? "nothing" : Shown(name);
    };
    return or_nothing(own_line.first) + " here, where it has " +
           or_nothing(remote_line.first);
  }
  return "";
}

void CheckPeerReport(const PeerContext& self, int peer,
                     const PeerReport& report, Findings* out) {
  if (report.reach == Reach::kJob) {
    return AddOk("link",
                 PeerText(self, peer) +
                     ": reached; a running job answers, so nothing is measured",
                 out, peer);
  }
  if (!report.facts.empty()) CheckFacts(self, peer, report, out);
  if (report.reach != Reach::kDoctor) {
    return AddUnanswered(self, peer, report, out);
  }
  CheckLink(self, peer, report, out);
  CheckClock(self, peer, report, out);
}

}  // namespace ringlet
