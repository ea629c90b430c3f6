// Fast access to thread-local variables of hot paths.
#pragma once

// The variable lies at a fixed distance from the thread's pointer, instead of behind a call of
// __tls_get_addr. The room for such variables is limited (some hundred bytes for libraries that are
// loaded by dlopen): for a few pointers only.
#if defined(__ELF__)
#define TELAMON_INITIAL_EXEC __attribute__((tls_model("initial-exec")))
#else
#define TELAMON_INITIAL_EXEC
#endif
