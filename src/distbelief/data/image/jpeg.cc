#include "distbelief/data/image/jpeg.h"

#include <fmt/format.h>

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <optional>

#include <jpeglib.h>  // after <cstdio>, which it needs and does not include

#include <jerror.h>  // after <jpeglib.h>, whose macros select the messages

namespace distbelief::data {
namespace {

constexpr long kMostDecoderBytes = 256L << 20;  // for the coefficients of a large progressive picture
constexpr int kMostScans = 200;                 // 10 are usual; each costs a pass over the whole picture
constexpr JDIMENSION kRowsAtOnce = 16;

// Errors in libjpeg return by longjmp, because no exception may pass through C frames.
struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf jump;
  char reason[JMSG_LENGTH_MAX];
};

JpegErrors& errors_of(j_common_ptr info) { return *reinterpret_cast<JpegErrors*>(info->err); }

[[noreturn]] void leave(j_common_ptr info) {
  JpegErrors& errors = errors_of(info);
  errors.manager.format_message(info, errors.reason);
  std::longjmp(errors.jump, 1);
}

// libjpeg reports most damage as a warning and continues with grey pixels. Here lost data is an error;
// harmless deviations of encoders (such as bytes between segments) are not.
void judge_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_NOT_SEQUENTIAL: leave(info);
    default: return;
  }
}

void print_nothing(j_common_ptr) {}

void count_scans(j_common_ptr info) {
  if (!info->is_decompressor) return;
  const auto* decoder = reinterpret_cast<j_decompress_ptr>(info);
  if (decoder->input_scan_number <= kMostScans) return;
  std::snprintf(errors_of(info).reason, JMSG_LENGTH_MAX, "more than %d scans", kMostScans);
  std::longjmp(errors_of(info).jump, 1);
}

// Returns the smallest scale of 1/8, 1/4, 1/2 and 1/1, which have fast code, that keeps the shorter side at
// `least_side` or more.
unsigned eighths(ImageSize size, std::uint32_t least_side) {
  if (least_side == 0) return 8;
  const std::uint32_t side = std::min(size.width, size.height);
  for (const unsigned eighth : {1U, 2U, 4U})
    if ((std::uint64_t{side} * eighth + 7) / 8 >= least_side) return eighth;
  return 8;
}

// Adobe's CMYK is inverted: 255 means no ink.
void cmyk_to_output(const std::uint8_t* from, std::size_t count, std::uint32_t channels, std::uint8_t* to) {
  const auto mix = [](std::uint32_t ink, std::uint32_t black) { return (ink * black + 127) / 255; };
  for (std::size_t i = 0; i < count; ++i, from += 4) {
    const std::uint32_t red = mix(from[0], from[3]), green = mix(from[1], from[3]),
                        blue = mix(from[2], from[3]);
    if (channels == 1) {
      *to++ = grey_of(red, green, blue);
    } else {
      *to++ = static_cast<std::uint8_t>(red);
      *to++ = static_cast<std::uint8_t>(green);
      *to++ = static_cast<std::uint8_t>(blue);
    }
  }
}

bool has_factors(const jpeg_component_info& component, int across, int down) {
  return component.h_samp_factor == across && component.v_samp_factor == down;
}

// The colour sampling of the picture, if YccPicture supports it.
std::optional<YccPicture::Colour> colour_kept(const jpeg_decompress_struct& info) {
  if (info.jpeg_color_space != JCS_YCbCr || info.num_components != 3) return std::nullopt;
  if (!has_factors(info.comp_info[1], 1, 1) || !has_factors(info.comp_info[2], 1, 1)) return std::nullopt;
  if (has_factors(info.comp_info[0], 1, 1)) return YccPicture::Colour::kEveryPixel;
  if (info.image_width <= 4) return std::nullopt;  // libjpeg does not filter so few samples
  if (has_factors(info.comp_info[0], 2, 1)) return YccPicture::Colour::kHalfAcross;
  if (has_factors(info.comp_info[0], 2, 2)) return YccPicture::Colour::kHalfAcrossAndDown;
  return std::nullopt;
}

}  // namespace

