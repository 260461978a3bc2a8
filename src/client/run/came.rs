//! How this program was started, and who sent it a signal: what neither Rust's nor tokio's run time keeps.
//!
//! Rust ignores SIGPIPE and opens what is closed of 0 to 2 before `main`, and unblocks all signals for a child. So we
//! look before that, and put it back in the child.

use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use libc::{c_int, c_void, sigaction, siginfo_t};

/// Those that Rust, tokio or we touch; all others reach the child as they came.
const TOUCHED: [c_int; 8] = [
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGPIPE,
    libc::SIGCHLD,
];

/// A bit for each signal that was ignored at the start.
static IGNORED: AtomicU64 = AtomicU64::new(0);
/// A bit for each signal that was blocked then.
static BLOCKED: AtomicU64 = AtomicU64::new(0);
/// A bit for each of input, output and errors that was closed then.
static CLOSED: AtomicU64 = AtomicU64::new(0);
/// A bit for each signal that a process sent since somebody last asked.
static SENT: AtomicU64 = AtomicU64::new(0);
/// Tokio's handler, the same for each signal.
static HANDLER: AtomicUsize = AtomicUsize::new(0);
/// Whether children that end are ours to be waited for, against what came.
static IS_WAITING: AtomicBool = AtomicBool::new(false);

#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Runs before Rust's own start.
extern "C" fn look() {
    for number in TOUCHED {
        if action(number).is_some_and(|action| action.sa_sigaction == libc::SIG_IGN) {
            IGNORED.fetch_or(bit(number), Relaxed);
        }
    }
    let mut blocked = MaybeUninit::uninit();
    // SAFETY: the mask is read into room of its own.
    if unsafe { libc::sigprocmask(libc::SIG_BLOCK, std::ptr::null(), blocked.as_mut_ptr()) } == 0 {
        // SAFETY: it was written just now.
        let blocked = unsafe { blocked.assume_init() };
        // SAFETY: each is a signal's number.
        let is_blocked = |number: &c_int| unsafe { libc::sigismember(&raw const blocked, *number) } == 1;
        BLOCKED.store((1..32).filter(is_blocked).map(bit).sum(), Relaxed);
    }
    for file in 0..3 {
        // SAFETY: it asks for flags.
        if unsafe { libc::fcntl(file, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(bit(file), Relaxed);
        }
    }
}

pub fn is_ignored(number: c_int) -> bool {
    IGNORED.load(Relaxed) & bit(number) != 0
}

/// Whether a child would find something else than we did.
pub fn is_changed() -> bool {
    is_ignored(libc::SIGPIPE)
        || IS_WAITING.load(Relaxed)
        || BLOCKED.load(Relaxed) != 0
        || CLOSED.load(Relaxed) != 0
}

/// In the child, right before the command: puts back what came. Only system calls are made here.
#[allow(clippy::unnecessary_wraps, reason = "what is run before a command may fail")]
pub fn restore() -> io::Result<()> {
    let (blocked, closed) = (BLOCKED.load(Relaxed), CLOSED.load(Relaxed));
    // SAFETY: all of them may be called between fork and exec.
    unsafe {
        for number in [libc::SIGPIPE, libc::SIGCHLD].into_iter().filter(|number| is_ignored(*number)) {
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

/// Where ended children were to vanish, nobody could wait for one.
pub fn wait_for_children() {
    if is_ignored(libc::SIGCHLD) {
        // SAFETY: it is the default.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        IS_WAITING.store(true, Relaxed);
    }
}

/// From now on it is known of this signal, which tokio catches, whether a process sent it.
pub fn note_senders(number: c_int) {
    let Some(mut action) = action(number).filter(|action| action.sa_flags & libc::SA_SIGINFO != 0) else {
        return;
    };
    HANDLER.store(action.sa_sigaction, Relaxed);
    action.sa_sigaction = note as *const () as usize;
    // SAFETY: the handler has the form that SA_SIGINFO asks for.
    unsafe { libc::sigaction(number, &raw const action, null_mut()) };
}

/// Whether a process sent this signal since it was last asked. What is typed at a terminal comes from the kernel.
pub fn was_sent(number: c_int) -> bool {
    SENT.fetch_and(!bit(number), Relaxed) & bit(number) != 0
}

extern "C" fn note(number: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives it with SA_SIGINFO.
    if unsafe { (*info).si_code } <= 0 {
        SENT.fetch_or(bit(number), Relaxed);
    }
    // SAFETY: it was the handler of a signal with SA_SIGINFO, and is never 0 here.
    unsafe {
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
            std::mem::transmute(HANDLER.load(Relaxed));
        handler(number, info, context);
    }
}

fn action(number: c_int) -> Option<sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: what is set is read into room of its own, which is taken where it was written.
    unsafe {
        (libc::sigaction(number, std::ptr::null(), action.as_mut_ptr()) == 0).then(|| action.assume_init())
    }
}

fn bit(number: c_int) -> u64 {
    1 << number
}
