// CSoundCall: the call in C of a layer of sound, in float.

#ifndef RINGLET_IO_EXPORT_C_C_SOUND_H_
#define RINGLET_IO_EXPORT_C_C_SOUND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "../lowering.h"
#include "c_helpers.h"
#include "c_shapes.h"
#include "ringlet/layers.h"
#include "ringlet/shape.h"

namespace ringlet {

// function(x, y, arrays…, z), where z has `scratch` floats.
struct CSoundCall {
  struct Array {
    CInts ints;  // empty means floats
    std::vector<float> floats;
  };
  CHelpers helpers;
  const char* function = "";
  std::vector<Array> arrays;
  int64_t scratch = 0;
};

// True for a kSpectrogram and a kStft.
bool IsSound(const Primitive& primitive);
// `input` is the shape of x.
CSoundCall MakeSoundCall(const Layer& layer, const Shape& input);

}  // namespace ringlet

#endif  // RINGLET_IO_EXPORT_C_C_SOUND_H_
