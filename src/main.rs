//! The program: what the library offers, from the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    cowbell::cli::main()
}
