// The version of ringlet, for programs and for what a run is known by.
//
// Public.

#ifndef RINGLET_CORE_BASE_VERSION_H_
#define RINGLET_CORE_BASE_VERSION_H_

#define RINGLET_VERSION "0.1.0"

#endif  // RINGLET_CORE_BASE_VERSION_H_
