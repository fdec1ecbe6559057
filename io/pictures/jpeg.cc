// JPEG by libjpeg-turbo, as `djpeg -dct int` decodes it.
//
// The decoder's function jidctint, and its SIMD variants, are integer
// arithmetic with one result; so are the conversion of colours and the "fancy"
// upsampling. Its other transforms differ between machines.

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <jpeglib.h>

#include <jerror.h>

#include "decoders.h"

namespace ringlet {
namespace {

constexpr int kMaxScans = 500;  // the most scans of a progressive file

enum class Outcome : uint8_t { kEndsEarly, kDamaged, kTooManyScans, kNoMemory };

struct Decoder {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jpeg_source_mgr source;
  jpeg_progress_mgr progress;
  jmp_buf failed;
  Outcome outcome;
  char message[JMSG_LENGTH_MAX];
};

Decoder* DecoderOf(j_common_ptr info) {
  return static_cast<Decoder*>(info->client_data);
}

[[noreturn]] void Fail(j_common_ptr info, Outcome outcome) {
  Decoder* const decoder = DecoderOf(info);
  decoder->outcome = outcome;
  std::longjmp(decoder->failed, 1);
}

[[noreturn]] void FailWithMessage(j_common_ptr info) {
  info->err->format_message(info, DecoderOf(info)->message);
  const int code = info->err->msg_code;
  const bool lacks =
      code == JERR_OUT_OF_MEMORY || code == JERR_NO_BACKING_STORE;
  Fail(info, lacks ? Outcome::kNoMemory : Outcome::kDamaged);
}

// Warnings of harmless bytes, which some cameras write, are ignored. All other
// warnings mean wrong pixels.
void OnMessage(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
      return;
    default:
      FailWithMessage(info);
  }
}

void OnStart(j_decompress_ptr) {}
boolean OnEnd(j_decompress_ptr info) {
  Fail(reinterpret_cast<j_common_ptr>(info), Outcome::kEndsEarly);
}
void OnSkip(j_decompress_ptr info, long bytes) {
  if (bytes <= 0) return;
  if (static_cast<size_t>(bytes) > info->src->bytes_in_buffer) OnEnd(info);
  info->src->next_input_byte += bytes;
  info->src->bytes_in_buffer -= static_cast<size_t>(bytes);
}

// A small file may have many scans of a large picture.
void OnProgress(j_common_ptr info) {
  const auto* const jpeg = reinterpret_cast<j_decompress_ptr>(info);
  if (jpeg->input_scan_number > kMaxScans) Fail(info, Outcome::kTooManyScans);
}

void Start(std::string_view file, Decoder* d) {
  std::memset(d, 0, sizeof(*d));
  d->info.err = jpeg_std_error(&d->errors);
  d->errors.error_exit = FailWithMessage;
  d->errors.emit_message = OnMessage;
  d->info.client_data = d;
  d->source.next_input_byte = reinterpret_cast<const JOCTET*>(file.data());
  d->source.bytes_in_buffer = file.size();
  d->source.init_source = OnStart;
  d->source.fill_input_buffer = OnEnd;
  d->source.skip_input_data = OnSkip;
  d->source.resync_to_restart = jpeg_resync_to_restart;
  d->source.term_source = OnStart;
  d->progress.progress_monitor = OnProgress;
}

// These functions have no object with a destructor: errors jump out of them.
bool ReadHeader(Decoder* d) {
  if (setjmp(d->failed) != 0) return false;
  jpeg_create_decompress(&d->info);
  d->info.mem->max_memory_to_use = 0;  // the variable JPEGMEM has no effect
  d->info.src = &d->source;
  d->info.progress = &d->progress;
  jpeg_read_header(&d->info, TRUE);
  return true;
}

// The rows have `channels` bytes for each pixel, or 4 for CMYK.
bool ReadRows(Decoder* d, J_COLOR_SPACE colors, unsigned char* pixels) {
  if (setjmp(d->failed) != 0) return false;
  d->info.out_color_space = colors;
  d->info.dct_method = JDCT_ISLOW;
  d->info.do_fancy_upsampling = TRUE;
  d->info.do_block_smoothing = FALSE;  // it differs between versions
  jpeg_start_decompress(&d->info);
  const size_t row = size_t{d->info.output_width} *
                     static_cast<size_t>(d->info.output_components);
  while (d->info.output_scanline < d->info.output_height) {
    JSAMPROW line = pixels + row * d->info.output_scanline;
    jpeg_read_scanlines(&d->info, &line, 1);
  }
  jpeg_finish_decompress(&d->info);
  return true;
}

Status ErrorOf(Decoder* decoder) {
  jpeg_abort_decompress(&decoder->info);  // an error too takes memory
  const Decoder& d = *decoder;
  switch (d.outcome) {
    case Outcome::kEndsEarly:
      return EndsEarly();
    case Outcome::kTooManyScans:
      return Corruption("is a JPEG of more than %d scans", kMaxScans);
    case Outcome::kNoMemory:
      return ResourceExhausted("no memory to decode the JPEG: %s", d.message);
    case Outcome::kDamaged:
      break;
  }
  return Corruption("is damaged: %s", d.message);
}

// Converts as TensorFlow does. Adobe writes inverted values.
void ConvertCmyk(bool inverted, Picture* picture) {
  const auto count = static_cast<size_t>(picture->count());
  unsigned char* const pixels = picture->pixels.data();
  for (size_t i = 0; i < count; ++i) {
    unsigned cmyk[4];
    for (size_t c = 0; c < 4; ++c) {
      cmyk[c] = inverted ? pixels[4 * i + c] : 255u - pixels[4 * i + c];
    }
    for (size_t c = 0; c < 3; ++c) {
      pixels[3 * i + c] = static_cast<unsigned char>(cmyk[c] * cmyk[3] / 255);
    }
  }
  picture->pixels.resize(count * 3);
  picture->channels = 3;
}

Status Decode(Decoder* d, bool size_only, bool gray, Picture* picture) {
  if (!ReadHeader(d)) return ErrorOf(d);
  const jpeg_decompress_struct& info = d->info;
  RINGLET_RETURN_IF_ERROR(CheckSize(info.image_width, info.image_height));
  picture->width = info.image_width;
  picture->height = info.image_height;
  picture->channels = info.num_components == 1 ? 1 : 3;
  // A progressive file's coefficients are in memory, 2 bytes each, for up to
  // 4 components in whole blocks of 4 x 4 times 8 x 8.
  const uint64_t blocks = (uint64_t{info.image_width} / 32 + 1) *
                          (uint64_t{info.image_height} / 32 + 1);
  picture->buffer_bytes =
      jpeg_has_multiple_scans(&d->info)
          ? blocks * 1024 * 2 * static_cast<unsigned>(info.num_components)
          : 0;
  if (size_only) return Status();
  const bool cmyk =
      info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  picture->channels = cmyk ? 4 : gray ? 1 : 3;
  RINGLET_RETURN_IF_ERROR(AllocatePixels(picture->buffer_bytes, picture));
  const J_COLOR_SPACE colors = cmyk ? JCS_CMYK : gray ? JCS_GRAYSCALE : JCS_RGB;
  if (!ReadRows(d, colors, picture->pixels.data())) return ErrorOf(d);
  if (cmyk) ConvertCmyk(info.saw_Adobe_marker != 0, picture);
  return Status();
}

}  // namespace

bool ReadsJpeg() { return true; }

Status DecodeJpeg(std::string_view file, bool size_only, bool gray,
                  Picture* picture) {
  Decoder decoder;
  Start(file, &decoder);
  const Status status = Decode(&decoder, size_only, gray, picture);
  jpeg_destroy_decompress(&decoder.info);
  return status;
}

}  // namespace ringlet
