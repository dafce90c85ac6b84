// Code objects: bundles that the compiler registers, modules that the program loads, and launches of their kernels.
#include <cstdio>
#include <cstring>
#include <list>

#include "graph.h"

namespace {

constexpr char BUNDLE[] = "__CLANG_OFFLOAD_BUNDLE__";
constexpr uint32_t WRAPPER = 0x48495046;  // "HIPF"

template <typename T> T peek(const void* data, size_t at) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + at, sizeof(T));
  return value;
}

struct Registered {
  FatBinary* binary;
  std::string name;
  size_t size;
};

// What the compiler registered, by the address that the host knows it by.
std::list<FatBinary>& binaries() {
  static auto* const all = new std::list<FatBinary>;
  return *all;
}

std::map<const void*, Registered>& functions() {
  static auto* const all = new std::map<const void*, Registered>;
  return *all;
}

std::map<const void*, Registered>& variables() {
  static auto* const all = new std::map<const void*, Registered>;
  return *all;
}

struct Configuration {
  dim3 grid, block;
  size_t lds;
  hipStream_t stream;
};

thread_local std::vector<Configuration> configurations;

hipError_t function_of(const void* host, const ihipModuleSymbol_t** found) {
  auto known = functions().find(host);
  if (known == functions().end()) return hipErrorInvalidDeviceFunction;
  Module* module = nullptr;
  if (const hipError_t status = Runtime::get().module_of(*known->second.binary, &module)) return status;
  auto kernel = module->kernels.find(known->second.name);
  if (kernel == module->kernels.end()) return hipErrorInvalidDeviceFunction;
  *found = &kernel->second;
  return hipSuccess;
}

hipError_t variable_of(const void* host, uint64_t* address, size_t* size) {
  auto known = variables().find(host);
  if (known == variables().end()) return hipErrorInvalidSymbol;
  Module* module = nullptr;
  if (const hipError_t status = Runtime::get().module_of(*known->second.binary, &module)) return status;
  auto variable = module->variables.find(known->second.name);
  if (variable == module->variables.end()) return hipErrorInvalidSymbol;
  *address = variable->second.address, *size = variable->second.size;
  return hipSuccess;
}

/// The kernarg bytes of arguments that are given one by one.
std::string packed(const ihipModuleSymbol_t& kernel, void** arguments) {
  std::string bytes(kernel.kernarg_bytes, '\0');
  for (size_t i = 0; i < kernel.arguments.size(); ++i)
    std::memcpy(&bytes[kernel.arguments[i].offset], arguments[i], kernel.arguments[i].size);
  return bytes;
}

/// A launch, in the order of its stream; the arguments are copied now.
hipError_t submitted(const ihipModuleSymbol_t& kernel, dim3 grid, dim3 block, size_t lds, std::string arguments, bool cooperative,
                     hipStream_t stream) {
  return in_order(stream, KERNEL, [=, &kernel, arguments = std::move(arguments)] {
    return Runtime::get().launch(kernel, grid, block, lds, arguments, cooperative);
  });
}

hipError_t launch(const void* function, dim3 grid, dim3 block, void** arguments, size_t lds, bool cooperative,
                  hipStream_t stream) {
  const ihipModuleSymbol_t* kernel = nullptr;
  if (const hipError_t status = function_of(function, &kernel)) return status;
  if (!arguments && !kernel->arguments.empty()) return hipErrorInvalidValue;
  return submitted(*kernel, grid, block, lds, packed(*kernel, arguments), cooperative, stream);
}

