// In the place of a reader of sounds, which a module of Go does not contain since it
// lies in a folder "vendor": it reads none. No model here hears.
#pragma once

// What whoever includes the real one relies on.
#include <cerrno>
#include <cstdarg>
#include <cstring>

typedef int ma_result;
typedef unsigned long long ma_uint64;
enum { MA_SUCCESS = 0, MA_NOT_IMPLEMENTED = -29 };
enum ma_format { ma_format_f32 };
struct ma_decoder_config {};
struct ma_decoder {};

static inline ma_decoder_config ma_decoder_config_init(ma_format, unsigned, unsigned) { return {}; }
static inline ma_result ma_decoder_init_memory(const void *, unsigned long, const ma_decoder_config *, ma_decoder *) {
  return MA_NOT_IMPLEMENTED;
}
static inline ma_result ma_decoder_get_length_in_pcm_frames(ma_decoder *, ma_uint64 *) { return MA_NOT_IMPLEMENTED; }
static inline ma_result ma_decoder_read_pcm_frames(ma_decoder *, void *, ma_uint64, ma_uint64 *) {
  return MA_NOT_IMPLEMENTED;
}
static inline ma_result ma_decoder_uninit(ma_decoder *) { return MA_SUCCESS; }
