//! The process: parse, run, one line on stderr where it fails, the exit code.

use std::process::ExitCode;

use clap::Parser;
use kubectl_vidra::arguments::Arguments;
use kubectl_vidra::error::Failure;
use kubectl_vidra::{FAILED, output, run};

/// 128 and the number of SIGINT, as shells have it.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(async {
            tokio::select! {
                biased;
                Ok(()) = tokio::signal::ctrl_c() => Ok(INTERRUPTED),
                ended = run(arguments) => ended,
            }
        }),
        Err(error) => Err(Failure::Input(format!("cannot start: {error}; try again"))),
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(Failure::Pipe) => ExitCode::SUCCESS,
        Err(failure) => {
            output::complain(&format!("error: {}", kubectl_vidra::text::clean(&failure.to_string())));
            ExitCode::from(FAILED)
        }
    }
}
