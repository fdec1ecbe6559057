#include "status_server.h"

#include <sys/resource.h>

#include <cstdio>
#include <utility>

#include "../../core/base/named.h"
#include "../../core/base/time_units.h"
#include "../cluster/address.h"
#include "../transport/socket_address.h"
#include "../transport/tcp_server.h"
#include "http_request.h"

namespace ringlet {
namespace {

struct Connection final : TcpServer<Connection>::Accepted {
  HttpRequestReader reader;
  char received[1024];
  std::string answer;
};

class Server final : public StatusServer, public TcpServer<Connection> {
 public:
  Server(const StatusServerOptions& options, const Answerer& answerer,
         bool loopback)
      : options_(options), answerer_(answerer), checks_host_(loopback) {}
  ~Server() override { Stop(); }

 private:
  // The training goes first where both want one core. Linux alone has
  // priorities of threads.
  void OnStart() override {
#ifdef __linux__
    setpriority(PRIO_PROCESS, 0, 19);  // this thread only
#endif
  }
  bool Admit(Connection*) override {
    return connections().size() <= static_cast<size_t>(options_.connections);
  }
  uv_buf_t SpaceOf(Connection* connection) override {
    return uv_buf_init(connection->received, sizeof(connection->received));
  }
  void OnRead(Connection* connection, ssize_t bytes) override;
  void OnSent(Connection* connection, int) override { Close(connection); }
  void OnTimer() override;
  Answer AnswerTo(const HttpRequest& request) const;
  void Respond(Connection* connection, const Answer& answer, bool with_body);

  const StatusServerOptions options_;
  const Answerer answerer_;
  const bool checks_host_;
};

void Server::OnRead(Connection* connection, ssize_t bytes) {
  if (bytes == 0) return;
  if (bytes < 0) return Close(connection);
  using State = HttpRequestReader::State;
  const State state =
      connection->reader.Add(connection->received, static_cast<size_t>(bytes));
  if (state == State::kIncomplete) return;
  uv_read_stop(connection->stream());
  const HttpRequest& request = connection->reader.request();
  switch (state) {
    case State::kComplete:
      return Respond(connection, AnswerTo(request), request.method != "HEAD");
    case State::kTooLong:
      return Respond(connection, {431, "text/plain", "too long\n"},
                     /*with_body=*/true);
    default:
      return Respond(connection, {400, "text/plain", "not HTTP\n"},
                     /*with_body=*/true);
  }
}

// Compares all bytes, so that the time tells nothing of a token.
bool IsToken(const std::string& authorization, const std::string& token) {
  const std::string wanted = "Bearer " + token;
  unsigned difference = authorization.size() == wanted.size() ? 0 : 1;
  for (size_t i = 0; i < wanted.size() && i < authorization.size(); ++i) {
    difference |= static_cast<unsigned char>(authorization[i] ^ wanted[i]);
  }
  return difference == 0;
}

StatusServer::Answer Server::AnswerTo(const HttpRequest& request) const {
  if (request.method != "GET" && request.method != "HEAD") {
    return {405, "text/plain", "only GET and HEAD\n"};
  }
  if (!options_.token.empty()) {
    if (!IsToken(request.authorization, options_.token)) {
      return {401, "text/plain", "needs Authorization: Bearer TOKEN\n"};
    }
  } else if (checks_host_ && !IsHostOfThisMachine(request.host)) {
    return {403, "text/plain", "the field Host must be an address\n"};
  }
  return answerer_(request.path);
}

constexpr Named<int> kReasons[] = {
    {"OK", 200},
    {"Bad Request", 400},
    {"Unauthorized", 401},
    {"Forbidden", 403},
    {"Not Found", 404},
    {"Method Not Allowed", 405},
    {"Request Header Fields Too Large", 431},
};

void Server::Respond(Connection* connection, const Answer& answer,
                     bool with_body) {
  char head[320];
  std::snprintf(head, sizeof(head),
                "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                "Connection: close\r\n%s\r\n",
                answer.code,
                NameIn(kReasons, answer.code, "Service Unavailable"),
                answer.type, answer.body.size(),
                answer.code == 401 ? "WWW-Authenticate: Bearer\r\n" : "");
  connection->answer = head;
  if (with_body) connection->answer += answer.body;
  Send(connection, connection->answer.data(), connection->answer.size());
}

void Server::OnTimer() {
  const auto limit = Nanos(options_.seconds);
  while (!connections().empty() &&
         UvNanos() - connections().front()->since > limit) {
    Close(connections().front());
  }
}

Status FindServerAddress(const std::string& text, sockaddr_storage* out) {
  const bool all = text.substr(0, 2) == "*:";
  const bool port_alone = text.find(':') == std::string::npos;
  Address address;
  RINGLET_RETURN_IF_ERROR(ParseAddress(all ? "127.0.0.1" + text.substr(1)
                                       : port_alone ? "127.0.0.1:" + text
                                                    : text,
                                       &address));
  if (all) {
    AllAddresses(address.port, out);
    return Status();
  }
  if (NumericAddress(address, out).ok()) return Status();
  return InvalidArgument(
      "%s: give one of this host's addresses in numbers with a port, a port "
      "alone (on 127.0.0.1), or *:port (on all addresses)",
      text.c_str());
}

}  // namespace

Status StatusServer::Start(const StatusServerOptions& options,
                           const Answerer& answerer,
                           std::unique_ptr<StatusServer>* out) {
  sockaddr_storage address = {};
  RINGLET_RETURN_IF_ERROR(FindServerAddress(options.address, &address));
  const bool loopback = IsLoopbackAddress(address);
  if (options.token.empty() && !loopback) {
    return InvalidArgument(
        "%s: other machines can reach this address, so requests need a token: "
        "set RINGLET_STATUS_TOKEN",
        options.address.c_str());
  }
  auto server = std::make_unique<Server>(options, answerer, loopback);
  RINGLET_RETURN_IF_ERROR(
      server->Serve(address).Annotate("%s", options.address.c_str()));
  *out = std::move(server);
  return Status();
}

}  // namespace ringlet
