// SPDX-License-Identifier: Apache-2.0
#include "common/training/machine.h"

#include "common/base/json_file.h"
#include "common/base/log.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>
#include <malloc.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>

namespace alg {

namespace {

/// Processors of the container's quota: cgroup v2's cpu.max is "<quota> <period>" or "max …".
int quota() {
    try {
        const auto text = read_small_file("/sys/fs/cgroup/cpu.max", 256);
        if (!text || text->starts_with("max")) return 1 << 20;
        char* rest = nullptr;
        const double given = std::strtod(text->c_str(), &rest);
        const double period = std::strtod(rest, nullptr);
        if (given <= 0 || period <= 0) return 1 << 20;
        return std::max(1, static_cast<int>(std::ceil(given / period)));
    } catch (const Failure&) {  // no cgroup to be read: no quota known
        return 1 << 20;
    }
}

int processors() {
    cpu_set_t set;
    CPU_ZERO(&set);
    const int allowed = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return std::max(1, std::min(allowed, quota()));
}

torch::Device choose_device(const Place& place, const std::string& wanted) {
    if (wanted != "auto" && wanted != "cpu" && wanted != "cuda")
        fail("device \"{}\" is unknown; choices: auto, cpu, cuda", wanted);
    if (wanted == "cpu") return torch::kCPU;
    const bool has = at::globalContext().hasCUDA();
    const int count = has ? at::globalContext().getAcceleratorHooksInterface().deviceCount() : 0;
    if (count == 0) {
        if (wanted == "cuda")
            fail("device \"cuda\": {}; use device auto or cpu",
                 has ? "there is no CUDA device" : "this LibTorch is built without CUDA");
        return torch::kCPU;
    }
    if (place.local_rank >= count)
        fail(
            "local rank {} has no CUDA device of its own: there are {}; start {} processes per "
            "host",
            place.local_rank, count, count);
    return torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(place.local_rank));
}

double seconds_of_product(const at::Tensor& a) {
    const auto start = std::chrono::steady_clock::now();
    const at::Tensor product = at::mm(a, a);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Best of several, within a budget of time. A small product first: on a slow BLAS a large one
/// would take seconds.
double measure_gflops() {
    const c10::InferenceMode guard;
    constexpr double kBudget = 0.06;
    double best = 0, spent = 0;
    seconds_of_product(at::ones({128, 128}));  // starts the threads, chooses the kernels
    for (std::int64_t size = 256; size <= 1024; size *= 2) {
        const at::Tensor a = at::ones({size, size});
        const double work = 2.0 * static_cast<double>(size * size * size) * 1e-9;
        if (best > 0 && spent + 2 * work / best > kBudget) break;
        for (int i = 0; i < 3 && (size == 256 || spent + work / best < kBudget); ++i) {
            const double seconds = seconds_of_product(a);
            spent += seconds;
            best = std::max(best, work / std::max(seconds, 1e-9));
        }
    }
    return best;
}

/// Activations and gradients come and go with every pass. Kept by the process instead of going back
/// to the kernel, which would have to clear their pages again: a tenth to a fifth of a pass.
/// oneDNN, though, keeps a thousand products of every number of rows it has seen; batches without
/// padding nearly always bring new ones (40 MiB an update), and making one anew costs nothing that
/// can be measured. Both variables are read at the first product.
void settle_memory() {
    ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
    ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
    ::setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0", 0);
    ::setenv("LRU_CACHE_CAPACITY", "1", 0);
}

}  // namespace

std::string Machine::text() const {
    std::string speed = gflops > 0 ? format(", {:.0f} GFLOP/s in float32", gflops) : "";
    return format("device {}, {} thread{}{}", name, threads, threads == 1 ? "" : "s", speed);
}

int threads_for(const Place& place) {
    if (const char* text = std::getenv("OMP_NUM_THREADS"); text != nullptr && *text != '\0') {
        // "4,2" is a list by nesting level; the first counts.
        int threads = 0;
        const std::string value = text;
        const auto [stop, error] =
            std::from_chars(value.data(), value.data() + value.size(), threads);
        const bool whole = stop == value.data() + value.size() || *stop == ',';
        if (error == std::errc{} && whole && threads >= 1 && threads <= 4096) return threads;
        fail("environment variable OMP_NUM_THREADS is \"{}\"; a number of threads is expected",
             value);
    }
    return std::max(1, processors() / std::max(1, place.local_world));
}

Machine prepare_machine(const Place& place, const std::string& wanted) {
    settle_memory();
    Machine machine;
    machine.device = choose_device(place, wanted);
    machine.threads = threads_for(place);
    at::set_num_threads(machine.threads);
    at::set_num_interop_threads(1);
    if (machine.device.is_cuda()) machine.name = machine.device.str();
    if (machine.device.is_cpu()) machine.gflops = measure_gflops();
    if (place.local_rank != 0) return machine;
    say("{}", machine.text());
    const double each = machine.gflops / machine.threads;
    if (machine.gflops > 0 && each < kSlowGflopsPerThread)
        warn(
            "matrix products are slow: {:.1f} GFLOP/s per thread, {:.0f} or more are expected; "
            "check "
            "that LibTorch was built with a fast BLAS, that OMP_NUM_THREADS={} is not more than "
            "the "
            "processors that are free, and that the processor has AVX2",
            each, kSlowGflopsPerThread, machine.threads);
    return machine;
}

}  // namespace alg
