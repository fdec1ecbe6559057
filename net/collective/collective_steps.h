// The steps of the collective operations: which rank sends which part of a
// vector to which rank, in which order.
//
// Pure functions of (rank, size, length), without sockets. A rank does the
// steps of its list under three rules:
//   - receives take effect in the order of the list;
//   - a send may begin when every receive of an earlier step that covers the
//     same part has taken effect (a long step moves in segments);
//   - if a step sends and receives the same part, the send is first.
// Lengths are in elements. An empty transfer is one frame.

#ifndef RINGLET_NET_COLLECTIVE_COLLECTIVE_STEPS_H_
#define RINGLET_NET_COLLECTIVE_COLLECTIVE_STEPS_H_

#include <cstdint>
#include <vector>

namespace ringlet {

struct Slice {
  int64_t begin = 0;
  int64_t count = 0;
};

struct Step {
  int send_to = -1;  // -1 if this step sends nothing
  Slice send;
  int receive_from = -1;
  Slice receive;
  bool add = false;  // the received part is added, not copied
};

// Part `block` of `size` of a vector of `length`; 0 <= block < size.
inline Slice BlockOf(int64_t length, int size, int block) {
  const int64_t block_length = length / size;
  const int64_t extra =
      length % size;  // the first `extra` blocks have one more
  const int64_t begin = block_length * block + (block < extra ? block : extra);
  return {begin, block_length + (block < extra ? 1 : 0)};
}

// All-reduce as reduce-scatter and all-gather around the ring: 2(size-1) steps,
// each moves 1/size of the vector. No algorithm can move less. Every
// block is summed once, along the ring, and copied to all: the same bits on
// every rank. Empty blocks do not move, so length must not be 0.
void RingAllReduce(int rank, int size, int64_t length, std::vector<Step>* out);

// All-reduce by recursive doubling: about log2(size) steps, each moves the
// whole vector, `piece` elements at a time. Partners add the same two numbers,
// so all ranks end with the same bits. Ranks beyond the greatest power of two
// hand their vector to a partner first and get the sum last.
void DoublingAllReduce(int rank, int size, int64_t length, int64_t piece,
                       std::vector<Step>* out);

// out[r * length ...] becomes rank r's part: around the ring. length > 0.
void RingAllGather(int rank, int size, int64_t length, std::vector<Step>* out);
// Steps for short parts: each rank sends its own part to every other rank.
void DirectAllGather(int rank, int size, int64_t length,
                     std::vector<Step>* out);
// Steps that need no link for every pair: the parts go up a binomial tree to
// rank 0, and the whole vector down again.
void TreeAllGather(int rank, int size, int64_t length, std::vector<Step>* out);

// The vector goes from the root down a binomial tree.
void TreeBroadcast(int rank, int size, int root, int64_t length,
                   std::vector<Step>* out);

}  // namespace ringlet

#endif  // RINGLET_NET_COLLECTIVE_COLLECTIVE_STEPS_H_
