/**
 * Kernels and functions as members of a Python module, on pybind11. Host only: empty with KITTENS_DEVICE_ONLY.
 *
 *     PYBIND11_MODULE(tk_kernel, m) {
 *         py::bind_kernel<kernel>(m, "kernel", &globals::a, &globals::b, &globals::c);
 *         py::bind_function<dispatch>(m, "dispatch", &globals::a, &globals::b, &globals::c);
 *     }
 *
 * Each Python argument becomes one member of the argument struct: a torch tensor a gl, anything else by pybind11's own
 * conversion.
 */
#pragma once

#include "../kittens/global.cuh"

#ifndef KITTENS_DEVICE_ONLY

#include <array>
#include <stdexcept>
#include <string>

#include <pybind11/pybind11.h>

namespace kittens {

namespace detail {

inline void require(bool condition, const std::string &message) {
    if (!condition) throw pybind11::value_error(message);
}

inline void check_hip(hipError_t error, const char *what) {
    if (error != hipSuccess) throw std::runtime_error(std::string(what) + ": " + hipGetErrorString(error));
}

/// The gl of a contiguous torch tensor on the GPU, of at most six dimensions; missing leading ones are 1, of more than four the first are one.
template <ducks::gl::all GL> GL tensor_to_gl(const pybind11::object &tensor) {
    require(pybind11::hasattr(tensor, "data_ptr") && pybind11::hasattr(tensor, "is_contiguous"),
            "expected a torch.Tensor");
    require(tensor.attr("is_contiguous")().cast<bool>(), "the tensor must be contiguous");
    const auto device = tensor.attr("device").attr("type").cast<std::string>();
    require(device == "cuda" || device == "hip", "the tensor must be on the GPU, not on '" + device + "'");
    require(tensor.attr("element_size")().cast<size_t>() == sizeof(typename GL::dtype),
            "the tensor's elements must be of " + std::to_string(sizeof(typename GL::dtype)) + " bytes");

    const auto shape = tensor.attr("shape").cast<pybind11::tuple>();
    require(shape.size() <= 6, "the tensor must have at most 6 dimensions");
    std::array<size_t, 4> extents = {1, 1, 1, 1};
    for (size_t i = 0; i < shape.size(); i++)
        extents[4 + i < shape.size() ? 0 : 4 + i - shape.size()] *= pybind11::cast<size_t>(shape[i]);
    constexpr std::array<int, 4> fixed = {GL::__b__, GL::__d__, GL::__r__, GL::__c__};
    constexpr std::array<const char *, 4> names = {"batch", "depth", "rows", "columns"};
    for (int axis = 0; axis < 4; axis++) {
        require(fixed[axis] < 0 || extents[axis] == size_t(fixed[axis]),
                std::string("the kernel is compiled for ") + std::to_string(fixed[axis]) + " " + names[axis] +
                    ", the tensor has " + std::to_string(extents[axis]));
        require(extents[axis] < size_t(1) << 31, std::string("the tensor has 2^31 or more ") + names[axis]);
    }
    auto *data = reinterpret_cast<typename GL::dtype *>(tensor.attr("data_ptr")().cast<uintptr_t>());
    return GL(data, extents[0], extents[1], extents[2], extents[3]);
}

template <typename T> T from_object(const pybind11::object &object) {
    if constexpr (ducks::gl::all<T>) return tensor_to_gl<T>(object);
    else return object.cast<T>();
}

template <typename> struct member_of;
template <typename MEMBER, typename STRUCT> struct member_of<MEMBER STRUCT::*> {
    using type = MEMBER;
};
template <typename> using object_for = pybind11::object;

template <typename GLOBALS> size_t shared_bytes(GLOBALS &globals) {
    if constexpr (requires { globals.dynamic_shared_memory(); }) return globals.dynamic_shared_memory();
    else return 0;
}

} // namespace detail

namespace py {

/// m.name(...) launches `kernel` with the struct built from its arguments.
template <auto kernel, typename GLOBALS> void bind_kernel(auto &m, const char *name, auto GLOBALS::*...members) {
    m.def(name, [](detail::object_for<decltype(members)>... arguments) {
        GLOBALS globals{detail::from_object<typename detail::member_of<decltype(members)>::type>(arguments)...};
        const size_t shared = detail::shared_bytes(globals);
        detail::check_hip(hipFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                                              hipFuncAttributeMaxDynamicSharedMemorySize, int(shared)),
                          "hipFuncSetAttribute");
        kernel<<<globals.grid(), globals.block(), shared>>>(globals);
        detail::check_hip(hipGetLastError(), "kernel launch");
    });
}

/// m.name(...) calls `function` with the struct built from its arguments.
template <auto function, typename GLOBALS> void bind_function(auto &m, const char *name, auto GLOBALS::*...members) {
    m.def(name, [](detail::object_for<decltype(members)>... arguments) {
        GLOBALS globals{detail::from_object<typename detail::member_of<decltype(members)>::type>(arguments)...};
        function(globals);
    });
}

} // namespace py
} // namespace kittens

#endif // KITTENS_DEVICE_ONLY
