// The requests that a StatusServer reads, and its answers over real sockets.

#include "net/status/status_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "../../support/contains.h"
#include "../../support/expect_ok.h"
#include "../../support/free_ports.h"
#include "net/status/http_get.h"
#include "net/status/http_request.h"

namespace ringlet {
namespace {

using State = HttpRequestReader::State;

State Read(const std::string& text, HttpRequest* request = nullptr) {
  HttpRequestReader reader;
  const State state = reader.Add(text.data(), text.size());
  if (request != nullptr) *request = reader.request();
  return state;
}

TEST(HttpRequestTest, Get_WithFields_HasPathAndFields) {
  HttpRequest request;
  EXPECT_EQ(Read("GET /metrics?a=b HTTP/1.1\r\nHOST:  board:9090 \r\n"
                 "Authorization: Bearer x\r\nAccept: */*\r\n\r\nmore",
                 &request),
            State::kComplete);
  EXPECT_EQ(request.method, "GET");
  EXPECT_EQ(request.path, "/metrics");
  EXPECT_EQ(request.host, "board:9090");
  EXPECT_EQ(request.authorization, "Bearer x");
}

TEST(HttpRequestTest, Get_ByteByByte_IsTheSame) {
  const std::string text = "GET / HTTP/1.0\r\nHost: a\r\n\r\n";
  HttpRequestReader reader;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    ASSERT_EQ(reader.Add(&text[i], 1), State::kIncomplete) << i;
  }
  EXPECT_EQ(reader.Add(&text.back(), 1), State::kComplete);
  EXPECT_EQ(reader.request().host, "a");
}

TEST(HttpRequestTest, Head_Malformed_IsReported) {
  for (const char* const text :
       {"\r\n\r\n", "GET\r\n\r\n", "GET /\r\n\r\n", "GET / FTP/1.1\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\n\r\n", "GET /a b HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\n: no name\r\n\r\n"}) {
    EXPECT_EQ(Read(text), State::kMalformed) << text;
  }
  EXPECT_EQ(Read(std::string("GET /\0 HTTP/1.1\r\n\r\n", 19)),
            State::kMalformed);
}

TEST(HttpRequestTest, Head_OfMoreThanTheLimit_IsTooLong) {
  const std::string head = "GET / HTTP/1.1\r\nA: ";
  const size_t rest = HttpRequestReader::kMaxBytes - head.size();
  EXPECT_EQ(Read(head + std::string(rest, 'a')), State::kIncomplete);
  EXPECT_EQ(Read(head + std::string(rest + 1, 'a')), State::kTooLong);
  EXPECT_EQ(Read(head + std::string(rest - 4, 'a') + "\r\n\r\n"),
            State::kComplete);
}

TEST(HttpRequestTest, Host_OfAnAddress_MeansThisMachine) {
  for (const char* const host : {"", "127.0.0.1", "127.0.0.1:9090", "[::1]:80",
                                 "localhost", "localhost:1", "10.0.0.7:2"}) {
    EXPECT_TRUE(IsHostOfThisMachine(host)) << host;
  }
  for (const char* const host :
       {"evil.example", "evil.example:9090", "localhost.evil.example",
        "127.0.0.1.a:80", "::", "a b", ":80"}) {
    EXPECT_FALSE(IsHostOfThisMachine(host)) << host;
  }
}

// A server that answers with the path, and clients of it.
class StatusServerTest : public ::testing::Test {
 protected:
  Status Start(const std::string& token = "", int connections = 16,
               double seconds = 60) {
    port_ = FreePorts(1)[0];
    StatusServerOptions options;
    options.address = std::to_string(port_);
    options.token = token;
    options.connections = connections;
    options.seconds = seconds;
    return StatusServer::Start(
        options,
        [](const std::string& path) {
          return StatusServer::Answer{200, "text/plain", "at " + path};
        },
        &server_);
  }

