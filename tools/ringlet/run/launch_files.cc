// A function for each kind of file. Words of the user's command and hosts are
// quoted by the rules of the file's language: SystemdWord, ShellLine, and
// JsonText for YAML.

#include "launch_files.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "../command_line.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "net/cluster/address.h"

namespace ringlet {
namespace {

constexpr int kFirstPort = 8888;

// A string of JSON, which is also a string of YAML.
std::string JsonText(const std::string& text) {
  JsonWriter w;
  w.String(text);
  return w.text();
}

// Kubernetes and Compose replace variables in a command; $$ is a $.
std::string CommandList(const std::vector<std::string>& words) {
  std::string text = "[";
  for (const std::string& word : words) {
    std::string escaped;
    for (const char c : word) escaped += c == '$' ? "$$" : std::string(1, c);
    text += (text.size() > 1 ? ", " : "") + JsonText(escaped);
  }
  return text + "]";
}

// A flag stays one: ShellWord would make a path of it.
std::string FlagOrWord(const std::string& word) {
  const size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  if (word.empty()) return "''";
  if (dashes == 0) return ShellWord(word);
  const std::string rest = word.substr(dashes);
  return word.substr(0, dashes) + (rest.empty() ? "" : ShellWord(rest));
}

std::string ShellLine(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " ") + FlagOrWord(word);
  }
  return text;
}

// A word of ExecStart=, in which % and $ have a meaning.
std::string SystemdWord(const std::string& word) {
  std::string text = "\"";
  for (const char c : word) {
    if (c == '"' || c == '\\') text += '\\';
    if (c == '%' || c == '$') text += c;
    text += c == '\n' ? "\\n" : std::string(1, c);
  }
  return text + "\"";
}

std::string TfConfig(const std::vector<Address>& hosts, int worker) {
  JsonWriter w;
  w.BeginObject().Key("cluster").BeginObject().Key("worker").BeginArray();
  for (const Address& host : hosts) w.String(ToString(host));
  w.EndArray().EndObject().Key("task").BeginObject();
  w.Key("type").String("worker").Key("index").Int(worker);
  w.EndObject().EndObject();
  return w.text();
}

std::string Systemd(const JobToLaunch& job) {
  std::string start;
  for (const std::string& word : job.command) {
    const bool program = start.empty();
    const bool found = !program || word.find('/') != std::string::npos;
    start += (program ? "" : " ") +
             SystemdWord(found ? word : "/usr/local/bin/" + word);
  }
  std::string text = R"(# /etc/systemd/system/ringlet.service, on every host
[Unit]
Description=ringlet training worker
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
WatchdogSec=30min
EnvironmentFile=/etc/ringlet/worker.env
LoadCredential=ringlet.key:/etc/ringlet/job.key
WorkingDirectory=/var/lib/ringlet
ExecStart=)" + start +
                     R"(
Restart=on-failure
RestartPreventExitStatus=2
RestartForceExitStatus=75
SuccessExitStatus=75
RestartSec=5
TimeoutStopSec=60
DynamicUser=yes
StateDirectory=ringlet

[Install]
WantedBy=multi-user.target

# The key, on every host: ringlet keygen --out /etc/ringlet/job.key, once
)";
  for (size_t r = 0; r < job.hosts.size(); ++r) {
    text += "# /etc/ringlet/worker.env on " + job.hosts[r].host +
            ":\n# TF_CONFIG='" + TfConfig(job.hosts, static_cast<int>(r)) +
            "'\n";
  }
  return text;
}

std::string Slurm(const JobToLaunch& job) {
  return "#!/bin/bash\n#SBATCH --job-name=ringlet --nodes=" +
         std::to_string(job.workers) + R"( --ntasks-per-node=1 --requeue
export RINGLET_PORT=12345
export RINGLET_KEY_FILE=$HOME/job.key  # once: ringlet keygen --out job.key
srun )" + ShellLine(job.command) +
         "\n";
}

std::string Kubernetes(const JobToLaunch& job) {
  const std::string workers = std::to_string(job.workers);
  return R"(# The key: kubectl create secret generic ringlet-key --from-file=job.key
apiVersion: v1
kind: Service
metadata: {name: ringlet}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {job-name: train}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  completionMode: Indexed
  completions: )" +
         workers + "\n  parallelism: " + workers + R"(
  backoffLimit: 6
  podFailurePolicy:
    rules:
    - action: FailJob
      onExitCodes: {operator: In, values: [2]}
    - action: Ignore
      onExitCodes: {operator: In, values: [75]}
  template:
    spec:
      subdomain: ringlet
      restartPolicy: Never
      containers:
      - name: worker
        image: registry.example/ringlet:latest
        workingDir: /job
        command: )" +
         CommandList(job.command) + R"(
        env:
        - {name: RINGLET_WORLD_SIZE, value: ")" +
         workers + R"("}
        - {name: RINGLET_SERVICE, value: ringlet}
        - {name: RINGLET_KEY_FILE, value: /key/job.key}
        volumeMounts:
        - {name: job, mountPath: /job}
        - {name: key, mountPath: /key, readOnly: true}
      volumes:
      - name: job
        persistentVolumeClaim: {claimName: ringlet}
      - name: key
        secret: {secretName: ringlet-key, defaultMode: 0400}
)";
}

