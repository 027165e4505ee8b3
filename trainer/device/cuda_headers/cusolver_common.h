// Names of cuSOLVER that libtorch's headers mention and this tree never uses: its wheel, 200 MB, is
// not needed for two declarations. Looked into only where there is no real one.
#pragma once

typedef enum { CUSOLVER_STATUS_SUCCESS = 0 } cusolverStatus_t;