  int Connect() const {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address),
                      sizeof(address)),
              0);
    return fd;
  }
  // Returns all bytes until the server closes.
  static std::string Receive(int fd) {
    std::string all;
    char piece[512];
    for (ssize_t n; (n = recv(fd, piece, sizeof(piece), 0)) > 0;) {
      all.append(piece, static_cast<size_t>(n));
    }
    close(fd);
    return all;
  }
  std::string Ask(const std::string& request) const {
    const int fd = Connect();
    EXPECT_EQ(send(fd, request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    return Receive(fd);
  }

  int port_ = 0;
  std::unique_ptr<StatusServer> server_;
};

TEST_F(StatusServerTest, Get_KnownPath_IsAnswered) {
  EXPECT_OK(Start());
  const std::string answer = Ask("GET /a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  EXPECT_TRUE(Contains(answer, "HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_TRUE(Contains(answer, "Content-Length: 5\r\n")) << answer;
  EXPECT_TRUE(Contains(answer, "\r\n\r\nat /a")) << answer;
  std::string body;
  EXPECT_OK(HttpGet("127.0.0.1:" + std::to_string(port_), "/b", "", 60, &body));
  EXPECT_EQ(body, "at /b");
}

TEST_F(StatusServerTest, Head_HasNoBody) {
  EXPECT_OK(Start());
  const std::string answer = Ask("HEAD /a HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(Contains(answer, "Content-Length: 5\r\n")) << answer;
  EXPECT_FALSE(Contains(answer, "at /a")) << answer;
}

TEST_F(StatusServerTest, Request_Wrong_IsRefused) {
  EXPECT_OK(Start());
  EXPECT_TRUE(Contains(Ask("POST / HTTP/1.1\r\n\r\n"), "405"));
  EXPECT_TRUE(Contains(Ask("nothing\r\n\r\n"), "400"));
  EXPECT_TRUE(
      Contains(Ask("GET / HTTP/1.1\r\nA: " + std::string(9000, 'a')), "431"));
  EXPECT_TRUE(
      Contains(Ask("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"), "403"));
}

TEST_F(StatusServerTest, Token_MissingOrWrong_IsRefused) {
  EXPECT_OK(Start("secret"));
  EXPECT_TRUE(Contains(Ask("GET / HTTP/1.1\r\n\r\n"), "401"));
  for (const char* const wrong : {"Bearer secre", "Bearer secrets", "secret"}) {
    EXPECT_TRUE(Contains(Ask(std::string("GET / HTTP/1.1\r\nAuthorization: ") +
                             wrong + "\r\n\r\n"),
                         "401"))
        << wrong;
  }
  std::string body;
  const std::string address = "127.0.0.1:" + std::to_string(port_);
  EXPECT_OK(HttpGet(address, "/", "secret", 60, &body));
  const Status refused = HttpGet(address, "/", "", 60, &body);
  EXPECT_TRUE(Contains(refused.message(), "401")) << refused.message();
}

TEST_F(StatusServerTest, Connections_BeyondTheLimit_AreClosed) {
  EXPECT_OK(Start("", /*connections=*/2));
  const int a = Connect(), b = Connect();
  // Both are accepted once the third is closed.
  EXPECT_EQ(Receive(Connect()), "");
  close(a);
  close(b);
  // The places of the closed connections are free as soon as the server sees
  // their end.
  while (Ask("GET / HTTP/1.1\r\n\r\n").empty()) poll(nullptr, 0, 1);
}

TEST_F(StatusServerTest, Connection_WithoutARequest_IsClosed) {
  EXPECT_OK(Start("", 16, /*seconds=*/0.01));
  EXPECT_EQ(Receive(Connect()), "");
}

TEST_F(StatusServerTest, Destructor_OpenConnections_EndsThem) {
  EXPECT_OK(Start());
  const int fd = Connect();
  EXPECT_OK(HttpGet("127.0.0.1:" + std::to_string(port_), "/", "", 60,
                    std::make_unique<std::string>().get()));
  server_.reset();
  EXPECT_EQ(Receive(fd), "");
}

TEST_F(StatusServerTest, Address_WrongOrTaken_ErrorNamesIt) {
  EXPECT_OK(Start());
  StatusServerOptions options;
  std::unique_ptr<StatusServer> server;
  const auto start = [&](const std::string& address) {
    options.address = address;
    return StatusServer::Start(options, nullptr, &server);
  };
  EXPECT_TRUE(Contains(start(std::to_string(port_)).message(), "in use"));
  EXPECT_TRUE(Contains(start("*:1").message(), "RINGLET_STATUS_TOKEN"));
  EXPECT_TRUE(Contains(start("a.example:9090").message(), "in numbers"));
  for (const char* const wrong : {"", "0", "70000", "127.0.0.1:", "a b:1"}) {
    EXPECT_EQ(start(wrong).code(), Code::kInvalidArgument) << wrong;
  }
}

TEST(HttpGetTest, Address_NoListener_ErrorNamesIt) {
  std::string body;
  const std::string address = "127.0.0.1:" + std::to_string(FreePorts(1)[0]);
  const Status got = HttpGet(address, "/", "", 60, &body);
  EXPECT_TRUE(Contains(got.message(), address)) << got.message();
}

}  // namespace
}  // namespace ringlet
