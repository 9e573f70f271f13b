// Runs the worker as a process: listens on its sockets, prints that it is ready, and ends on a signal or with its
// parent.
#ifndef MESHNET_PROCESS_SERVE_H_
#define MESHNET_PROCESS_SERVE_H_

#include <string>

#include "process/command_line.h"
#include "process/grpc_service.h"

namespace meshnet {

// The step observers and the gRPC service that meshnet-worker-measure adds; both empty in the shipped worker.
struct Measurement {
  StepObserverFactory make_observer;
  grpc::Service* service = nullptr;  // outlives Serve
};

// Serves until SIGTERM, SIGINT, the end of the parent or, if no parent is watched, SIGHUP. Prints one line of JSON on
// stdout once it listens for the agent and for other workers. Call from the main thread before any other thread exists.
// Returns the exit status: 0, or 1 with a line on stderr.
int Serve(const ServeOptions& options, ServiceOptions service_options, const Measurement& measurement);

}  // namespace meshnet

#endif  // MESHNET_PROCESS_SERVE_H_