struct JpegDecoder::State {
  jpeg_decompress_struct info;
  JpegErrors errors;
  jpeg_progress_mgr progress;
  std::vector<std::uint8_t> inks;  // one row of CMYK

  std::uint64_t offset(std::size_t file_bytes) const {
    return info.src == nullptr ? 0 : file_bytes - std::min(file_bytes, info.src->bytes_in_buffer);
  }
  // Reads the header and checks the size. Throws ImageFault, as does require().
  ImageSize open(std::span<const std::uint8_t> file, std::uint64_t most_pixels);
  void require(bool done, std::size_t file_bytes);
  // These functions return false after a longjmp, which must only leave frames without destructors.
  bool read_header(std::span<const std::uint8_t> file);
  bool start(const DecodeRequest& request, unsigned scale);
  bool start_apart();
  bool read_planes(YccPicture& out);
  bool read_rows(Pixels& out);
  bool read_inks(Pixels& out);
};

bool JpegDecoder::State::read_header(std::span<const std::uint8_t> file) {
  if (setjmp(errors.jump) != 0) return false;
  jpeg_mem_src(&info, file.data(), file.size());
  jpeg_read_header(&info, TRUE);
  return true;
}

ImageSize JpegDecoder::State::open(std::span<const std::uint8_t> file, std::uint64_t most_pixels) {
  require(read_header(file), file.size());
  const ImageSize size{info.image_width, info.image_height};
  try {
    require_pixels(size, most_pixels, offset(file.size()));
  } catch (const ImageFault&) {
    jpeg_abort_decompress(&info);
    throw;
  }
  return size;
}

void JpegDecoder::State::require(bool done, std::size_t file_bytes) {
  if (done) return;
  const std::uint64_t where = offset(file_bytes);
  jpeg_abort_decompress(&info);
  throw ImageFault(where, fmt::format("damaged JPEG: {}", errors.reason));
}

bool JpegDecoder::State::start(const DecodeRequest& request, unsigned scale) {
  if (setjmp(errors.jump) != 0) return false;
  info.scale_num = scale;
  info.scale_denom = 8;
  info.dct_method = JDCT_ISLOW;
  const bool inked = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = inked ? JCS_CMYK : request.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&info);
  return true;
}

bool JpegDecoder::State::start_apart() {
  if (setjmp(errors.jump) != 0) return false;
  info.dct_method = JDCT_ISLOW;
  info.raw_data_out = TRUE;
  info.out_color_space = JCS_YCbCr;
  jpeg_start_decompress(&info);
  return true;
}

// Reads one row of blocks at a time, as libjpeg requires: up to 16 sample rows of each plane.
bool JpegDecoder::State::read_planes(YccPicture& out) {
  if (setjmp(errors.jump) != 0) return false;
  const auto rows_at_once = static_cast<JDIMENSION>(info.max_v_samp_factor * DCTSIZE);
  while (info.output_scanline < info.output_height) {
    JSAMPROW rows[3][kRowsAtOnce];
    JSAMPARRAY planes[3] = {rows[0], rows[1], rows[2]};
    for (int plane = 0; plane < 3; ++plane) {
      const int count = info.comp_info[plane].v_samp_factor * DCTSIZE;
      const std::size_t first = std::size_t{info.output_scanline} / rows_at_once * std::size_t(count);
      for (int i = 0; i < count; ++i)
        rows[plane][i] =
            out.planes[plane].samples.data() + (first + std::size_t(i)) * out.planes[plane].row_bytes;
    }
    jpeg_read_raw_data(&info, planes, rows_at_once);
  }
  jpeg_finish_decompress(&info);
  return true;
}

