// Loops of one's own on several hosts that use the world's communicator between backward and step, where the
// exchange of gradients may still be under way; several of them on one world; and modules that leave out
// layers on some workers. Prints a line for each algorithm between hosts.
#include <distbelief/comm/mpi/world.h>
#include <distbelief/distbelief.h>
#include <torch/torch.h>

#include <cstdio>
#include <memory>
#include <stdexcept>

namespace {

using distbelief::comm::Algorithm;

std::string train(distbelief::World& world, bool averages) {
  torch::set_num_threads(1);
  torch::manual_seed(1);
  // More than one bucket.
  torch::nn::Sequential net(torch::nn::Linear(64, 1024), torch::nn::Tanh(), torch::nn::Linear(1024, 1024),
                            torch::nn::Tanh(), torch::nn::Linear(1024, 64));
  distbelief::DataParallel parallel(
      world, net.ptr(),
      {.optimizer = {.name = "sgd", .lr = 0.05}, .overlap = distbelief::mesh::Overlap::kUpdate});
  for (int step = 0; step < 8; ++step) {
    const auto x = torch::sin(torch::arange(4 * 64).view({4, 64}) * double(1 + step + world.rank()));
    parallel.backward(torch::mse_loss(net->forward(x), x));
    double sum = world.rank() + 1;
    if (averages) {
      world.communicator().allreduce(distbelief::comm::view(&sum, 1), distbelief::comm::ReduceOp::kSum);
      if (sum != world.size() * (world.size() + 1) / 2) throw std::runtime_error("the sum is another's");
    }
    parallel.step();
  }
  return distbelief::run::weights_sha256(*net);
}

struct Skipping : torch::nn::Module {
  Skipping()
      : always(register_module("always", torch::nn::Linear(8, 8))),
        sometimes(register_module("sometimes", torch::nn::Linear(8, 8))),
        never(register_module("never", torch::nn::Linear(8, 8))) {}
  torch::Tensor forward(const torch::Tensor& x, int turn) {
    const torch::Tensor y = always(x);
    return turn % 2 == 0 ? y : sometimes(torch::tanh(y));
  }
  torch::nn::Linear always, sometimes, never;
};

bool is_unused(int step) { return step % 3 == 2; }  // what is used sometimes, by all workers

torch::Tensor loss_of(Skipping& net, const distbelief::World& world, int step) {
  const auto x = torch::sin(torch::arange(2 * 8).view({2, 8}) * double(1 + step + world.rank()));
  return torch::mse_loss(net.forward(x, is_unused(step) ? 0 : step + world.rank()), x);
}

std::shared_ptr<Skipping> make_skipping() {
  torch::manual_seed(2);
  return std::make_shared<Skipping>();
}

distbelief::comm::View view_of(const torch::Tensor& values) {
  return distbelief::comm::view(values.data_ptr<float>(), std::size_t(values.numel()));
}

void require_same_everywhere(distbelief::World& world, const torch::Tensor& values) {
  const torch::Tensor first = values.detach().clone();
  world.communicator().broadcast(view_of(first), 0);
  if (!torch::equal(first, values)) throw std::runtime_error("worker 0 has other values");
}

void train_skipping(distbelief::World& world, distbelief::mesh::Overlap overlap) {
  const auto net = make_skipping(), initial = make_skipping();
  distbelief::DataParallel parallel(
      world, net,
      {.optimizer = {.name = "sgd", .lr = 0.05, .momentum = 0.9, .weight_decay = 0.1}, .overlap = overlap});
  for (int step = 0; step < 9; ++step) {
    const torch::Tensor before = net->sometimes->weight.detach().clone();
    parallel.backward(loss_of(*net, world, step));
    parallel.step();
    if (torch::equal(net->sometimes->weight, before) != is_unused(step))
      throw std::runtime_error("a layer changes when a worker has used it, and only then");
  }
  for (const torch::Tensor& parameter : net->parameters()) require_same_everywhere(world, parameter);
  if (!torch::equal(net->never->weight, initial->never->weight))
    throw std::runtime_error("a layer that nobody used has changed");
}

// The mean of what all workers have, where none counts as zeros; undefined when nobody has any.
torch::Tensor mean_of(distbelief::World& world, const torch::Tensor& parameter) {
  const torch::Tensor& own = parameter.grad();
  std::int64_t owners = own.defined() ? 1 : 0;
  const torch::Tensor sum = own.defined() ? own.clone() : torch::zeros_like(parameter);
  world.communicator().allreduce(distbelief::comm::view(&owners, 1), distbelief::comm::ReduceOp::kSum);
  world.communicator().allreduce(view_of(sum), distbelief::comm::ReduceOp::kSum);
  return owners == 0 ? torch::Tensor() : sum / world.size();
}

void average_skipping(distbelief::World& world) {
  const auto net = make_skipping();
  distbelief::GradientAverager averager(world, net);
  for (int step = 0; step < 6; ++step) {
    averager.backward(loss_of(*net, world, step));
    const auto alone = make_skipping();
    loss_of(*alone, world, step).backward();
    for (std::size_t i = 0; i < net->parameters().size(); ++i) {
      const torch::Tensor found = net->parameters()[i].grad(),
                          wanted = mean_of(world, alone->parameters()[i]);
      if (found.defined() != wanted.defined())
        throw std::runtime_error("a gradient is there on all workers when one has it, else on none");
      if (!found.defined()) continue;
      if (!torch::allclose(found, wanted, 1e-5, 1e-7)) throw std::runtime_error("the mean is another");
      require_same_everywhere(world, found);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect, Algorithm::kCentral}) {
    distbelief::World world = distbelief::world_from(
        MPI_COMM_WORLD, {.algorithm = algorithm, .deadline = std::chrono::seconds(15)});
    try {
      const std::string apart = train(world, false), mixed = train(world, true);
      if (apart != mixed) throw std::runtime_error("the weights are others");
      train_skipping(world, distbelief::mesh::Overlap::kReduce);
      train_skipping(world, distbelief::mesh::Overlap::kUpdate);
      average_skipping(world);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: worker %d: %s\n", to_string(algorithm).data(), world.rank(), error.what());
      world.abort_job(1);
    }
    world.close();
    if (world.rank() == 0) std::printf("%s on %d hosts: fine\n", to_string(algorithm).data(), world.hosts());
  }
  MPI_Finalize();
}
