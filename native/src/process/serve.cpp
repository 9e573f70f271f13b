#include "process/serve.h"

#include <google/protobuf/stubs/logging.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "wire/digest.h"

namespace meshnet {
namespace {

// Seconds between the signal or the parent's end and an alarm that ends the process, even if a step hangs.
constexpr unsigned kEndWithin_s = 5;
constexpr std::chrono::milliseconds kCallsEndWithin{500};

sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

bool IsOrphan(const ServeOptions& options) { return options.parent_pid != 0 && getppid() != options.parent_pid; }

// Waits for a signal or the parent's end. The kernel sends SIGHUP (PR_SET_PDEATHSIG) when the thread that started this
// process ends, which may be long before the parent ends, so on this signal the parent is only checked. A check every
// second also covers a parent that ended between fork and prctl.
void WaitForEnd(const ServeOptions& options, const sigset_t& signals) {
  if (options.parent_pid != 0) prctl(PR_SET_PDEATHSIG, SIGHUP);
  const timespec second{1, 0};
  while (!IsOrphan(options)) {
    const int signal = sigtimedwait(&signals, nullptr, &second);
    if (signal == SIGTERM || signal == SIGINT) return;
    if (signal == SIGHUP && options.parent_pid == 0) return;
  }
}

int Fail(const std::string& message) {
  std::cerr << "meshnet-worker: " << message << "\n";
  return 1;
}

void PrintReady(const ServeOptions& options, const WorkerHost& host) {
  const nlohmann::ordered_json ready = {{"ready", true},
                                        {"pid", getpid()},
                                        {"socket", options.socket_path},
                                        {"link_address", host.links().address()},
                                        {"link_fingerprint", ToHex(host.links().fingerprint())}};
  std::cout << ready.dump() << std::endl;
}

}  // namespace

int Serve(const ServeOptions& options, ServiceOptions service_options, const Measurement& measurement) {
  const sigset_t signals = BlockSignals();
  umask(0077);
  // Bytes that cannot be decoded are answered, not logged: a peer could fill the disk with log lines.
  google::protobuf::SetLogHandler(nullptr);
  Result<PeerIdentity> identity = CreatePeerIdentity();
  if (!identity.ok()) return Fail(identity.status().message());
  LinkOptions link_options;
  link_options.listen_address = options.link_listen;
  link_options.local_directory = options.local_links;
  WorkerHost host(std::move(link_options), std::move(identity.value()), measurement.make_observer);
  const Status listening = host.Start();
  if (!listening.ok()) return Fail(listening.message());

  WorkerService service(&host, std::move(service_options));
  grpc::ServerBuilder builder;
  unlink(options.socket_path.c_str());  // left by a worker that was killed
  builder.AddListeningPort("unix:" + options.socket_path, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  if (measurement.service != nullptr) builder.RegisterService(measurement.service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return Fail("cannot listen at " + options.socket_path);
  PrintReady(options, host);

  WaitForEnd(options, signals);
  alarm(kEndWithin_s);
  service.Stop();
  host.Unload();
  server->Shutdown(std::chrono::system_clock::now() + kCallsEndWithin);
  unlink(options.socket_path.c_str());
  return 0;
}

}  // namespace meshnet