// Reads all rows although a crop needs fewer: skipping rows or columns (jpeg_skip_scanlines,
// jpeg_crop_scanline) was measured to be a fifth slower.
bool JpegDecoder::State::read_rows(Pixels& out) {
  if (setjmp(errors.jump) != 0) return false;
  while (info.output_scanline < info.output_height) {
    JSAMPROW rows[kRowsAtOnce];
    const JDIMENSION count = std::min(kRowsAtOnce, info.output_height - info.output_scanline);
    for (JDIMENSION i = 0; i < count; ++i)
      rows[i] = out.bytes.data() + (info.output_scanline + i) * out.row_bytes();
    jpeg_read_scanlines(&info, rows, count);
  }
  jpeg_finish_decompress(&info);
  return true;
}

bool JpegDecoder::State::read_inks(Pixels& out) {
  if (setjmp(errors.jump) != 0) return false;
  while (info.output_scanline < info.output_height) {
    std::uint8_t* to = out.bytes.data() + info.output_scanline * out.row_bytes();
    JSAMPROW row = inks.data();
    jpeg_read_scanlines(&info, &row, 1);
    cmyk_to_output(inks.data(), out.width, out.channels, to);
  }
  jpeg_finish_decompress(&info);
  return true;
}

JpegDecoder::JpegDecoder() : state_(std::make_unique<State>()) {
  std::memset(&state_->info, 0, sizeof state_->info);
  state_->info.err = jpeg_std_error(&state_->errors.manager);
  state_->errors.manager.error_exit = leave;
  state_->errors.manager.emit_message = judge_message;
  state_->errors.manager.output_message = print_nothing;
  if (setjmp(state_->errors.jump) != 0) throw std::bad_alloc();  // only memory allocation can fail here
  jpeg_create_decompress(&state_->info);
  state_->info.mem->max_memory_to_use = kMostDecoderBytes;
  state_->progress = {};
  state_->progress.progress_monitor = count_scans;
  state_->info.progress = &state_->progress;
}

JpegDecoder::~JpegDecoder() { jpeg_destroy_decompress(&state_->info); }

void JpegDecoder::decode(std::span<const std::uint8_t> file, const DecodeRequest& request, Pixels& out) {
  State& state = *state_;
  const ImageSize size = state.open(file, request.most_pixels);
  state.require(state.start(request, eighths(size, request.least_side)), file.size());
  out.width = state.info.output_width;
  out.height = state.info.output_height;
  out.channels = request.channels;
  out.bytes.resize(out.row_bytes() * out.height);
  const bool inked = state.info.out_color_space == JCS_CMYK;
  if (inked) state.inks.resize(std::size_t{4} * out.width);
  state.require(inked ? state.read_inks(out) : state.read_rows(out), file.size());
}

bool JpegDecoder::decode_apart(std::span<const std::uint8_t> file, const DecodeRequest& request,
                               YccPicture& out) {
  State& state = *state_;
  const ImageSize size = state.open(file, request.most_pixels);
  const bool fits = request.least_side == 0 || request.least_side == std::min(size.width, size.height);
  const auto colour = colour_kept(state.info);
  if (request.channels != 3 || !fits || !colour) {
    jpeg_abort_decompress(&state.info);
    return false;
  }
  state.require(state.start_apart(), file.size());
  out.colour = *colour;
  for (int i = 0; i < 3; ++i) {
    const jpeg_component_info& component = state.info.comp_info[i];
    const std::size_t rows =
        std::size_t{state.info.total_iMCU_rows} * std::size_t(component.v_samp_factor) * DCTSIZE;
    YccPicture::Plane& plane = out.planes[i];
    plane.width = component.downsampled_width;
    plane.height = component.downsampled_height;
    plane.row_bytes = std::size_t{component.width_in_blocks} * DCTSIZE;
    plane.samples.resize(plane.row_bytes * rows);
  }
  state.require(state.read_planes(out), file.size());
  return true;
}

ImageSize JpegDecoder::size(std::span<const std::uint8_t> file) {
  const bool read = state_->read_header(file);
  const std::uint64_t offset = state_->offset(file.size());
  const ImageSize size{state_->info.image_width, state_->info.image_height};
  jpeg_abort_decompress(&state_->info);
  if (!read) throw ImageFault(offset, fmt::format("damaged JPEG: {}", state_->errors.reason));
  return size;
}

}  // namespace distbelief::data
