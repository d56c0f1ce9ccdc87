//! The hub's process: parse, run, and one line on stderr when it cannot.
#![expect(clippy::print_stderr, reason = "the last word of a process that fails is for its user")]

use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::Builder;
use vidra_hub::{cli::Flags, process, telemetry};

/// Chosen by measurement: docs/decisions/0017-allocator.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Of each thread, in bytes. A build without optimisation needs more than tokio's two MiB; what is not used takes no memory.
const STACK: usize = 8 << 20;

fn main() -> ExitCode {
    let flags = Flags::parse();
    telemetry::start(flags.json_logs, flags.default_log());
    let threads = flags.worker_threads();
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(threads).thread_stack_size(STACK).enable_all();
    let runtime = match runtime.build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("vidra-hub: cannot start its threads: {error}");
            return ExitCode::FAILURE;
        }
    };
    // On one of its threads, and not on this one beside them: each key is given out there, and would be handed from
    // thread to thread twice (docs/decisions/0023-half-as-many-threads-as-cores.md).
    let ended = match runtime.block_on(runtime.spawn(process::run(flags))) {
        Ok(ended) => ended.map_err(|error| error.to_string()),
        Err(_) => Err("it panicked; the log says where".to_owned()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vidra-hub: {error}");
            ExitCode::FAILURE
        }
    }
}
