%include "without_parameters.lua"
%template = without_parameters("every primitive once")
#include "primitives.cuh"