/// The kernarg bytes of arguments that are given one by one, or by `extra`.
hipError_t bytes_of(const ihipModuleSymbol_t& kernel, void** arguments, void** extra, std::string* bytes) {
  if (arguments && extra) return hipErrorInvalidValue;
  if (!extra) {
    if (!arguments && !kernel.arguments.empty()) return hipErrorInvalidValue;
    *bytes = packed(kernel, arguments);
    return hipSuccess;
  }
  // HIP_LAUNCH_PARAM_BUFFER_POINTER, its value, _BUFFER_SIZE, the address of its value, _END
  const void* data = nullptr;
  size_t size = 0, explicit_end = 0;
  for (; uintptr_t(extra[0]) != 3; extra += 2) {
    if (uintptr_t(extra[0]) == 1) data = extra[1];
    else if (uintptr_t(extra[0]) == 2) size = *static_cast<const size_t*>(extra[1]);
    else return hipErrorInvalidValue;
  }
  for (const Argument& each : kernel.arguments) explicit_end = std::max<size_t>(explicit_end, each.offset + each.size);
  if ((!data && size) || size < explicit_end) return hipErrorInvalidValue;
  bytes->assign(kernel.kernarg_bytes, '\0');
  if (data) std::memcpy(bytes->data(), data, std::min(size, bytes->size()));
  return hipSuccess;
}

}  // namespace

/// What a kernel node of a graph does: `function` is a function of the host, or a hipFunction_t.
hipError_t kernel_work(const void* function, dim3 grid, dim3 block, size_t lds, void** arguments, void** extra,
                       std::function<hipError_t()>* work) {
  const ihipModuleSymbol_t* kernel = nullptr;
  if (functions().count(function)) TRY(function_of(function, &kernel));
  else kernel = static_cast<const ihipModuleSymbol_t*>(function);
  NEED(kernel, hipErrorInvalidDeviceFunction);
  std::string bytes;
  TRY(bytes_of(*kernel, arguments, extra, &bytes));
  *work = [=] { return Runtime::get().launch(*kernel, grid, block, lds, bytes, false); };
  return hipSuccess;
}

size_t code_size(const void* data) {
  if (!std::memcmp(data, BUNDLE, sizeof(BUNDLE) - 1)) {
    size_t size = 32, at = 32;
    for (uint64_t left = peek<uint64_t>(data, 24); left; --left) {
      size = std::max(size, size_t(peek<uint64_t>(data, at) + peek<uint64_t>(data, at + 8)));
      at += 24 + peek<uint64_t>(data, at + 16);
    }
    return std::max(size, at);
  }
  if (!std::memcmp(data, "CCOB", 4)) {  // compressed: version, method, then from version 2 on the size of all of it
    const uint16_t version = peek<uint16_t>(data, 4);
    return version == 2 ? peek<uint32_t>(data, 8) : version == 3 ? peek<uint64_t>(data, 8) : 0;
  }
  if (std::memcmp(data, "\x7f" "ELF", 4)) return 0;
  const uint64_t sections = peek<uint64_t>(data, 40);
  const uint16_t width = peek<uint16_t>(data, 58), count = peek<uint16_t>(data, 60);
  uint64_t size = sections + uint64_t(width) * count;
  for (unsigned i = 0; i < count; ++i) {
    const uint64_t at = sections + uint64_t(width) * i;
    if (peek<uint32_t>(data, at + 4) != 8) size = std::max(size, peek<uint64_t>(data, at + 24) + peek<uint64_t>(data, at + 32));
  }
  return size;
}

