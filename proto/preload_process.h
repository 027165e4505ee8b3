// The preload process's side of preload_protocol.h, for a program that becomes one. A library of C
// functions, since Python's hook calls them too; it needs nothing of C++'s runtime.
//
//   const int socket = ddprun_preload_open();        // -1: this is no preload process
//   ... load everything; no thread, no GPU ...
//   ddprun_preload_serve(socket);                    // returns in each worker
//
// How a worker is forked: vfork, then fork() in the child that shares this memory. So the page
// table is copied once, and as the worker's parent ends, the worker becomes a child of the agent (a
// subreaper). fork() is glibc's: handlers run, and the thread's id is right. The worker returns
// with its own session, descriptors, CPUs and environment, after the agent has said go. Every
// failure is reported to the agent, which then starts that worker from its file. Nothing here
// prints.
#pragma once

#include <stddef.h>

extern "C" {

// The socket that the environment names, which is forgotten there; -1: none.
int ddprun_preload_open(void);

// A user who looks for a worker to inspect or to end (`ps`, `pkill -f`) does not find this one: its
// command line says what it is. Workers show the program's.
void ddprun_preload_rename(void);

// A first fork, of a process that ends at once: some libraries end threads of theirs at one.
void ddprun_preload_rehearse(void);

// When all is loaded: tells the agent that workers can be forked, or why not (other threads, an
// open GPU). 0, or -1 if it sent a reason why not. The agent shows the remark as a warning; "":
// none.
int ddprun_preload_ready(int socket, const char* remark);

// Waits for a request. 1: a worker is wanted. 2: the run is over, and ddprun_preload_keep is to be
// called. 0: the agent has gone, and so should the preload process.
int ddprun_preload_wait(int socket);

// Forks the worker that was asked for: 0 in the worker. In the preload process its pid, or -1; the
// agent gets it either way.
int ddprun_preload_fork(int socket);

// In the worker: sets it up and waits for go. Returns its environment, which `environ` is too; ends
// the process where the agent does not want it.
char** ddprun_preload_begin(void);

// Waits for the next run's launch (kept_preload_process.h, .cc). Returns in the preload process of
// that run, a child of its agent: the socket to it. The agent waits for ddprun_preload_ready again.
int ddprun_preload_keep(int socket, const char* remark);

// In the worker: its command line, each word ending with 0. No bytes: that of the preload process.
const char* ddprun_preload_arguments(size_t* size);

// Tells the agent why there will be no workers of this preload process.
void ddprun_preload_refuse(int socket, const char* why);

// In a worker: no further one should be forked, for this reason.
void ddprun_preload_retire(const char* why);

// 1: a worker has said so, and the agent knows.
int ddprun_preload_retired(int socket);

// All of it, for a program without hooks of its own. Returns in a worker alone; the preload process
// ends here.
void ddprun_preload_serve(int socket);
}
