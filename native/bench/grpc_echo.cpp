// Measures a bare gRPC stream between two processes on loopback: the time of a hop without any of our own work.
//
//   grpc_echo BYTES REPLY_BYTES GAP_US COUNT
//
// The client sends COUNT messages of BYTES bytes. For each, the server sleeps GAP_US microseconds, as an engine would
// compute, and answers with REPLY_BYTES bytes; the client sleeps as long before the next message. Prints one JSON line
// with half of each round trip in microseconds, less the server's sleep, which the server measures. The calls are
// synchronous, without TLS, checks or a queue.
#include <grpcpp/grpcpp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "meshnet/v1/link.grpc.pb.h"

namespace meshnet {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmUps = 20;
constexpr std::chrono::seconds kDeadline{300};

std::int64_t MicrosecondsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
}

struct Plan {
  std::size_t bytes;
  std::size_t reply_bytes;
  std::chrono::microseconds gap;
  int count;
};

// A message whose serialised size is `bytes`, or as near as its length fields allow.
v1::LinkMessage MessageOf(std::size_t bytes) {
  v1::LinkMessage message;
  message.mutable_frame()->set_position(1'000'000);  // a reply has the server's sleep here, in microseconds
  std::string* data = message.mutable_frame()->add_tensors()->mutable_data();
  while (message.ByteSizeLong() < bytes) data->resize(data->size() + bytes - message.ByteSizeLong(), '\1');
  while (message.ByteSizeLong() > bytes && !data->empty()) data->pop_back();
  return message;
}

class Echo final : public v1::PeerLink::Service {
 public:
  explicit Echo(const Plan& plan) : plan_(plan) {}

  grpc::Status Link(grpc::ServerContext* /*context*/,
                    grpc::ServerReaderWriter<v1::LinkMessage, v1::LinkMessage>* stream) override {
    v1::LinkMessage received;
    v1::LinkMessage reply = MessageOf(plan_.reply_bytes);
    while (stream->Read(&received)) {
      const Clock::time_point idle_at = Clock::now();
      std::this_thread::sleep_for(plan_.gap);
      reply.mutable_frame()->set_position(static_cast<std::uint64_t>(MicrosecondsSince(idle_at)));
      if (!stream->Write(reply)) break;
    }
    return grpc::Status::OK;
  }

 private:
  const Plan plan_;
};

// Runs in the child process: serves until the parent kills it or ends.
[[noreturn]] void Serve(const Plan& plan, int port_pipe) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Echo echo(plan);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&echo);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || write(port_pipe, &port, sizeof(port)) != sizeof(port)) _exit(EXIT_FAILURE);
  server->Wait();
  _exit(EXIT_SUCCESS);
}

// Returns half of each round trip in microseconds; empty if the stream broke.
std::vector<double> Call(const Plan& plan, int port) {
  const auto stub = v1::PeerLink::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kDeadline);
  const auto stream = stub->Link(&context);
  const v1::LinkMessage message = MessageOf(plan.bytes);
  v1::LinkMessage reply;
  std::vector<double> hops_us;
  for (int number = 0; number < kWarmUps + plan.count; ++number) {
    std::this_thread::sleep_for(plan.gap);
    const Clock::time_point sent_at = Clock::now();
    if (!stream->Write(message) || !stream->Read(&reply)) return {};
    const std::int64_t idle_us = static_cast<std::int64_t>(reply.frame().position());
    if (number >= kWarmUps) hops_us.push_back(static_cast<double>(MicrosecondsSince(sent_at) - idle_us) / 2);
  }
  stream->WritesDone();
  stream->Finish();
  return hops_us;
}

int Run(const Plan& plan) {
  int ends[2];
  if (pipe(ends) != 0) return EXIT_FAILURE;
  const pid_t child = fork();  // before gRPC has a thread
  if (child < 0) return EXIT_FAILURE;
  if (child == 0) Serve(plan, ends[1]);
  close(ends[1]);  // a child that dies ends the read
  int port = 0;
  std::vector<double> hops_us;
  if (read(ends[0], &port, sizeof(port)) == sizeof(port)) hops_us = Call(plan, port);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  if (hops_us.empty()) return EXIT_FAILURE;
  std::cout << nlohmann::json{{"bytes", MessageOf(plan.bytes).ByteSizeLong()},
                              {"reply_bytes", MessageOf(plan.reply_bytes).ByteSizeLong()},
                              {"hops_us", hops_us}}
            << std::endl;
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace meshnet

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "grpc_echo BYTES REPLY_BYTES GAP_US COUNT\n";
    return 2;
  }
  const meshnet::Plan plan{std::strtoul(argv[1], nullptr, 10), std::strtoul(argv[2], nullptr, 10),
                           std::chrono::microseconds(std::atol(argv[3])), std::atoi(argv[4])};
  return meshnet::Run(plan);
}