hipError_t Runtime::load(const void* data, size_t size, Module** made) {
  if (!size) size = code_size(data);
  if (!size && !std::memcmp(data, "CCOB", 4)) refuse("offload bundles that were compressed by a clang before 19");
  if (!size) return hipErrorInvalidImage;
  Answer answer = ask(Message::LOAD, Writer().text(data, size));
  Reader& in = answer.body;
  if (answer.status) {
    std::fprintf(stderr, "tkgen emulate: %s\n", in.text().c_str());
    return hipError_t(answer.status);
  }
  auto* module = new Module;
  module->number = in.get<uint32_t>();
  const uint64_t base = in.get<uint64_t>(), bytes = in.get<uint64_t>();
  live[base] = {base, bytes, base - ARENA, Kind::IMAGE, 0, ++numbers_};
  for (uint32_t left = in.get<uint32_t>(), number = 0; number < left; ++number) {
    const std::string name = in.text();
    ihipModuleSymbol_t& kernel = module->kernels[name];
    kernel.module = module, kernel.number = number, kernel.name = name;
    kernel.kernarg_bytes = in.get<uint64_t>();
    kernel.arguments.resize(in.get<uint32_t>());
    for (Argument& argument : kernel.arguments) argument.offset = in.get<uint32_t>(), argument.size = in.get<uint32_t>();
    kernel.group_bytes = in.get<uint64_t>(), kernel.private_bytes = in.get<uint64_t>();
    kernel.registers = in.get<uint64_t>(), kernel.most_threads = in.get<uint64_t>();
  }
  for (uint32_t left = in.get<uint32_t>(); left; --left) {
    const std::string name = in.text();
    const uint64_t address = in.get<uint64_t>();
    module->variables[name] = {address, in.get<uint64_t>()};
  }
  *made = module;
  return hipSuccess;
}

hipError_t Runtime::module_of(FatBinary& binary, Module** found) {
  if (binary.status) return binary.status;
  if (!binary.module) {
    Module* module = nullptr;
    if (const hipError_t status = load(binary.data, 0, &module)) return binary.status = status;
    for (const FatBinary::Managed& each : binary.managed) {
      const Allocation* memory = allocate(each.size, Kind::MANAGED);
      auto variable = module->variables.find(each.name);
      if (!memory || variable == module->variables.end()) return hipErrorOutOfMemory;
      std::memcpy(reinterpret_cast<void*>(memory->base), each.initial, each.size);
      *each.pointer = reinterpret_cast<void*>(memory->base);
      std::memcpy(reinterpret_cast<void*>(variable->second.address), &memory->base, sizeof(memory->base));
    }
    binary.module = module;
  }
  *found = binary.module;
  return hipSuccess;
}

/// Blocks that one CU holds.
static hipError_t resident(int* blocks, const ihipModuleSymbol_t& kernel, int threads, size_t lds) {
  if (!blocks || threads <= 0) return hipErrorInvalidValue;
  Answer answer = Runtime::get().ask(
      Message::OCCUPANCY, Writer().put(kernel.module->number).put(kernel.number).put<uint64_t>(threads).put<uint64_t>(lds));
  *blocks = answer.body.get<int32_t>();
  return hipSuccess;
}

hipError_t Runtime::launch(const ihipModuleSymbol_t& kernel, dim3 grid, dim3 block, size_t lds, const std::string& arguments,
                           bool cooperative) {
  const uint64_t threads = uint64_t(block.x) * block.y * block.z;
  if (!threads || !grid.x || !grid.y || !grid.z) return hipErrorInvalidConfiguration;
  if (threads > kernel.most_threads || threads > device().threads_per_block) return hipErrorInvalidValue;
  if (kernel.group_bytes + lds > device().lds_per_block) return hipErrorInvalidValue;
  if (cooperative) {
    int blocks = 0;
    if (const hipError_t status = resident(&blocks, kernel, int(threads), lds)) return status;
    if (uint64_t(grid.x) * grid.y * grid.z > uint64_t(blocks) * device().compute_units) return hipErrorCooperativeLaunchTooLarge;
  }
  for (FatBinary& binary : binaries())  // managed variables of other code objects may be passed by pointer
    if (!binary.managed.empty() && !binary.module) {
      Module* module = nullptr;
      if (const hipError_t status = module_of(binary, &module)) return status;
    }
  Writer body;
  body.put(kernel.module->number).put(kernel.number).put<uint32_t>(cooperative);
  for (uint32_t n : {grid.x, grid.y, grid.z, block.x, block.y, block.z}) body.put(n);
  body.put<uint64_t>(lds).text(arguments.data(), arguments.size());
  body.put<uint32_t>(uint32_t(live.size()));
  for (const auto& [base, each] : live)
    body.put(base).put(each.size).put(each.offset).put(uint32_t(each.kind)).put(each.number);
  Answer answer = ask(Message::LAUNCH, body);
  const std::string printed = answer.body.text();
  std::fwrite(printed.data(), 1, printed.size(), stdout);
  const std::string why = answer.body.text();
  if (answer.status) stop(why);
  if (const double seconds = answer.body.get<double>(); seconds >= 0) predicts = true, predicted_seconds += seconds;
  return hipSuccess;
}

