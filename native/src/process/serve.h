// The worker as a process: socket, ready line, signals, end.
#ifndef MESHNET_PROCESS_SERVE_H_
#define MESHNET_PROCESS_SERVE_H_

#include <string>

#include "process/command_line.h"
#include "process/grpc_service.h"

namespace meshnet {

// The service that meshnet-worker-measure adds to the Worker service; empty in the shipped worker.
struct Measurement {
  StepObserverFactory make_observer;
  grpc::Service* service = nullptr;  // outlives Serve
};

// Serves until SIGTERM, SIGINT or the parent's end. Prints one line of JSON on stdout once both sockets listen.
// Call from the main thread before any other thread exists. Returns the exit status: 0, or 1 with a line on stderr.
int Serve(const ServeOptions& options, ServiceOptions service_options, const Measurement& measurement);

}  // namespace meshnet

#endif  // MESHNET_PROCESS_SERVE_H_
