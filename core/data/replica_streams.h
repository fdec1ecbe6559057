// ReplicaStreams: the policies kFile and kOff, with which each replica has its
// own stream of examples.
//
// A step takes one piece of each stream. Each replica's pieces follow from all
// replicas' sizes, so all ranks agree on the number of steps of a pass.

#ifndef RINGLET_CORE_DATA_REPLICA_STREAMS_H_
#define RINGLET_CORE_DATA_REPLICA_STREAMS_H_

#include <cstddef>
#include <cstdint>

#include "dataset_parts.h"
#include "ringlet/status.h"

namespace ringlet {

class ReplicaStreams {
 public:
  // `dataset` outlives this.
  ReplicaStreams(const DatasetParts& dataset, int replicas)
      : data_(dataset), replicas_(replicas) {}

  // True if each replica reads only the examples of its own files.
  bool by_file() const;
  // If Dataset::OwnExamples is set, checks that the source has the examples of
  // `replica`; this worker computes `parts` replicas.
  Status CheckOwnExamples(int replica, int parts) const;
  int64_t Size(int replica) const;  // examples of one pass
  int64_t StepsOfPass() const;      // steps of the longest pass
  // Like DatasetParts::Plan and ExampleAt. i is a number in the stream.
  BatchPlan Plan(const DataPosition& position, int replica) const;
  int64_t ExampleAt(int64_t pass, int64_t i, int replica) const;

 private:
  int64_t Steps(int replica) const;  // steps of one pass
  // Begin and size of the replica's piece number `step` of its pass.
  void Piece(int64_t step, int replica, int64_t* first, int64_t* count) const;
  // The index of the first example of file `file` or a later one, before
  // Shuffle.
  int64_t FileBegin(size_t file) const;

  const DatasetParts& data_;
  const int replicas_;
};

}  // namespace ringlet

#endif  // RINGLET_CORE_DATA_REPLICA_STREAMS_H_
