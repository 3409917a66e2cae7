#pragma once

// A function marked DISTBELIEF_MULTIVERSION is compiled for several instruction sets; the loader chooses the
// best one that the machine has. The marked loops work element by element with explicit fma, so every version
// gives the same bits. Sanitizers do not support the choice at load time.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define DISTBELIEF_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define DISTBELIEF_SANITIZED 1
#endif
#endif

#if !defined(__x86_64__) || defined(DISTBELIEF_SANITIZED)
#define DISTBELIEF_MULTIVERSION
#elif defined(__clang__)
#define DISTBELIEF_MULTIVERSION __attribute__((target_clones("avx512f", "fma", "default")))
#else
#define DISTBELIEF_MULTIVERSION __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif

// Marks a loop whose iterations are independent although the pointers may be equal.
#if defined(__clang__)
#define DISTBELIEF_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define DISTBELIEF_INDEPENDENT _Pragma("GCC ivdep")
#endif
