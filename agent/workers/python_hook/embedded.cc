// The hook, as the build made it (agent/CMakeLists.txt).
__asm__(
    ".section .rodata\n"
    ".balign 16\n"
    ".globl ddprun_python_hook_begin, ddprun_python_hook_end\n"
    "ddprun_python_hook_begin: .incbin \"" DDPRUN_PYTHON_HOOK
    "\"\n"
    "ddprun_python_hook_end:\n"
    ".previous\n");
