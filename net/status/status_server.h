// StatusServer: answers GET requests over HTTP, beside a training.
//
// Each connection has one request and one answer. Connections, bytes of a
// request and the time of both are bounded; what does not fit is closed.

#ifndef RINGLET_NET_STATUS_STATUS_SERVER_H_
#define RINGLET_NET_STATUS_STATUS_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "ringlet/status.h"

namespace ringlet {

struct StatusServerOptions {
  // "port" or "host:port". A port alone is on 127.0.0.1; "*:port" is on all of
  // this host's addresses.
  std::string address;
  // Requests must have it ("Authorization: Bearer TOKEN"). It may be empty
  // on a loopback address only.
  std::string token;
  int connections = 16;  // the most at a time
  double seconds = 5;    // the time limit of a request and its answer
};

class StatusServer {
 public:
  struct Answer {
    int code = 404;
    const char* type = "text/plain; charset=utf-8";
    std::string body;
  };
  // The answer for a path such as "/metrics". Called on the server's thread, so
  // it must not wait.
  using Answerer = std::function<Answer(const std::string& path)>;

  // Listens and answers on a thread of its own until it is destroyed.
  // kInvalidArgument for a wrong address, or for an address of a network
  // without a token.
  static Status Start(const StatusServerOptions& options,
                      const Answerer& answerer,
                      std::unique_ptr<StatusServer>* out);
  virtual ~StatusServer() = default;
};

}  // namespace ringlet

#endif  // RINGLET_NET_STATUS_STATUS_SERVER_H_
