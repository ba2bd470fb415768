//! Where the kernel enters, how the program leaves, the routines that the compiler expects
//! from a C library, and the two that `alloc`, as it is installed, expects from an unwinder.
//!
//! All of it is assembly, because none of it can be said in safe Rust: the entry point has no
//! stack frame, and a system call is not a function call.

// The lint counts any assembly at file level as unsafe code; what is here keeps the System V
// calling convention and touches the memory that its arguments name.
#![allow(unsafe_code)]

use core::arch::global_asm;

/// Ends the process with an exit status; the assembly hands it to [`crate::run`], because
/// calling a declared foreign function would take unsafe code and calling a pointer does not.
pub(crate) type Exit = extern "C" fn(i32) -> !;

global_asm!(
    ".globl _start",
    "_start:",
    "    xor ebp, ebp",
    "    mov r12, [rsp]", // the number of words on the command line
    "    and rsp, -16",
    // An endless loop must not hang its caller: SIGALRM after ten seconds.
    "    mov eax, 37",
    "    mov edi, 10",
    "    syscall",
    "    mov rdi, r12",
    "    lea rsi, [rip + 2f]",
    "    call {run}",
    "    mov edi, eax",
    "2:",
    "    mov eax, 231", // exit_group
    "    syscall",
    "    ud2",
    run = sym crate::run,
);

global_asm!(
    ".globl memcpy",
    "memcpy:",
    "    mov rax, rdi",
    "    mov rcx, rdx",
    "    rep movsb",
    "    ret",
    ".globl memmove",
    "memmove:",
    "    mov rax, rdi",
    "    mov rcx, rdx",
    "    mov r8, rdi",
    "    sub r8, rsi",
    "    cmp r8, rdx", // unsigned: below means that the target starts inside the source
    "    jb 2f",
    "    rep movsb",
    "    ret",
    "2:  lea rdi, [rdi + rdx - 1]",
    "    lea rsi, [rsi + rdx - 1]",
    "    std",
    "    rep movsb",
    "    cld",
    "    ret",
    ".globl memset",
    "memset:",
    "    mov r8, rdi",
    "    mov eax, esi",
    "    mov rcx, rdx",
    "    rep stosb",
    "    mov rax, r8",
    "    ret",
    ".globl bcmp",
    "bcmp:",
    ".globl memcmp",
    "memcmp:",
    "    xor eax, eax",
    "    mov rcx, rdx",
    "    cmp rcx, rcx", // equal, for a length of zero
    "    repe cmpsb",
    "    je 2f",
    "    movzx eax, byte ptr [rdi - 1]",
    "    movzx ecx, byte ptr [rsi - 1]",
    "    sub ecx, eax",
    "    mov eax, ecx",
    "2:  ret",
);

// The installed `alloc` was compiled to be unwound. This program aborts on a panic, so nothing
// ever gets here.
global_asm!(
    ".globl _Unwind_Resume",
    "_Unwind_Resume:",
    ".globl rust_eh_personality",
    "rust_eh_personality:",
    "    ud2",
);
