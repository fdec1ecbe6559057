// To change this file, know that:
//   - All methods except Serve and the destructor run on the loop's thread.
//   - A connection deletes itself in its close callback.

#include "status_server.h"

#include <uv.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "../cluster/address.h"
#include "../transport/loop.h"
#include "../transport/socket_address.h"
#include "../transport/uv_stream.h"
#include "http_request.h"

namespace ringlet {
namespace {

class Server;

struct Connection {
  uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&tcp); }

  Server* server = nullptr;
  int64_t since = 0;
  bool closing = false;
  HttpRequestReader reader;
  char received[1024];
  std::string answer;
  uv_tcp_t tcp;
  uv_write_t write;
};

class Server final : public StatusServer, private UvListener::Owner {
 public:
  Server(const StatusServerOptions& options, const Answerer& answerer,
         bool loopback)
      : options_(options), answerer_(answerer), checks_host_(loopback) {}
  ~Server() override;
  Status Serve(const sockaddr_storage& address);

 private:
  Status Listen(const sockaddr_storage& address);
  void OnConnection(UvListener* listener) override;
  void Read(Connection* connection);
  void OnRead(Connection* connection, ssize_t bytes);
  Answer AnswerTo(const HttpRequest& request) const;
  void Send(Connection* connection, const Answer& answer, bool with_body);
  void Close(Connection* connection);
  void CloseOld();

  const StatusServerOptions options_;
  const Answerer answerer_;
  const bool checks_host_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<UvHandles> handles_;
  std::unique_ptr<UvListener> listener_;
  uv_timer_t timer_;
  std::vector<Connection*> connections_;  // the open ones, the oldest first
};

Status Server::Serve(const sockaddr_storage& address) {
  RINGLET_RETURN_IF_ERROR(Loop::Open(&loop_));
  handles_ = std::make_unique<UvHandles>(loop_.get());
  UvListener::Owner* const self = this;
  listener_ = std::make_unique<UvListener>(handles_.get(), self);
  Status status;
  RunOnLoop(loop_.get(), [&](const auto& done) {
    status = Listen(address);
    done();
  });
  return status;
}

Status Server::Listen(const sockaddr_storage& address) {
  uv_timer_init(handles_->uv(), &timer_);  // cannot fail
  timer_.data = this;
  handles_->Opened();
  uv_timer_start(
      &timer_,
      [](uv_timer_t* timer) { static_cast<Server*>(timer->data)->CloseOld(); },
      500, 500);
  return listener_->ListenTcp(reinterpret_cast<const sockaddr*>(&address));
}

Server::~Server() {
  if (loop_ == nullptr) return;
  RunOnLoop(loop_.get(), [&](const auto& done) {
    listener_->Close();
    uv_close(AsHandle(&timer_), [](uv_handle_t* handle) {
      static_cast<Server*>(handle->data)->handles_->Closed();
    });
    while (!connections_.empty()) Close(connections_.back());
    handles_->WhenAllClosed(done);
  });
  loop_.reset();
}

void Server::OnConnection(UvListener*) {
  auto* const connection = new Connection;
  connection->server = this;
  uv_tcp_init(handles_->uv(), &connection->tcp);  // cannot fail
  connection->tcp.data = connection;
  connection->since = UvNanos();
  handles_->Opened();
  connections_.push_back(connection);
  const bool accepted =
      uv_accept(listener_->stream(), connection->stream()) == 0;
  if (accepted &&
      connections_.size() <= static_cast<size_t>(options_.connections)) {
    return Read(connection);
  }
  Close(connection);
}

void Server::Read(Connection* connection) {
  const int error = uv_read_start(
      connection->stream(),
      [](uv_handle_t* handle, size_t, uv_buf_t* out) {
        auto* const of = static_cast<Connection*>(handle->data);
        *out = uv_buf_init(of->received, sizeof(of->received));
      },
      [](uv_stream_t* stream, ssize_t bytes, const uv_buf_t*) {
        auto* const of = static_cast<Connection*>(stream->data);
        of->server->OnRead(of, bytes);
      });
  if (error != 0) Close(connection);
}

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
      return Send(connection, AnswerTo(request), request.method != "HEAD");
    case State::kTooLong:
      return Send(connection, {431, "text/plain", "too long\n"}, true);
    default:
      return Send(connection, {400, "text/plain", "not HTTP\n"}, true);
  }
}

// Compares all bytes, so that the time tells nothing of a token.
bool IsToken(const std::string& given, const std::string& token) {
  const std::string wanted = "Bearer " + token;
  unsigned difference = given.size() == wanted.size() ? 0 : 1;
  for (size_t i = 0; i < wanted.size() && i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i] ^ wanted[i]);
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

const char* ReasonOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Service Unavailable";
  }
}

void Server::Send(Connection* connection, const Answer& answer,
                  bool with_body) {
  char head[320];
  std::snprintf(head, sizeof(head),
                "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                "Connection: close\r\n%s\r\n",
                answer.code, ReasonOf(answer.code), answer.type,
                answer.body.size(),
                answer.code == 401 ? "WWW-Authenticate: Bearer\r\n" : "");
  connection->answer = head;
  if (with_body) connection->answer += answer.body;
  connection->write.data = connection;
  const uv_buf_t buffer =
      uv_buf_init(connection->answer.data(),
                  static_cast<unsigned>(connection->answer.size()));
  const int error = uv_write(&connection->write, connection->stream(), &buffer,
                             1, [](uv_write_t* request, int) {
                               auto* const of =
                                   static_cast<Connection*>(request->data);
                               of->server->Close(of);
                             });
  if (error != 0) Close(connection);
}

void Server::Close(Connection* connection) {
  if (std::exchange(connection->closing, true)) return;
  connections_.erase(
      std::find(connections_.begin(), connections_.end(), connection));
  uv_close(AsHandle(&connection->tcp), [](uv_handle_t* handle) {
    auto* const of = static_cast<Connection*>(handle->data);
    UvHandles* const handles = of->server->handles_.get();
    delete of;
    handles->Closed();
  });
}

void Server::CloseOld() {
  const auto limit = static_cast<int64_t>(options_.seconds * 1e9);
  while (!connections_.empty() &&
         UvNanos() - connections_.front()->since > limit) {
    Close(connections_.front());
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
