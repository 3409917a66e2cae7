#include "distbelief/data/image/png.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>

namespace distbelief::data {
namespace {

constexpr std::size_t kMostChunkBytes = std::size_t{8}
                                        << 20;  // for text and profiles, which may be compressed
// Keeps no chunks: libpng skips texts and unknown chunks unread. (0 would mean no limit.)
constexpr int kMostKeptChunks = 1;

// The input of libpng, and the reason why it gave up.
struct PngInput {
  std::span<const std::uint8_t> file;
  std::size_t at = 0;
  char reason[128] = "";
};

void read_input(png_structp png, png_bytep to, png_size_t count) {
  auto* input = static_cast<PngInput*>(png_get_io_ptr(png));
  if (count > input->file.size() - input->at) {
    input->at = input->file.size();
    png_error(png, "the file ends too early");
  }
  std::memcpy(to, input->file.data() + input->at, count);
  input->at += count;
}

[[noreturn]] void give_up(png_structp png, png_const_charp reason) {
  auto* input = static_cast<PngInput*>(png_get_error_ptr(png));
  std::strncpy(input->reason, reason, sizeof input->reason - 1);
  png_longjmp(png, 1);
}

void pass_over(png_structp, png_const_charp) {}

// Owns the two structures of libpng. The member functions that call libpng return false after its longjmp,
// which must only leave frames without destructors.
class PngReader {
 public:
  explicit PngReader(PngInput& input)
      : png_(png_create_read_struct(PNG_LIBPNG_VER_STRING, &input, give_up, pass_over)),
        info_(png_ == nullptr ? nullptr : png_create_info_struct(png_)) {
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
    png_set_read_fn(png_, &input, read_input);
    png_set_chunk_malloc_max(png_, kMostChunkBytes);
    png_set_chunk_cache_max(png_, kMostKeptChunks);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  bool read_header(ImageSize& size) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_info(png_, info_);
    size = {png_get_image_width(png_, info_), png_get_image_height(png_, info_)};
    return true;
  }

  // Converts every kind to three 8-bit channels, or to one when the picture is grey and grey is wanted.
  bool start(std::uint32_t wanted, std::uint32_t& channels) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_expand(png_);
    png_set_strip_16(png_);
    png_set_strip_alpha(png_);
    if (wanted == 3) png_set_gray_to_rgb(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    channels = png_get_channels(png_, info_);
    return true;
  }

  bool read_rows(std::uint8_t** rows) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_image(png_, rows);
    png_read_end(png_, nullptr);
    return true;
  }

 private:
  png_structp png_;
  png_infop info_;
};

void make_grey(Pixels& pixels) {
  const std::size_t count = std::size_t{pixels.width} * pixels.height;
  const std::uint8_t* from = pixels.bytes.data();
  for (std::size_t i = 0; i < count; ++i, from += 3) pixels.bytes[i] = grey_of(from[0], from[1], from[2]);
  pixels.channels = 1;
}

}  // namespace

void require_pixels(ImageSize size, std::uint64_t most_pixels, std::uint64_t offset) {
  const std::uint64_t count = std::uint64_t{size.width} * size.height;
  if (count > 0 && count <= most_pixels) return;
  throw ImageFault(offset, fmt::format("the header promises {} x {} pixels, 1 to {} are taken", size.width,
                                       size.height, most_pixels));
}

bool is_png(std::span<const std::uint8_t> file) {
  constexpr std::size_t kSignatureBytes = 8;
  return file.size() >= kSignatureBytes && png_sig_cmp(file.data(), 0, kSignatureBytes) == 0;
}

void decode_png(std::span<const std::uint8_t> file, const DecodeRequest& request, Pixels& out,
                std::vector<std::uint8_t*>& rows) {
  PngInput input{.file = file};
  PngReader reader(input);
  const auto require = [&](bool done) {
    if (!done) throw ImageFault(input.at, fmt::format("damaged PNG: {}", input.reason));
  };
  ImageSize size;
  require(reader.read_header(size));
  require_pixels(size, request.most_pixels, input.at);
  require(reader.start(request.channels, out.channels));
  out.width = size.width;
  out.height = size.height;
  out.bytes.resize(out.row_bytes() * out.height);
  rows.resize(out.height);
  for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = out.bytes.data() + y * out.row_bytes();
  require(reader.read_rows(rows.data()));
  if (request.channels == 1 && out.channels == 3) make_grey(out);
}

ImageSize png_size(std::span<const std::uint8_t> file) {
  PngInput input{.file = file};
  PngReader reader(input);
  ImageSize size;
  if (!reader.read_header(size)) throw ImageFault(input.at, fmt::format("damaged PNG: {}", input.reason));
  return size;
}

}  // namespace distbelief::data
