// A CPU build of torch has no device guard for CUDA, so that even fake CUDA tensors abort. This
// one claims to have eight GPUs. It computes nothing; it numbers streams and events, and keeps a
// log of which stream recorded an event, which waits for it, and when the host waits.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

namespace {

constexpr auto CUDA = c10::DeviceType::CUDA;
constexpr c10::DeviceIndex GPUS = 8;
thread_local c10::DeviceIndex current_gpu = 0;
thread_local c10::StreamId current_stream[GPUS] = {};
std::atomic<int64_t> streams{0}, events{0};

enum Kind : int64_t { RECORD, WAIT, HOST_WAITS_FOR_STREAM, HOST_WAITS_FOR_EVENT };
struct Entry {
  int64_t kind, event, stream;
};
std::mutex log_lock;
std::vector<Entry> entries;

void note(Kind kind, void* event, int64_t stream) {
  std::lock_guard<std::mutex> held(log_lock);
  entries.push_back({kind, reinterpret_cast<int64_t>(event), stream});
}

struct StandInGuard : c10::impl::NoOpDeviceGuardImpl<CUDA> {
  static c10::DeviceIndex gpu_of(c10::Device device) {
    return device.index() < 0 ? current_gpu : device.index();
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    auto before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {CUDA, current_gpu}; }
  void setDevice(c10::Device device) const override { current_gpu = gpu_of(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { setDevice(device); }
  c10::DeviceIndex deviceCount() const noexcept override { return GPUS; }

  c10::Stream getStream(c10::Device device) const noexcept override {
    auto gpu = gpu_of(device);
    return c10::Stream(c10::Stream::UNSAFE, {CUDA, gpu}, current_stream[gpu]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, {CUDA, gpu_of(device)});
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return c10::Stream(c10::Stream::UNSAFE, {CUDA, gpu_of(device)}, ++streams);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    auto before = getStream(stream.device());
    current_stream[gpu_of(stream.device())] = stream.id();
    return before;
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (*event == nullptr) *event = reinterpret_cast<void*>(++events);
    note(RECORD, *event, stream.id());
  }
  void block(void* event, const c10::Stream& stream) const override {
    note(WAIT, event, stream.id());
  }
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeEvent(void* event) const override { note(HOST_WAITS_FOR_EVENT, event, 0); }
  void synchronizeStream(const c10::Stream& stream) const override {
    note(HOST_WAITS_FOR_STREAM, nullptr, stream.id());
  }
  double elapsedTime(void*, void*, const c10::DeviceIndex) const override { return 1.0; }
};

struct StandInHooks : at::CUDAHooksInterface {
  explicit StandInHooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return GPUS; }
  int getNumGPUs() const override { return GPUS; }
  c10::DeviceIndex current_device() const override { return current_gpu; }
  c10::DeviceIndex getCurrentDevice() const override { return current_gpu; }
  void setCurrentDevice(c10::DeviceIndex gpu) const override { current_gpu = gpu; }
  void deviceSynchronize(c10::DeviceIndex) const override {}
};

struct Registration {
  Registration() { c10::impl::registerDeviceGuard(CUDA, new StandInGuard); }
} registration;

}  // namespace

namespace at {
C10_REGISTER_TYPED_CLASS(CUDAHooksRegistry, "CUDAHooks", StandInHooks)
}

// Move up to `room` entries of the log, the oldest first, to `out`; return how many.
extern "C" int64_t drain(void* out, int64_t room) {
  std::lock_guard<std::mutex> held(log_lock);
  auto count = std::min<int64_t>(room, entries.size());
  std::memcpy(out, entries.data(), count * sizeof(Entry));
  entries.erase(entries.begin(), entries.begin() + count);
  return count;
}

// Return the number of the stream that this thread uses on `gpu`.
extern "C" int64_t stream_of_thread(int64_t gpu) { return current_stream[gpu]; }
