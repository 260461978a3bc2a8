//! Restores the inherited signals and standard files for the child, and tells which signals a process sent.
//!
//! Before `main`, Rust ignores SIGPIPE and opens closed standard files. For children it unblocks all signals.

use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use libc::{c_int, c_void, sigaction, siginfo_t};

/// Signals that Rust, tokio or cowbell change.
const CHANGED: [c_int; 8] = [
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGPIPE,
    libc::SIGCHLD,
];

/// A bit for each signal that was ignored at start.
static IGNORED: AtomicU64 = AtomicU64::new(0);
/// A bit for each signal that was blocked at start.
static BLOCKED: AtomicU64 = AtomicU64::new(0);
/// A bit for each standard file that was closed at start.
static CLOSED: AtomicU64 = AtomicU64::new(0);
/// A bit for each signal that a process sent since the last [`was_sent`].
static SENT: AtomicU64 = AtomicU64::new(0);
/// Tokio's handler, which is the same for all signals.
static HANDLER: AtomicUsize = AtomicUsize::new(0);
/// Whether SIGCHLD was ignored at start, but no longer is.
static IS_CHILD_RESET: AtomicBool = AtomicBool::new(false);

#[used]
#[unsafe(link_section = ".init_array")]
static INSPECT: extern "C" fn() = inspect;

/// Runs before Rust's runtime starts.
extern "C" fn inspect() {
    for number in CHANGED {
        if action(number).is_some_and(|action| action.sa_sigaction == libc::SIG_IGN) {
            IGNORED.fetch_or(bit(number), Relaxed);
        }
    }
    let mut blocked = MaybeUninit::uninit();
    // SAFETY: the mask is written to its own memory.
    if unsafe { libc::sigprocmask(libc::SIG_BLOCK, std::ptr::null(), blocked.as_mut_ptr()) } == 0 {
        // SAFETY: it was just initialised.
        let blocked = unsafe { blocked.assume_init() };
        // SAFETY: each number is a valid signal.
        let is_blocked =
            |number: &c_int| unsafe { libc::sigismember(&raw const blocked, *number) } == 1;
        BLOCKED.store((1..32).filter(is_blocked).map(bit).sum(), Relaxed);
    }
    for file in 0..3 {
        // SAFETY: it only reads flags.
        if unsafe { libc::fcntl(file, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(bit(file), Relaxed);
        }
    }
}

pub fn is_ignored(number: c_int) -> bool {
    IGNORED.load(Relaxed) & bit(number) != 0
}

/// Whether a child would inherit a different state.
pub fn is_changed() -> bool {
    is_ignored(libc::SIGPIPE)
        || IS_CHILD_RESET.load(Relaxed)
        || BLOCKED.load(Relaxed) != 0
        || CLOSED.load(Relaxed) != 0
}

/// Restores the inherited state in the child before exec. Makes system calls only.
#[allow(clippy::unnecessary_wraps, reason = "the signature of `pre_exec`")]
pub fn restore() -> io::Result<()> {
    let (blocked, closed) = (BLOCKED.load(Relaxed), CLOSED.load(Relaxed));
    // SAFETY: all of these are async-signal-safe.
    unsafe {
        for number in [libc::SIGPIPE, libc::SIGCHLD]
            .into_iter()
            .filter(|number| is_ignored(*number))
        {
            libc::signal(number, libc::SIG_IGN);
        }
        for file in (0..3).filter(|file| closed & bit(*file) != 0) {
            libc::close(file);
        }
        let mut mask = MaybeUninit::uninit();
        libc::sigemptyset(mask.as_mut_ptr());
        for number in (1..32).filter(|number| blocked & bit(*number) != 0) {
            libc::sigaddset(mask.as_mut_ptr(), number);
        }
        libc::sigprocmask(libc::SIG_SETMASK, mask.as_ptr(), null_mut());
    }
    Ok(())
}

/// Makes children waitable if SIGCHLD was ignored.
pub fn wait_for_children() {
    if is_ignored(libc::SIGCHLD) {
        // SAFETY: it sets the default action.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        IS_CHILD_RESET.store(true, Relaxed);
    }
}

/// Records from now on whether a process sent this signal, which tokio catches.
pub fn note_senders(number: c_int) {
    let Some(mut action) = action(number).filter(|action| action.sa_flags & libc::SA_SIGINFO != 0)
    else {
        return;
    };
    HANDLER.store(action.sa_sigaction, Relaxed);
    action.sa_sigaction = note as *const () as usize;
    // SAFETY: the handler has the signature for SA_SIGINFO.
    unsafe { libc::sigaction(number, &raw const action, null_mut()) };
}

/// Whether a process sent this signal since the last call. Signals from a terminal come from the kernel.
pub fn was_sent(number: c_int) -> bool {
    SENT.fetch_and(!bit(number), Relaxed) & bit(number) != 0
}

extern "C" fn note(number: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: with SA_SIGINFO, the kernel passes a valid pointer.
    if unsafe { (*info).si_code } <= 0 {
        SENT.fetch_or(bit(number), Relaxed);
    }
    // SAFETY: it was set to a handler with SA_SIGINFO before this one was installed.
    unsafe {
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
            std::mem::transmute(HANDLER.load(Relaxed));
        handler(number, info, context);
    }
}

fn action(number: c_int) -> Option<sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: the action is written to its own memory, and used only on success.
    unsafe {
        (libc::sigaction(number, std::ptr::null(), action.as_mut_ptr()) == 0)
            .then(|| action.assume_init())
    }
}

fn bit(number: c_int) -> u64 {
    1 << number
}