// ---------------------------------------------------------------- what the compiler calls

HIP_API void** __hipRegisterFatBinary(const void* wrapper) {
  LOCKED;
  if (peek<uint32_t>(wrapper, 0) != WRAPPER) refuse("a fat binary that is not one of HIP's");
  Runtime& runtime = Runtime::get();
  if (!runtime.first_code) runtime.first_code = peek<const void*>(wrapper, 8);
  binaries().push_back({wrapper, peek<const void*>(wrapper, 8), nullptr, hipSuccess, {}});
  return reinterpret_cast<void**>(&binaries().back());
}

HIP_API void __hipUnregisterFatBinary(void** modules) {
  LOCKED;
  auto* binary = reinterpret_cast<FatBinary*>(modules);
  for (auto* names : {&functions(), &variables()})
    for (auto each = names->begin(); each != names->end();)
      each = each->second.binary == binary ? names->erase(each) : std::next(each);
  binaries().remove_if([&](const FatBinary& each) { return &each == binary; });
}

HIP_API void __hipRegisterFunction(void** modules, const void* host, char*, const char* name, unsigned, void*, void*, void*,
                                   void*, int*) {
  LOCKED;
  functions()[host] = {reinterpret_cast<FatBinary*>(modules), name, 0};
}

HIP_API void __hipRegisterVar(void** modules, void* host, char*, const char* name, int, size_t size, int, int) {
  LOCKED;
  variables()[host] = {reinterpret_cast<FatBinary*>(modules), name, size};
}

HIP_API void __hipRegisterManagedVar(void** modules, void** pointer, void* initial, const char* name, size_t size,
                                     unsigned alignment) {
  LOCKED;
  auto* binary = reinterpret_cast<FatBinary*>(modules);
  binary->managed.push_back({pointer, initial, name, size, alignment});
  Module* module = nullptr;  // the host may use the variable before any call of HIP
  if (Runtime::get().module_of(*binary, &module)) stop(std::string("the managed variable ") + name + " cannot be made");
}

HIP_API void __hipRegisterTexture(void**, void*, char*, const char* name, int, int, int) {
  refuse(std::string("textures (") + name + ")");
}

HIP_API void __hipRegisterSurface(void**, void*, char*, const char* name, int, int) {
  refuse(std::string("surfaces (") + name + ")");
}

HIP_API hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds, hipStream_t stream) {
  configurations.push_back({grid, block, lds, stream});
  return hipSuccess;
}

HIP_API hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, size_t* lds, hipStream_t* stream) {
  NEED(!configurations.empty(), hipErrorUnknown);
  const Configuration& last = configurations.back();
  *grid = last.grid, *block = last.block, *lds = last.lds, *stream = last.stream;
  configurations.pop_back();
  return hipSuccess;
}

// ---------------------------------------------------------------- launches

HIP_API hipError_t hipLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t lds,
                                   hipStream_t stream) {
  LOCKED;
  return failed(launch(function, grid, block, arguments, lds, false, stream));
}

HIP_API hipError_t hipLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments, unsigned lds,
                                              hipStream_t stream) {
  LOCKED;
  return failed(launch(function, grid, block, arguments, lds, true, stream));
}

HIP_API hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);

HIP_API hipError_t hipExtLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t lds,
                                      hipStream_t stream, hipEvent_t start, hipEvent_t end, int) {
  LOCKED;
  if (start) TRY(hipEventRecord(start, stream));
  TRY(launch(function, grid, block, arguments, lds, false, stream));
  return end ? hipEventRecord(end, stream) : hipSuccess;
}

