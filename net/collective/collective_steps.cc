// All ranks compute their own lists, without a message: if one list changes,
// each list of the same operation must. The order of additions decides the
// bits of a sum, so another order is another result for every run.

#include "collective_steps.h"

#include <algorithm>

namespace ringlet {
namespace {

int Mod(int a, int n) { return ((a % n) + n) % n; }

// Adds one step around the ring: sends a block to the right, and receives the
// block before it from the left.
void AddRingStep(int rank, int size, Slice send, Slice receive, bool add,
                 std::vector<Step>* out) {
  Step step;
  if (send.count > 0) {
    step.send_to = Mod(rank + 1, size);
    step.send = send;
  }
  if (receive.count > 0) {
    step.receive_from = Mod(rank - 1, size);
    step.receive = receive;
    step.add = add;
  }
  out->push_back(step);
}

}  // namespace

void RingAllReduce(int rank, int size, int64_t length, std::vector<Step>* out) {
  out->clear();
  for (int t = 0; t < 2 * (size - 1); ++t) {
    AddRingStep(rank, size, BlockOf(length, size, Mod(rank - t, size)),
                BlockOf(length, size, Mod(rank - t - 1, size)), t < size - 1,
                out);
  }
}

void RingAllGather(int rank, int size, int64_t length, std::vector<Step>* out) {
  out->clear();
  for (int t = 0; t < size - 1; ++t) {
    AddRingStep(rank, size, {Mod(rank - t, size) * length, length},
                {Mod(rank - t - 1, size) * length, length}, /*add=*/false, out);
  }
}

void DoublingAllReduce(int rank, int size, int64_t length, int64_t piece,
                       std::vector<Step>* out) {
  out->clear();
  if (size == 1) return;
  int core = 1;  // the greatest power of two in size
  while (core * 2 <= size) core *= 2;
  int64_t begin = 0;
  do {
    const Slice part{begin, std::min(piece, length - begin)};
    begin += part.count;
    if (rank >= core) {
      Step hand_over;
      hand_over.send_to = rank - core;
      hand_over.send = part;
      out->push_back(hand_over);
      Step result;
      result.receive_from = rank - core;
      result.receive = part;
      out->push_back(result);
      continue;
    }
    const int extra = rank + core < size ? rank + core : -1;
    if (extra >= 0) {
      Step step;
      step.receive_from = extra;
      step.receive = part;
      step.add = true;
      out->push_back(step);
    }
    for (int distance = 1; distance < core; distance *= 2) {
      Step step;
      step.send_to = step.receive_from = rank ^ distance;
      step.send = step.receive = part;
      step.add = true;
      out->push_back(step);
    }
    if (extra >= 0) {
      Step step;
      step.send_to = extra;
      step.send = part;
      out->push_back(step);
    }
  } while (begin < length);
}

void DirectAllGather(int rank, int size, int64_t length,
                     std::vector<Step>* out) {
  out->clear();
  for (int i = 1; i < size; ++i) {
    Step step;
    step.send_to = Mod(rank + i, size);
    step.send = {rank * length, length};
    out->push_back(step);
  }
  for (int i = 1; i < size; ++i) {
    Step step;
    step.receive_from = Mod(rank - i, size);
    step.receive = {step.receive_from * length, length};
    out->push_back(step);
  }
}

void TreeAllGather(int rank, int size, int64_t length, std::vector<Step>* out) {
  std::vector<Step> down;
  TreeBroadcast(rank, size, 0, length * size, &down);
  out->clear();
  // The ranks below this one in the tree follow it, so each subtree's parts are
  // one slice.
  for (auto step = down.rbegin(); step != down.rend(); ++step) {
    Step up;
    if (step->send_to >= 0) {
      const int child = step->send_to;
      up.receive_from = child;
      up.receive = {child * length,
                    (std::min(2 * child - rank, size) - child) * length};
    } else {
      const int end = std::min(2 * rank - step->receive_from, size);
      up.send_to = step->receive_from;
      up.send = {rank * length, (end - rank) * length};
    }
    out->push_back(up);
  }
  out->insert(out->end(), down.begin(), down.end());
}

void TreeBroadcast(int rank, int size, int root, int64_t length,
                   std::vector<Step>* out) {
  out->clear();
  const int place = Mod(rank - root, size);  // 0 is the root
  int reach = 1;  // this subtree: the places before place + reach
  while (reach < size && (place & reach) == 0) reach *= 2;
  if (place != 0) {
    Step step;
    step.receive_from = Mod(place - reach + root, size);
    step.receive = {0, length};
    out->push_back(step);
  }
  for (int distance = reach / 2; distance >= 1; distance /= 2) {
    if (place + distance >= size) continue;
    Step step;
    step.send_to = Mod(place + distance + root, size);
    step.send = {0, length};
    out->push_back(step);
  }
}

}  // namespace ringlet