std::string Compose(const JobToLaunch& job) {
  std::vector<Address> hosts;
  hosts.reserve(static_cast<size_t>(job.workers));
  for (int r = 0; r < job.workers; ++r) {
    hosts.push_back({"worker" + std::to_string(r), kFirstPort});
  }
  std::string text =
      "# Once, as root: ringlet keygen --out job.key\nservices:\n";
  for (int r = 0; r < job.workers; ++r) {
    text += "  " + hosts[static_cast<size_t>(r)].host + R"(:
    image: registry.example/ringlet:latest
    working_dir: /job
    command: )" +
            CommandList(job.command) + R"(
    environment:
      TF_CONFIG: )" +
            JsonText(TfConfig(hosts, r)) + R"(
      RINGLET_KEY_FILE: /job/job.key
    volumes: [".:/job"]
    restart: on-failure
)";
  }
  return text;
}

// The script waits for all, and ends with the code of the last that failed.
std::string Ssh(const JobToLaunch& job) {
  std::string text = R"(#!/bin/sh
# Each host has the folder, the data and the key (ringlet keygen --out job.key).
trap 'kill $pids' INT TERM
)";
  for (size_t r = 0; r < job.hosts.size(); ++r) {
    const std::string remote =
        "cd " + ShellWord(job.folder) +
        " && TF_CONFIG=" + ShellWord(TfConfig(job.hosts, static_cast<int>(r))) +
        " RINGLET_KEY_FILE=job.key exec " + ShellLine(job.command);
    text += "ssh -tt " + ShellWord(job.hosts[r].host) + " " +
            ShellWord(remote) + " </dev/null & pids=\"$pids $!\"\n";
  }
  return text + R"(code=0
for pid in $pids; do wait "$pid" || code=$?; done
exit $code
)";
}

}  // namespace

// sh, since the user's shell there may be another shell. `cat` waits for the
// end of stdin. Without a terminal the lines are as the command wrote them, and
// stdout and stderr stay apart.
std::vector<std::string> SshCommand(const JobToLaunch& job, int worker) {
  const std::string key = job.key_file.empty()
                              ? ""
                              : " RINGLET_KEY_FILE=" + ShellWord(job.key_file);
  const std::string script =
      "cd " + ShellWord(job.folder) + " || exit 126\nexec 3<&0\nTF_CONFIG=" +
      ShellWord(TfConfig(job.hosts, worker)) + key + " " +
      ShellLine(job.command) + R"( </dev/null &
pid=$!
{ cat <&3; kill -TERM $pid; sleep )" +
      std::to_string(static_cast<int64_t>(std::ceil(job.grace_seconds))) +
      R"(; kill -KILL $pid; } >/dev/null 2>&1 &
watch=$!
exec 3<&-
wait $pid
code=$?
kill $watch 2>/dev/null
exit $code)";
  return {"ssh",
          "-o",
          "BatchMode=yes",
          "--",
          job.hosts[static_cast<size_t>(worker)].host,
          "exec sh -c " + ShellWord(script)};
}

Status ReadHosts(const std::string& text, const std::string& where,
                 std::vector<Address>* hosts) {
  hosts->clear();
  int number = 0;
  std::string_view rest = text;
  for (std::string line; TakeLine(&rest, &line);) {
    ++number;
    line.resize(std::min(line.find('#'), line.size()));
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos) continue;
    line = line.substr(first, line.find_last_not_of(" \t\r") + 1 - first);
    Address host;
    if (!ParseAddress(line, &host).ok()) {
      const Status status = ParseHost(line, &host.host);
      if (!status.ok()) {
        return status.Annotate("%s: line %d", where.c_str(), number);
      }
      host.port = kFirstPort;
      while (std::find(hosts->begin(), hosts->end(), host) != hosts->end()) {
        ++host.port;
      }
    }
    if (hosts->size() == static_cast<size_t>(kMaxWorldSize)) {
      return InvalidArgument("%s: more than %d hosts", where.c_str(),
                             kMaxWorldSize);
    }
    hosts->push_back(std::move(host));
  }
  if (hosts->empty()) {
    return InvalidArgument("%s: has no host; write one on each line",
                           where.c_str());
  }
  return CheckDistinct(*hosts).Annotate("%s", where.c_str());
}

Status LaunchFile(const std::string& kind, const JobToLaunch& job,
                  std::string* text) {
  const struct {
    const char* kind;
    bool needs_hosts;
    std::string (*make)(const JobToLaunch&);
  } makers[] = {// kind, needs_hosts, make
                {"systemd", true, Systemd},
                {"k8s", false, Kubernetes},
                {"slurm", false, Slurm},
                {"compose", false, Compose},
                {"ssh", true, Ssh}};
  for (const auto& maker : makers) {
    if (kind != maker.kind) continue;
    if (maker.needs_hosts && job.hosts.empty()) {
      return InvalidArgument(
          "--print %s: needs --hosts, a file with a host a line", maker.kind);
    }
    *text = maker.make(job);
    return Status();
  }
  return InvalidArgument(
      "--print %s: is none of systemd, k8s, slurm, compose and ssh",
      Printable(kind).c_str());
}

}  // namespace ringlet