HIP_API hipError_t hipModuleLaunchKernel(hipFunction_t kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                         unsigned block_x, unsigned block_y, unsigned block_z, unsigned lds,
                                         hipStream_t stream, void** arguments, void** extra) {
  LOCKED;
  NEED(kernel, hipErrorInvalidHandle);
  std::string bytes;
  TRY(bytes_of(*kernel, arguments, extra, &bytes));
  return failed(submitted(*kernel, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, lds, bytes, false, stream));
}

HIP_API hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                                    unsigned block_x, unsigned block_y, unsigned block_z, unsigned lds,
                                                    hipStream_t stream, void** arguments) {
  LOCKED;
  NEED(kernel, hipErrorInvalidHandle);
  std::string bytes;
  TRY(bytes_of(*kernel, arguments, nullptr, &bytes));
  return failed(submitted(*kernel, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, lds, bytes, true, stream));
}

/// The grid in threads, which blocks must divide.
HIP_API hipError_t hipExtModuleLaunchKernel(hipFunction_t kernel, uint32_t threads_x, uint32_t threads_y, uint32_t threads_z,
                                            uint32_t block_x, uint32_t block_y, uint32_t block_z, size_t lds,
                                            hipStream_t stream, void** arguments, void** extra, hipEvent_t start,
                                            hipEvent_t end, uint32_t) {
  LOCKED;
  NEED(block_x && block_y && block_z, hipErrorInvalidConfiguration);
  if (threads_x % block_x || threads_y % block_y || threads_z % block_z)
    refuse("hipExtModuleLaunchKernel with a grid that its blocks do not divide");
  if (start) TRY(hipEventRecord(start, stream));
  TRY(hipModuleLaunchKernel(kernel, threads_x / block_x, threads_y / block_y, threads_z / block_z, block_x, block_y, block_z,
                            unsigned(lds), stream, arguments, extra));
  return end ? hipEventRecord(end, stream) : hipSuccess;
}

HIP_API hipError_t hipHccModuleLaunchKernel(hipFunction_t kernel, uint32_t threads_x, uint32_t threads_y, uint32_t threads_z,
                                            uint32_t block_x, uint32_t block_y, uint32_t block_z, size_t lds,
                                            hipStream_t stream, void** arguments, void** extra, hipEvent_t start, hipEvent_t end) {
  return hipExtModuleLaunchKernel(kernel, threads_x, threads_y, threads_z, block_x, block_y, block_z, lds, stream, arguments,
                                  extra, start, end, 0);
}

// ---------------------------------------------------------------- modules

HIP_API hipError_t hipModuleLoadData(hipModule_t* made, const void* image) {
  LOCKED;
  NEED(made && image, hipErrorInvalidValue);
  return failed(Runtime::get().load(image, 0, reinterpret_cast<Module**>(made)));
}

HIP_API hipError_t hipModuleLoadDataEx(hipModule_t* made, const void* image, unsigned, void*, void**) {
  return hipModuleLoadData(made, image);
}

HIP_API hipError_t hipModuleLoad(hipModule_t* made, const char* path) {
  LOCKED;
  NEED(made && path, hipErrorInvalidValue);
  std::FILE* file = std::fopen(path, "rb");
  NEED(file, hipErrorFileNotFound);
  std::string bytes;
  char part[65536];
  for (size_t count; (count = std::fread(part, 1, sizeof(part), file));) bytes.append(part, count);
  std::fclose(file);
  NEED(bytes.size() >= 64, hipErrorInvalidImage);
  return failed(Runtime::get().load(bytes.data(), bytes.size(), reinterpret_cast<Module**>(made)));
}

HIP_API hipError_t hipModuleUnload(hipModule_t module) {
  LOCKED;
  NEED(module, hipErrorInvalidHandle);
  return hipSuccess;  // its addresses stay taken
}

