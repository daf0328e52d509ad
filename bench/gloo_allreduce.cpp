// The same all-reduce through Gloo (TCP on loopback, file store), as torch.distributed uses it on
// CPUs.
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "host_ranks.h"

static bench_job job;
static std::string folder;

static int body(int rank, double* block_us, void*) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, job.ranks);
  context->connectFullMesh(store, device);
  const std::size_t count = job.bytes / sizeof(float);
  std::vector<float> in(count, static_cast<float>(rank));
  std::vector<float> out(count);
  for (int block = -1; block < kBlocks; ++block) {
    const double start = bench_now_us();
    for (int i = 0; i < job.iterations; ++i) {
      gloo::AllreduceOptions options(context);
      options.setInput(in.data(), count);
      options.setOutput(out.data(), count);
      options.setReduceFunction([](void* a, const void* b, const void* c, std::size_t n) {
        gloo::sum<float>(a, b, c, n);
      });
      gloo::allreduce(options);
    }
    if (block >= 0) block_us[block] = (bench_now_us() - start) / job.iterations;
  }
  const float expected = static_cast<float>(job.ranks * (job.ranks - 1) / 2);
  return out[0] != expected || out[count - 1] != expected;
}

int main(int argc, char** argv) {
  job = bench_options(argc, argv);
  char name[] = "/tmp/bench-gloo-XXXXXX";
  if (mkdtemp(name) == nullptr) return 1;
  folder = name;
  const double median = bench_run_forked(&job, body);
  std::filesystem::remove_all(folder);
  std::printf("%.3f\n", median);
  return median < 0;
}
