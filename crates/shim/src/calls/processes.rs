//! Calls that start programs: before, the kernel gets what the other process shares. (fork has its own place: pthread_atfork.)

use crate::real::{Actions, Attributes, Strings};
use crate::{real, user};
use libc::{FILE, c_char, c_int, c_void, pid_t};

/// A child of vfork has the memory of its parent, but descriptors of its own, which it may put elsewhere before it runs a program.
extern "C-unwind" fn prepare_vfork() -> *const c_void {
    user::before_spawn(true);
    real::vfork.get() as *const c_void
}

/// It must return to its caller from the C library's own: nothing of this library may be on the stack then.
#[cfg(all(target_arch = "x86_64", not(test)))]
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn vfork() -> pid_t {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "sub rsp, 8",
        ".cfi_def_cfa_offset 16",
        "call {prepare}",
        "add rsp, 8",
        ".cfi_def_cfa_offset 8",
        "jmp rax",
        ".cfi_endproc",
        prepare = sym prepare_vfork,
    )
}

#[cfg(all(target_arch = "aarch64", not(test)))]
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn vfork() -> pid_t {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "bl {prepare}",
        "ldp x29, x30, [sp], #16",
        "br x0",
        prepare = sym prepare_vfork,
    )
}

/// Calls that are passed on after a step of `user`.
macro_rules! after {
    ($($step:expr => $name:ident($($given:ident: $kind:ty),*) -> $result:ty;)*) => {
        exports! {$(
            fn $name($($given: $kind),*) -> $result {
                $step;
                real::$name.get()($($given),*)
            }
        )*}
    };
}

after! {
    user::before_spawn(!actions.is_null()) => posix_spawn(
        child: *mut pid_t, path: *const c_char, actions: *const Actions, attributes: *const Attributes, given: Strings,
        environment: Strings
    ) -> c_int;
    user::before_spawn(!actions.is_null()) => posix_spawnp(
        child: *mut pid_t, name: *const c_char, actions: *const Actions, attributes: *const Attributes, given: Strings,
        environment: Strings
    ) -> c_int;
    user::before_spawn(false) => system(command: *const c_char) -> c_int;
    user::before_spawn(false) => popen(command: *const c_char, mode: *const c_char) -> *mut FILE;
    user::before_exec() => execve(path: *const c_char, given: Strings, environment: Strings) -> c_int;
    user::before_exec() => execv(path: *const c_char, given: Strings) -> c_int;
    user::before_exec() => execvp(name: *const c_char, given: Strings) -> c_int;
    user::before_exec() => execvpe(name: *const c_char, given: Strings, environment: Strings) -> c_int;
    user::before_exec() => fexecve(fd: c_int, given: Strings, environment: Strings) -> c_int;
}

/// A call with a list of arguments, which are passed on as they lie in registers and on the stack.
macro_rules! with_a_list {
    ($name:ident, $prepare:ident) => {
        extern "C-unwind" fn $prepare() -> *const c_void {
            user::before_exec();
            real::$name.get() as *const c_void
        }

        #[cfg(all(target_arch = "x86_64", not(test)))]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> c_int {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "push rax",
                ".cfi_def_cfa_offset 64",
                "call {prepare}",
                "mov r11, rax",
                "pop rax",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                ".cfi_def_cfa_offset 8",
                "jmp r11",
                ".cfi_endproc",
                prepare = sym $prepare,
            )
        }

        #[cfg(all(target_arch = "aarch64", not(test)))]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> c_int {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-80]!",
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "bl {prepare}",
                "mov x16, x0",
                "ldp x0, x1, [sp, #16]",
                "ldp x2, x3, [sp, #32]",
                "ldp x4, x5, [sp, #48]",
                "ldp x6, x7, [sp, #64]",
                "ldp x29, x30, [sp], #80",
                "br x16",
                prepare = sym $prepare,
            )
        }
    };
}

with_a_list!(execl, prepare_execl);
with_a_list!(execlp, prepare_execlp);
with_a_list!(execle, prepare_execle);
