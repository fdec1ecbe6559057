// HttpGet: reads one small page of a StatusServer, with a deadline. It blocks.

#ifndef RINGLET_NET_STATUS_HTTP_GET_H_
#define RINGLET_NET_STATUS_HTTP_GET_H_

#include <string>

#include "ringlet/status.h"

namespace ringlet {

// `address` is "host:port". Waits for at most `seconds`, the lookup of the name
// included. *body is what follows the head of an answer with code 200; an
// answer of more than 1 MiB is an error. `token` is the server's token, or "".
Status HttpGet(const std::string& address, const std::string& path,
               const std::string& token, double seconds, std::string* body);

}  // namespace ringlet

#endif  // RINGLET_NET_STATUS_HTTP_GET_H_
