#include "distbelief/run/state_dict.h"

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <system_error>

#include "distbelief/base/error.h"

namespace distbelief::run {
namespace {

using checkpoint::TensorView;

const char* storage_name(ElementType type) {
  switch (type) {
    case ElementType::kFloat32: return "FloatStorage";
    case ElementType::kFloat64: return "DoubleStorage";
    case ElementType::kInt64: return "LongStorage";
    case ElementType::kUint8: return "ByteStorage";
  }
  return "";
}

// Python's pickle, protocol 2; the letters are its opcodes.
class Pickle {
 public:
  Pickle() { text_ = "\x80\x02"; }
  void global(const char* module, const char* name) { text_ += fmt::format("c{}\n{}\n", module, name); }
  void mark() { text_ += '('; }
  void tuple() { text_ += 't'; }  // of everything since the mark
  void reduce() { text_ += 'R'; }
  void set_items() { text_ += 'u'; }
  void persistent_id() { text_ += 'Q'; }
  void false_value() { text_ += '\x89'; }
  void ordered_dict() {
    global("collections", "OrderedDict");
    text_ += ')';
    reduce();
  }
  void word(const std::string& value) {
    text_ += 'X';
    append(value.size(), 4);
    text_ += value;
  }
  void integer(std::int64_t value) {
    text_ += "\x8a\x08";  // 8 bytes, two's complement
    append(std::uint64_t(value), 8);
  }
  std::string end() { return text_ + '.'; }

 private:
  void append(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += char(value >> (8 * i) & 0xFF);
  }
  std::string text_;
};

void add_tensor(Pickle& pickle, const TensorView& tensor, const std::string& key) {
  pickle.word(tensor.name);
  pickle.global("torch._utils", "_rebuild_tensor_v2");
  pickle.mark();
  pickle.mark();
  pickle.word("storage");
  pickle.global("torch", storage_name(tensor.type));
  pickle.word(key);
  pickle.word("cpu");
  pickle.integer(element_count(tensor.shape));
  pickle.tuple();
  pickle.persistent_id();
  pickle.integer(0);  // offset in its storage
  pickle.mark();
  for (const std::int64_t size : tensor.shape) pickle.integer(size);
  pickle.tuple();
  pickle.mark();
  for (std::size_t i = 0; i < tensor.shape.size(); ++i)
    pickle.integer(element_count(Shape(tensor.shape.begin() + std::ptrdiff_t(i) + 1, tensor.shape.end())));
  pickle.tuple();
  pickle.false_value();   // requires no gradient
  pickle.ordered_dict();  // no hooks
  pickle.tuple();
  pickle.reduce();
}

void write_archive(const std::filesystem::path& path, std::span<const TensorView> tensors) {
  Pickle pickle;
  pickle.ordered_dict();
  pickle.mark();
  for (std::size_t i = 0; i < tensors.size(); ++i) add_tensor(pickle, tensors[i], std::to_string(i));
  pickle.set_items();
  const std::string text = pickle.end();
  caffe2::serialize::PyTorchStreamWriter writer(path.string());
  writer.writeRecord("data.pkl", text.data(), text.size());
  std::vector<std::byte> buffer;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    writer.writeRecord("data/" + std::to_string(i), bytes_of(tensors[i], buffer), tensors[i].byte_count());
  writer.writeEndOfFile();
}

}  // namespace

void write_state_dict(const std::filesystem::path& path, std::span<const TensorView> tensors) {
  const std::filesystem::path temporary = path.string() + ".tmp-" + std::to_string(getpid());
  std::error_code error;
  try {
    write_archive(temporary, tensors);
    std::filesystem::rename(temporary, path);
  } catch (const std::exception& failure) {
    std::filesystem::remove(temporary, error);
    throw Error(ErrorCode::kUnavailable,
                fmt::format("cannot write {}: does its folder exist, and is there room?", path.string()));
  }
}

}  // namespace distbelief::run
