#pragma once

#include "distbelief/tasks/task.h"

// The factories in the table of tasks, and what they share. A task that does not fit the data throws
// Error(kBadInput).
namespace distbelief::tasks {

std::unique_ptr<Task> make_classification(const TaskSite& site);
std::unique_ptr<Task> make_segmentation(const TaskSite& site);
std::unique_ptr<Task> make_regression(const TaskSite& site);
std::unique_ptr<Task> make_autoencoder(const TaskSite& site);
std::unique_ptr<Task> make_vae(const TaskSite& site);
std::unique_ptr<Task> make_masked_tokens(const TaskSite& site);
std::unique_ptr<Task> make_actor_critic(const TaskSite& site);
std::unique_ptr<Task> make_ctc(const TaskSite& site);
std::unique_ptr<Task> make_adversarial(const TaskSite& site);
std::unique_ptr<Task> make_architecture_search(const TaskSite& site);
std::unique_ptr<Task> make_few_labels(const TaskSite& site);
std::unique_ptr<Task> make_click_through(const TaskSite& site);
std::unique_ptr<Task> make_skip_gram(const TaskSite& site);

void require_classes(const TaskSite& site, const char* task);

// model.clusters, or by default the number of classes in the data; 0: no clustering. `options` are the
// resolved options of a model with a code.
std::size_t cluster_count(const OptionMap& options, const data::SampleSpec& spec);

// Adds to `counts`, per class: correct answers, answers, targets.
void count_classes(const torch::Tensor& answers, const torch::Tensor& target, std::int64_t classes,
                   double* counts);

}  // namespace distbelief::tasks
