// The process side of the HIP runtime: device memory that tkgen shares, and the connection over which it runs kernels.
//
// All of the GPU's memory is one sparse file, mapped here at ARENA and mapped by the tkgen process too, so that a pointer
// means the same to the program and to its kernels. Loading a code object, asking for occupancy and launching are
// messages over a socket: `Message` here, `hip_session.py` there. Every operation is complete when its call returns.
#pragma once
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "hip.h"

#define HIP_API extern "C" __attribute__((visibility("default")))

/// Ends the program: this library does not have `what`. Its results after that would be wrong.
[[noreturn]] void refuse(const std::string& what);
/// Ends the program: a kernel did what it must not do.
[[noreturn]] void stop(const std::string& why);

enum class Message : uint32_t { HELLO = 1, LOAD = 2, LAUNCH = 3, OCCUPANCY = 4 };

/// Values of a message, one after the other, without gaps.
struct Writer {
  std::string bytes;

  template <typename T> Writer& put(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  Writer& text(const void* data, size_t size) {
    put<uint64_t>(size);
    bytes.append(static_cast<const char*>(data), size);
    return *this;
  }
};

struct Reader {
  std::string bytes;
  size_t at = 0;

  template <typename T> T get() {
    T value;
    std::memcpy(&value, need(sizeof(T)), sizeof(T));
    return value;
  }
  std::string text() {
    const size_t size = get<uint64_t>();
    return std::string(need(size), size);
  }
  const char* need(size_t size);
};

struct Answer {
  int32_t status;
  Reader body;
};

constexpr uint64_t ARENA = 0x2000'0000'0000, ARENA_BYTES = uint64_t(1) << 40;
constexpr uint64_t IMAGE_BYTES = uint64_t(1) << 36;  // at its end, for code objects, which the tkgen process puts there

/// What the GPU is, from the target's file.
struct Device {
  std::string name, target;
  uint64_t memory, compute_units, clock_khz, bus_bits, memory_clock_khz, lds_per_cu, lds_per_block, l2_bytes;
  uint64_t registers_per_cu, waves_per_cu, threads_per_block, wave_size;
};

enum class Kind : uint32_t { DEVICE, HOST, MANAGED, REGISTERED, IMAGE };

/// Memory that kernels can access: `base` is its address for both sides, `offset` its place in the shared file.
struct Allocation {
  uint64_t base, size, offset;
  Kind kind;
  uint32_t flags;
  uint32_t number;
};

struct Argument {
  uint32_t offset, size;
};

struct Module;

struct ihipModuleSymbol_t {
  Module* module;
  uint32_t number;
  std::string name;
  uint64_t kernarg_bytes;
  std::vector<Argument> arguments;
  uint64_t group_bytes, private_bytes, registers, most_threads;
};

struct Variable {
  uint64_t address, size;
};

struct Module {
  uint32_t number;
  std::map<std::string, ihipModuleSymbol_t> kernels;
  std::map<std::string, Variable> variables;
};

/// A bundle that the program registered before main, loaded when it is first needed.
struct FatBinary {
  const void* wrapper;
  const void* data;
  Module* module = nullptr;
  hipError_t status = hipSuccess;  // of an attempt to load it
  struct Managed {
    void** pointer;
    const void* initial;
    std::string name;
    size_t size, alignment;
  };
  std::vector<Managed> managed;
};

/// Bytes of a bundle or an ELF file, as its own tables have them; 0 where they do not say.
size_t code_size(const void* data);

class Runtime {
 public:
  static Runtime& get();

  std::recursive_mutex mutex;
  std::map<uint64_t, Allocation> live;  // by base
  uint64_t used = 0;
  bool predicts = false;           // launches have predicted times,
  double predicted_seconds = 0;    // of all of them so far
  const void* first_code = nullptr;  // of the program: what the GPU is, where nobody says it

  const Device& device();
  Answer ask(Message what, const Writer& body);
  /// A new allocation; null where the GPU's memory does not hold it.
  Allocation* allocate(uint64_t size, Kind kind, uint32_t flags = 0);
  void release(uint64_t base);
  /// The allocation, or image of a code object, that holds an address; null where none does.
  const Allocation* holding(uint64_t address) const;
  /// Whether all of these bytes are host memory, or all are in one allocation.
  bool accessible(const void* address, size_t size) const;
  hipError_t register_host(void* pointer, size_t size, uint32_t flags);
  hipError_t unregister_host(void* pointer);

  /// The code object for this GPU of a bundle or ELF file. `size` is 0 where only its content says it.
  hipError_t load(const void* data, size_t size, Module** made);
  hipError_t module_of(FatBinary& binary, Module** found);
  hipError_t launch(const ihipModuleSymbol_t& kernel, dim3 grid, dim3 block, size_t lds, const std::string& arguments,
                    bool cooperative);

 private:
  int socket_ = -1, memory_ = -1;
  Device device_;
  uint64_t cursor_ = ARENA;
  uint32_t numbers_ = 0;
  void connect();
};

/// The name under which -fgpu-default-stream=per-thread calls a function: with one order of all work it is the same one.
#define PER_THREAD(name) __asm__(".globl " #name "_spt\n.type " #name "_spt, @function\n.set " #name "_spt, " #name)

hipError_t failed(hipError_t status);  // remembers it for hipGetLastError

#define LOCKED std::lock_guard<std::recursive_mutex> lock_(Runtime::get().mutex)
#define NEED(condition, otherwise) \
  do { if (!(condition)) return failed(otherwise); } while (0)
#define TRY(call) \
  do { if (const hipError_t status_ = (call)) return failed(status_); } while (0)
