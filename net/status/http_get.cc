#include "http_get.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "../../core/base/text.h"
#include "../../core/base/time_units.h"
#include "../cluster/address.h"
#include "../transport/loop.h"
#include "../transport/name_lookup.h"

namespace ringlet {
namespace {

constexpr size_t kMaxAnswerBytes = 1 << 20;

// A connection. All its waits end at one deadline.
class HttpConnection {
 public:
  explicit HttpConnection(double seconds)
      : deadline_(UvNanos() + Nanos(seconds)) {}
  ~HttpConnection() {
    if (fd_ >= 0) close(fd_);
  }
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  double SecondsLeft() const {
    return std::max(0.0, static_cast<double>(deadline_ - UvNanos()) * 1e-9);
  }

  Status Connect(const sockaddr_storage& address) {
    fd_ = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                 0);
    if (fd_ < 0) return OsError(errno, "cannot make a socket");
    const socklen_t bytes = address.ss_family == AF_INET6 ? sizeof(sockaddr_in6)
                                                          : sizeof(sockaddr_in);
    const auto* const to = reinterpret_cast<const sockaddr*>(&address);
    if (connect(fd_, to, bytes) == 0) return Status();
    if (errno != EINPROGRESS) return OsError(errno, "cannot connect");
    RINGLET_RETURN_IF_ERROR(WaitFor(POLLOUT));
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
    return error == 0 ? Status() : OsError(error, "cannot connect");
  }

  Status Send(const std::string& text) {
    for (size_t sent = 0; sent < text.size();) {
      RINGLET_RETURN_IF_ERROR(WaitFor(POLLOUT));
      const ssize_t n =
          send(fd_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (n < 0 && errno != EAGAIN && errno != EINTR) {
        return OsError(errno, "cannot send");
      }
      if (n > 0) sent += static_cast<size_t>(n);
    }
    return Status();
  }

  Status ReceiveAll(std::string* text) {
    char piece[4096];
    while (text->size() <= kMaxAnswerBytes) {
      RINGLET_RETURN_IF_ERROR(WaitFor(POLLIN));
      const ssize_t n = recv(fd_, piece, sizeof(piece), 0);
      if (n == 0) return Status();
      if (n < 0 && errno != EAGAIN && errno != EINTR) {
        return OsError(errno, "cannot receive");
      }
      if (n > 0) text->append(piece, static_cast<size_t>(n));
    }
    return Corruption("the answer is longer than %zu bytes", kMaxAnswerBytes);
  }

 private:
  Status WaitFor(short events) {
    pollfd wait = {fd_, events, 0};
    const int milliseconds = static_cast<int>(SecondsLeft() * 1000) + 1;
    if (SecondsLeft() > 0 && poll(&wait, 1, milliseconds) != 0) {
      return Status();  // after EINTR the next call returns EAGAIN
    }
    return Error(Code::kDeadlineExceeded, "no answer in time");
  }

  const int64_t deadline_;
  int fd_ = -1;
};

// "HTTP/1.1 200 OK", fields, an empty line, the body.
Status SplitAnswer(const std::string& answer, std::string* body) {
  const size_t head = answer.find("\r\n\r\n");
  const size_t line = answer.find("\r\n");
  if (head == std::string::npos || !StartsWith(answer, "HTTP/1.")) {
    return Corruption("the answer is not HTTP");
  }
  if (answer.substr(8, 5) == " 200 ") {
    *body = answer.substr(head + 4);
    return Status();
  }
  return InvalidArgument("answers '%s': %s",
                         Printable(answer.substr(9, line - 9)).c_str(),
                         Printable(answer.substr(head + 4, 200)).c_str());
}

}  // namespace

Status HttpGet(const std::string& address, const std::string& path,
               const std::string& token, double seconds, std::string* body) {
  Address parsed;
  RINGLET_RETURN_IF_ERROR(ParseAddress(address, &parsed));
  RINGLET_RETURN_IF_ERROR(NameLookup::Check(parsed));
  HttpConnection connection(seconds);
  const NameLookup lookup(parsed);
  if (!lookup.Wait(connection.SecondsLeft())) {
    return Error(Code::kDeadlineExceeded, "%s: its name was not found in time",
                 address.c_str());
  }
  std::vector<sockaddr_storage> found;
  RINGLET_RETURN_IF_ERROR(
      lookup.Answer(&found).Annotate("%s", address.c_str()));
  const std::string request =
      "GET " + path + " HTTP/1.1\r\nHost: " + address +
      "\r\nConnection: close\r\n" +
      (token.empty() ? "" : "Authorization: Bearer " + token + "\r\n") + "\r\n";
  std::string answer;
  Status got = connection.Connect(found[0]);
  if (got.ok()) got = connection.Send(request);
  if (got.ok()) got = connection.ReceiveAll(&answer);
  if (got.ok()) got = SplitAnswer(answer, body);
  return got.Annotate("%s", address.c_str());
}

}  // namespace ringlet