HIP_API hipError_t hipModuleGetFunction(hipFunction_t* found, hipModule_t module, const char* name) {
  LOCKED;
  NEED(found && name, hipErrorInvalidValue);
  NEED(module, hipErrorInvalidHandle);
  auto& kernels = reinterpret_cast<Module*>(module)->kernels;
  auto kernel = kernels.find(name);
  NEED(kernel != kernels.end(), hipErrorNotFound);
  *found = &kernel->second;
  return hipSuccess;
}

HIP_API hipError_t hipModuleGetGlobal(hipDeviceptr_t* address, size_t* size, hipModule_t module, const char* name) {
  LOCKED;
  NEED(name, hipErrorInvalidValue);
  NEED(module, hipErrorInvalidHandle);
  auto& variables = reinterpret_cast<Module*>(module)->variables;
  auto variable = variables.find(name);
  NEED(variable != variables.end(), hipErrorNotFound);
  if (address) *address = reinterpret_cast<void*>(variable->second.address);
  if (size) *size = variable->second.size;
  return hipSuccess;
}

HIP_API hipError_t hipGetSymbolAddress(void** address, const void* symbol) {
  LOCKED;
  NEED(address, hipErrorInvalidValue);
  uint64_t found = 0;
  size_t size = 0;
  TRY(variable_of(symbol, &found, &size));
  *address = reinterpret_cast<void*>(found);
  return hipSuccess;
}

HIP_API hipError_t hipGetSymbolSize(size_t* size, const void* symbol) {
  LOCKED;
  NEED(size, hipErrorInvalidValue);
  uint64_t found = 0;
  return failed(variable_of(symbol, &found, size));
}

HIP_API hipError_t hipMemcpyToSymbol(const void* symbol, const void* source, size_t size, size_t offset, hipMemcpyKind) {
  LOCKED;
  uint64_t found = 0;
  size_t whole = 0;
  TRY(variable_of(symbol, &found, &whole));
  NEED(offset <= whole && size <= whole - offset && Runtime::get().accessible(source, size), hipErrorInvalidValue);
  std::memcpy(reinterpret_cast<char*>(found) + offset, source, size);
  return hipSuccess;
}

HIP_API hipError_t hipMemcpyFromSymbol(void* target, const void* symbol, size_t size, size_t offset, hipMemcpyKind) {
  LOCKED;
  uint64_t found = 0;
  size_t whole = 0;
  TRY(variable_of(symbol, &found, &whole));
  NEED(offset <= whole && size <= whole - offset && Runtime::get().accessible(target, size), hipErrorInvalidValue);
  std::memcpy(target, reinterpret_cast<const char*>(found) + offset, size);
  return hipSuccess;
}

HIP_API hipError_t hipMemcpyToSymbolAsync(const void* symbol, const void* source, size_t size, size_t offset,
                                          hipMemcpyKind kind, hipStream_t stream) {
  return failed(in_order(stream, MEMCPY, [=] { return hipMemcpyToSymbol(symbol, source, size, offset, kind); }));
}

HIP_API hipError_t hipMemcpyFromSymbolAsync(void* target, const void* symbol, size_t size, size_t offset, hipMemcpyKind kind,
                                            hipStream_t stream) {
  return failed(in_order(stream, MEMCPY, [=] { return hipMemcpyFromSymbol(target, symbol, size, offset, kind); }));
}

// ---------------------------------------------------------------- kernels: attributes, occupancy

HIP_API hipError_t hipFuncGetAttributes(hipFuncAttributes* found, const void* function) {
  LOCKED;
  NEED(found, hipErrorInvalidValue);
  const ihipModuleSymbol_t* kernel = nullptr;
  TRY(function_of(function, &kernel));
  *found = {};
  found->binaryVersion = found->ptxVersion = 10;
  found->localSizeBytes = kernel->private_bytes, found->sharedSizeBytes = kernel->group_bytes;
  found->numRegs = int(kernel->registers), found->maxThreadsPerBlock = int(kernel->most_threads);
  found->maxDynamicSharedSizeBytes = int(Runtime::get().device().lds_per_block - kernel->group_bytes);
  return hipSuccess;
}

