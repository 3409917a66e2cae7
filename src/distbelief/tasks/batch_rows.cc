#include "distbelief/tasks/batch_rows.h"

#include "distbelief/compute/row_values.h"
#include "distbelief/model/device.h"

namespace distbelief::tasks {
namespace {

std::vector<std::uint64_t> as_ids(const torch::Tensor& tensor) {
  const model::HostValues<std::int64_t> ids(tensor);
  return {ids.begin(), ids.end()};
}

}  // namespace

torch::Tensor gather_rows(RowSource* source, int table, const comm::TableSpec& spec, const torch::Tensor& ids,
                          std::vector<BatchRows>& rows) {
  const auto [unique, places] = at::_unique(ids, /*sorted=*/true, /*return_inverse=*/true);
  BatchRows touched{.table = table, .ids = as_ids(unique)};
  const std::size_t width = spec.width;
  touched.values = torch::empty({unique.numel(), std::int64_t(width)});
  const std::span<float> values = model::host_elements<float>(touched.values);
  if (source != nullptr)
    source->pull(table, touched.ids, values);
  else
    for (std::size_t i = 0; i < touched.ids.size(); ++i)
      compute::first_values(spec.seed, touched.ids[i], float(spec.scale), values.data() + i * width, width);
  touched.values.set_requires_grad(torch::GradMode::is_enabled());
  torch::Tensor gathered = torch::embedding(touched.values, places);
  rows.push_back(std::move(touched));
  return gathered;
}

void RowGradients::add(const std::vector<BatchRows>& rows) {
  for (const BatchRows& each : rows) {
    if (!each.values.grad().defined()) continue;
    if (tables_.size() <= std::size_t(each.table)) tables_.resize(std::size_t(each.table) + 1);
    Collected& collected = tables_[std::size_t(each.table)];
    collected.ids.push_back(torch::empty({std::int64_t(each.ids.size())}, torch::kInt64));
    std::copy(each.ids.begin(), each.ids.end(),
              model::host_elements<std::int64_t>(collected.ids.back()).begin());
    collected.gradients.push_back(each.values.grad().contiguous());
  }
}

void RowGradients::push(RowLink& link, int tables, std::int64_t step, double lr) {
  tables_.resize(std::size_t(tables));
  for (int table = 0; table < tables; ++table) {
    Collected collected = std::exchange(tables_[std::size_t(table)], {});
    if (collected.ids.empty()) {
      link.push(table, step, lr, {}, {});
      continue;
    }
    torch::Tensor ids = collected.ids[0], gradients = collected.gradients[0];
    if (collected.ids.size() > 1) {  // several lanes may have used the same row
      const auto [unique, places] = at::_unique(torch::cat(collected.ids), true, true);
      const torch::Tensor all = torch::cat(collected.gradients);
      ids = unique;
      gradients = torch::zeros({unique.numel(), all.size(1)}).index_add_(0, places, all);
    }
    link.push(table, step, lr, as_ids(ids), model::host_elements<float>(gradients));
  }
}

}  // namespace distbelief::tasks
