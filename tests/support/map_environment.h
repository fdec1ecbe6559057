// An environment made of pairs, in place of the process's.

#ifndef RINGLET_TESTS_SUPPORT_MAP_ENVIRONMENT_H_
#define RINGLET_TESTS_SUPPORT_MAP_ENVIRONMENT_H_

#include <map>
#include <string>

#include "net/cluster/environment.h"

namespace ringlet {

class MapEnvironment final : public Environment {
 public:
  MapEnvironment(std::map<std::string, std::string> variables,
                 std::string host_name = "laptop")
      : variables_(std::move(variables)), host_name_(std::move(host_name)) {}

  const char* Get(const char* name) const override {
    const auto found = variables_.find(name);
    return found == variables_.end() ? nullptr : found->second.c_str();
  }
  std::string HostName() const override { return host_name_; }

 private:
  std::map<std::string, std::string> variables_;
  std::string host_name_;
};

}  // namespace ringlet

#endif  // RINGLET_TESTS_SUPPORT_MAP_ENVIRONMENT_H_
