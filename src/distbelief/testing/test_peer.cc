// A process for tests to kill: `rpc_test_peer ROLE TARGET [CERTIFICATES]` with role worker, supervisor,
// exchange_server or exchange_client. It reports when it is ready (a worker by its report, the others on
// stdout) and stays until its stdin ends.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

#include "distbelief/comm/rpc/certificates.h"
#include "distbelief/comm/rpc/control_client.h"
#include "distbelief/testing/test_exchange.h"
#include "distbelief/testing/test_supervisor.h"

namespace distbelief::testing {
namespace {

int wait_for_end_of_input() {
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}

int be_worker(const comm::ControlAddress& address) {
  comm::ControlClient client({.address = address});
  client.report({.generation = 7, .rank = 2, .pid = getpid(), .state = "training"});
  return wait_for_end_of_input();
}

// Returns when the child has started its program: until then it holds all descriptors of its parent.
pid_t start_child(const char* program) {
  std::array<int, 2> begun{};
  if (pipe2(begun.data(), O_CLOEXEC) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    execl(program, program, "child", static_cast<char*>(nullptr));
    _exit(127);
  }
  close(begun[1]);
  char byte = 0;
  if (read(begun[0], &byte, 1) != 0) return -1;
  close(begun[0]);
  return child;
}

// Like the real supervisor, with a child that outlives it.
int be_supervisor(const comm::ControlAddress& address, const char* program) {
  RecordingHandler handler;
  const comm::ControlServer server(address, handler);
  // Forks while a stream is open and gRPC's threads are busy.
  comm::ControlAddress own = address;
  own.target = server.target();
  if (!own.key.empty())
    own = comm::secure_address(own.target, std::filesystem::path(own.ca).parent_path(), "worker");
  comm::ControlClient client({.address = own});
  const pid_t child = start_child(program);
  std::printf("%s\n%d\n", server.target().c_str(), static_cast<int>(child));
  std::fflush(stdout);
  return wait_for_end_of_input();
}

// Certificates exist per role; a Unix socket allows shared memory.
comm::ControlAddress exchange_address(const std::string& target, const std::string& folder,
                                      const std::string& role) {
  return folder.empty() ? comm::ControlAddress{.target = target} : comm::secure_address(target, folder, role);
}

int be_exchange_server(const std::string& target, const std::string& folder) {
  EchoHandler handler;
  const comm::ExchangeServer server(
      {.address = exchange_address(target, folder, "server"), .shared_limit = ExchangePlace::kShared},
      handler);
  std::printf("%s\n", server.target().c_str());
  std::fflush(stdout);
  return wait_for_end_of_input();
}

// Runs a client with a pending request.
int be_exchange_client(const std::string& target, const std::string& folder) {
  comm::ExchangeClient client(
      {.address = exchange_address(target, folder, "worker"), .shared_bytes = ExchangePlace::kShared});
  const std::span<std::byte> shared = client.shared();
  const comm::ExchangeClient::Pending pending = client.send("keep", shared.first(shared.size() / 8), {});
  std::printf("%zu\n", shared.size());
  std::fflush(stdout);
  return wait_for_end_of_input();
}

}  // namespace
}  // namespace distbelief::testing

int main(int count, char** arguments) {
  using namespace distbelief;
  using namespace distbelief::testing;
  const std::string role = count > 1 ? arguments[1] : "";
  if (role == "child") return wait_for_end_of_input();
  if (count < 3) return 2;
  const std::string folder = count > 3 ? arguments[3] : "";
  if (role == "exchange_server") return be_exchange_server(arguments[2], folder);
  if (role == "exchange_client") return be_exchange_client(arguments[2], folder);
  comm::ControlAddress address{.target = arguments[2]};
  if (!folder.empty()) address = comm::secure_address(arguments[2], folder, role);
  return role == "worker" ? be_worker(address) : be_supervisor(address, arguments[0]);
}