HIP_API hipError_t hipFuncGetAttribute(int* value, int attribute, hipFunction_t kernel) {
  LOCKED;
  NEED(value, hipErrorInvalidValue);
  NEED(kernel, hipErrorInvalidHandle);
  switch (attribute) {  // hipFunction_attribute
    case 0: *value = int(kernel->most_threads); break;
    case 1: *value = int(kernel->group_bytes); break;
    case 2: *value = 0; break;
    case 3: *value = int(kernel->private_bytes); break;
    case 4: *value = int(kernel->registers); break;
    case 5: case 6: *value = 10; break;
    case 7: *value = 0; break;
    case 8: *value = int(Runtime::get().device().lds_per_block - kernel->group_bytes); break;
    default: return failed(hipErrorInvalidValue);
  }
  return hipSuccess;
}

HIP_API hipError_t hipFuncSetAttribute(const void*, int, int) { return hipSuccess; }  // LDS needs no leave
HIP_API hipError_t hipFuncSetCacheConfig(const void*, int) { return hipSuccess; }
HIP_API hipError_t hipFuncSetSharedMemConfig(const void*, int) { return hipSuccess; }

HIP_API hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, hipFunction_t kernel, int threads, size_t lds) {
  LOCKED;
  NEED(kernel, hipErrorInvalidHandle);
  return failed(resident(blocks, *kernel, threads, lds));
}

HIP_API hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, hipFunction_t kernel, int threads,
                                                                               size_t lds, unsigned) {
  return hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, lds);
}

HIP_API hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads, size_t lds) {
  LOCKED;
  const ihipModuleSymbol_t* kernel = nullptr;
  TRY(function_of(function, &kernel));
  return failed(resident(blocks, *kernel, threads, lds));
}

HIP_API hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads,
                                                                         size_t lds, unsigned) {
  return hipOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, lds);
}

static hipError_t potential(int* grid, int* block, const ihipModuleSymbol_t& kernel, size_t lds, int limit) {
  if (!grid || !block) return hipErrorInvalidValue;
  const Device& device = Runtime::get().device();
  const int most = int(std::min<uint64_t>(limit > 0 ? uint64_t(limit) : kernel.most_threads, kernel.most_threads));
  int best = 0;
  for (int threads = most / int(device.wave_size) * int(device.wave_size); threads > 0; threads -= int(device.wave_size)) {
    int blocks = 0;
    if (const hipError_t status = resident(&blocks, kernel, threads, lds)) return status;
    if (blocks * threads > best) best = blocks * threads, *block = threads, *grid = blocks * int(device.compute_units);
  }
  return best ? hipSuccess : hipErrorInvalidValue;
}

HIP_API hipError_t hipOccupancyMaxPotentialBlockSize(int* grid, int* block, const void* function, size_t lds, int limit) {
  LOCKED;
  const ihipModuleSymbol_t* kernel = nullptr;
  TRY(function_of(function, &kernel));
  return failed(potential(grid, block, *kernel, lds, limit));
}

HIP_API hipError_t hipModuleOccupancyMaxPotentialBlockSize(int* grid, int* block, hipFunction_t kernel, size_t lds, int limit) {
  LOCKED;
  NEED(kernel, hipErrorInvalidHandle);
  return failed(potential(grid, block, *kernel, lds, limit));
}

HIP_API hipError_t hipModuleOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, hipFunction_t kernel, size_t lds,
                                                                    int limit, unsigned) {
  return hipModuleOccupancyMaxPotentialBlockSize(grid, block, kernel, lds, limit);
}

PER_THREAD(hipLaunchKernel);
PER_THREAD(hipLaunchCooperativeKernel);
PER_THREAD(hipMemcpyToSymbol);
PER_THREAD(hipMemcpyToSymbolAsync);
PER_THREAD(hipMemcpyFromSymbol);
PER_THREAD(hipMemcpyFromSymbolAsync);
