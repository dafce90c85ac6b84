#include "host.cuh"
