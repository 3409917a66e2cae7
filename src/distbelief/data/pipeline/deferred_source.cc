#include "distbelief/data/pipeline/deferred_source.h"

#include <mutex>

namespace distbelief::data {
namespace {

// The set that both parts share. Thread-safe. A failure is not cached, so the next call tries again.
class DeferredSet {
 public:
  explicit DeferredSet(std::function<DataSet()> open) : open_(std::move(open)) {}
  const DataSet& get() {
    std::call_once(opened_, [this] { set_ = open_(); });
    return set_;
  }

 private:
  std::function<DataSet()> open_;
  std::once_flag opened_;
  DataSet set_;
};

class DeferredSource final : public Source {
 public:
  using PartOf = std::unique_ptr<Source> DataSet::*;
  DeferredSource(std::shared_ptr<DeferredSet> set, PartOf part, const SampleSpec& spec)
      : set_(std::move(set)),
        part_(part) {
    spec_ = spec;
  }
  std::uint64_t size() const override { return source().size(); }
  void read(std::uint64_t index, void* input, void* target) const override {
    source().read(index, input, target);
  }
  void read_columns(std::uint64_t index, std::uint64_t begin, std::uint64_t count, void* input,
                    void* target) const override {
    source().read_columns(index, begin, count, input, target);
  }
  void expect(std::uint64_t index) const override { source().expect(index); }
  Locality locality() const override { return source().locality(); }
  void announce(Range samples) const override { source().announce(samples); }

 private:
  const Source& source() const { return *(set_->get().*part_); }

  std::shared_ptr<DeferredSet> set_;
  PartOf part_;
};

}  // namespace

DataSet deferred_data_set(const KnownSet& known, std::function<DataSet()> open) {
  const auto set = std::make_shared<DeferredSet>(std::move(open));
  return {std::make_unique<DeferredSource>(set, &DataSet::train, known.spec),
          std::make_unique<DeferredSource>(set, &DataSet::test, known.spec), known.learnt};
}

}  // namespace distbelief::data
