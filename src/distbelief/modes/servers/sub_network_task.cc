#include "distbelief/modes/servers/sub_network_task.h"

#include <fmt/format.h>

#include "distbelief/base/error.h"
#include "distbelief/model/device.h"
#include "distbelief/model/local_head.h"

namespace distbelief::modes {
namespace {

class SubNetworkTask final : public tasks::Task {
 public:
  SubNetworkTask(std::unique_ptr<tasks::Task> whole, SubNetworkSite site)
      : whole_(std::move(whole)),
        site_(std::move(site)) {}

  std::int64_t items_per_sample() const override { return whole_->items_per_sample(); }
  std::vector<tasks::Backward> backwards() const override { return whole_->backwards(); }
  tasks::ScoreShape score_shape() const override { return whole_->score_shape(); }
  tasks::Score score(model::Network& network, const tasks::TensorBatch& batch) const override {
    return whole_->score(network, batch);
  }
  std::vector<tasks::Metric> metrics(const tasks::Tally& tally) const override {
    return whole_->metrics(tally);
  }

  // Borrows the input, which stays until the next step.
  tasks::TensorBatch prepared(tasks::TensorBatch batch) const override {
    if (site_.input.empty()) return whole_->prepared(std::move(batch));
    Shape shape = site_.input;
    shape.insert(shape.begin(), batch.size);
    std::vector<std::byte>& bytes = site_.traffic->input;
    if (bytes.size() != std::size_t(element_count(shape)) * sizeof(float))
      throw Error(ErrorCode::kInternal,
                  fmt::format("the sub-network before gave {} bytes for {} samples of {}", bytes.size(),
                              batch.size, to_string(site_.input)));
    batch.input = model::borrow_host(bytes.data(), shape, torch::kFloat32);
    return whole_->prepared(std::move(batch));
  }

  torch::Tensor loss_sum(model::Network& network, const tasks::TensorBatch& batch,
                         std::size_t backward) const override {
    torch::Tensor loss = whole_->loss_sum(network, batch, backward);
    const auto* head = dynamic_cast<model::LocalHead*>(&network.block(network.range().end - 1));
    if (head != nullptr) site_.traffic->output = model::on_host(head->given());
    return loss;
  }

 private:
  std::unique_ptr<tasks::Task> whole_;
  SubNetworkSite site_;
};

}  // namespace

std::unique_ptr<tasks::Task> make_sub_network_task(std::unique_ptr<tasks::Task> whole,
                                                   const SubNetworkSite& site) {
  return std::make_unique<SubNetworkTask>(std::move(whole), site);
}

}  // namespace distbelief::modes
