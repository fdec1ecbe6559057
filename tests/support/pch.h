// The headers that nearly every test includes, for the precompiled header.

#ifndef RINGLET_TESTS_SUPPORT_PCH_H_
#define RINGLET_TESTS_SUPPORT_PCH_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#endif  // RINGLET_TESTS_SUPPORT_PCH_H_
